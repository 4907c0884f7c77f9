"""Helper functions that spellings call: `weft_<operation>_<dtype>`.

Written once for all dialects in a small template language: `@T` is the dtype's type, `@U`
its unsigned counterpart, `@W` an unsigned type of at least 32 bits, `@R` the real type,
`@B` the width in bits, `@s` the dtype's name, `@r` the real one's, `@constant(` asks whether the
compiler knows a value (0 in dialects that cannot tell), and `@name(` calls a function of <math.h>.
Those of complex numbers, which are for C alone, round products first (`weft.imp.round_products`).
"""

from __future__ import annotations

import re
from functools import cache

from weft.ops.dialects import QUALIFIER, UNSIGNED, Dialect, call_name, type_name
from weft.ops.dtypes import DType

# See `weft.imp.round_products`. gcc 12 has what keeps it from contracting, others need none.
_ROUNDED = """#if defined(__has_builtin)
#if __has_builtin(__builtin_assoc_barrier)
#define weft_rounded(product) __builtin_assoc_barrier(product)
#endif
#endif
#ifndef weft_rounded
#define weft_rounded(product) (product)
#endif
"""

# name -> (kinds, result and parameters, body). Order matters: callees come first.
_INTEGER = {
    "floor_divide": (
        "i",
        "@T(@T a, @T b)",
        """
    @T d = (b == 0) | (b == -1) ? 1 : b; /* neither trap nor overflow */
    @T q = (@T)(a / d - ((a % d != 0) & ((a < 0) != (d < 0))));
    return b == 0 ? 0 : b == -1 ? (@T)((@W)0 - (@W)a) : q;""",
    ),
    "remainder": (
        "i",
        "@T(@T a, @T b)",
        """
    @T d = (b == 0) | (b == -1) ? 1 : b;
    @T r = (@T)(a % d);
    return (@T)(r + ((r != 0) & ((r < 0) != (d < 0)) ? d : 0));""",
    ),
    "shift_left": (
        "iu",
        "@T(@T a, @T n)",
        """
    int inside = (@U)n < @B;
    return inside ? (@T)((@W)a << (inside ? n : 0)) : 0;""",
    ),
    "shift_right": (
        "iu",
        "@T(@T a, @T n)",
        """
    int inside = (@U)n < @B;
    return inside ? (@T)(a >> (inside ? n : 0)) : (@T)(a < 0 ? -1 : 0);""",
    ),
}
_UNSIGNED = {
    "floor_divide": (
        "u",
        "@T(@T a, @T b)",
        """
    return b == 0 ? 0 : (@T)(a / (b == 0 ? 1 : b));""",
    ),
    "remainder": (
        "u",
        "@T(@T a, @T b)",
        """
    return b == 0 ? 0 : (@T)(a % (b == 0 ? 1 : b));""",
    ),
    "pow": (
        "u",
        "@T(@T a, @T n)",
        """
    @W power = 1, base = a;
    for (; n; n = (@T)(n >> 1), base *= base)
        if (n & 1)
            power *= base;
    return (@T)power;""",
    ),
}
_SIGNED = {
    "pow": (
        "i",
        "@T(@T a, @T n)",
        """
    @W power = 1, base = (@W)a;
    if (n < 0) /* 1 / a**-n, rounded towards zero */
        return a == 1 ? 1 : a == -1 ? (n & 1 ? -1 : 1) : 0;
    for (; n; n = (@T)(n >> 1), base *= base)
        if (n & 1)
            power *= base;
    return (@T)power;""",
    ),
    "abs": (
        "i",
        "@T(@T a)",
        """
    return a < 0 ? (@T)((@W)0 - (@W)a) : a;""",
    ),
}
_ORDER = {
    "maximum": (
        "iu",
        "@T(@T a, @T b)",
        """
    return a > b ? a : b;""",
    ),
    "minimum": (
        "iu",
        "@T(@T a, @T b)",
        """
    return a < b ? a : b;""",
    ),
}
_FLOAT = {
    "maximum": (
        "f",
        "@T(@T a, @T b)",
        """
    if (@constant(b) && b == b) /* a chain of them stays simple: clip */
        return b >= a ? b : a;
    @T best = a > b ? a : b; /* the processor's own instruction */
    return a != a ? a : best;""",
    ),
    "minimum": (
        "f",
        "@T(@T a, @T b)",
        """
    if (@constant(b) && b == b)
        return b <= a ? b : a;
    @T best = a < b ? a : b;
    return a != a ? a : best;""",
    ),
    "fmax": (
        "f",
        "@T(@T a, @T b)",
        """
    @T best = a > b ? a : b;
    return b != b ? a : best;""",
    ),
    "fmin": (
        "f",
        "@T(@T a, @T b)",
        """
    @T best = a < b ? a : b;
    return b != b ? a : best;""",
    ),
    "sign": (
        "f",
        "@T(@T a)",
        """
    return a != a ? a : (@T)((a > 0) - (a < 0));""",
    ),
    "isnan": (
        "f",
        "@Y(@T a)",
        """
    return a != a;""",
    ),
    "isinf": (
        "f",
        "@Y(@T a)",
        """
    return (a == a) & (a - a != 0);""",
    ),
    "floor_divide": (
        "f",
        "@T(@T a, @T b)",
        """
    @T r = @fmod(a, b);
    @T q = (a - r) / b - ((r != 0) & ((b < 0) != (r < 0)));
    @T whole = @floor(q);
    whole += q - whole > (@T)0.5;
    whole = q == 0 ? @copysign((@T)0, a / b) : whole;
    return b == 0 ? a / b : whole;""",
    ),
    "remainder": (
        "f",
        "@T(@T a, @T b)",
        """
    @T r = @fmod(a, b);
    r = r == 0 ? @copysign((@T)0, b) : (b < 0) != (r < 0) ? r + b : r;
    return r;""",
    ),
    # By bits: of `c ? a : b`, compilers load what one side alone needs where it is needed, and
    # have no vector form of such loads of every second element.
    "choose": (
        "f",
        "@T(@Y c, @T a, @T b)",
        """
    @W x, y;
    __builtin_memcpy(&x, &a, sizeof x);
    __builtin_memcpy(&y, &b, sizeof y);
    y ^= (x ^ y) & -(@W)c;
    __builtin_memcpy(&b, &y, sizeof b);
    return b;""",
    ),
    "logaddexp": (
        "f",
        "@T(@T a, @T b)",
        """
    @T apart = a == b ? 0 : @fabs(a - b); /* inf and inf too */
    return (a >= b ? a : b) + @log1p(@exp(-apart));""",
    ),
}
_COMPLEX = {
    "multiply": (
        "c",
        "@T(@T a, @T b)",
        """
    @R ar = __real__ a, ai = __imag__ a, br = __real__ b, bi = __imag__ b;
    return __builtin_complex(weft_rounded(ar * br) - weft_rounded(ai * bi),
                             weft_rounded(ar * bi) + weft_rounded(ai * br));""",
    ),
    # Smith's algorithm, as NumPy's: no overflow on the way where the result has none.
    "divide": (
        "c",
        "@T(@T a, @T b)",
        """
    @R ar = __real__ a, ai = __imag__ a, br = __real__ b, bi = __imag__ b;
    @R rows = @fabs(br), columns = @fabs(bi), ratio, scale;
    if (rows >= columns) {
        if (rows == 0 && columns == 0)
            return __builtin_complex(ar / rows, ai / rows);
        ratio = bi / br;
        scale = 1 / (br + bi * ratio);
        return __builtin_complex((ar + weft_rounded(ai * ratio)) * scale,
                                 (ai - weft_rounded(ar * ratio)) * scale);
    }
    ratio = br / bi;
    scale = 1 / (bi + br * ratio);
    return __builtin_complex((weft_rounded(ar * ratio) + ai) * scale,
                             (weft_rounded(ai * ratio) - ar) * scale);""",
    ),
    "reciprocal": (
        "c",
        "@T(@T a)",
        """
    @R r = __real__ a, i = __imag__ a, ratio, size;
    if (@fabs(i) <= @fabs(r)) {
        ratio = i / r;
        size = r + i * ratio;
        return __builtin_complex(1 / size, -ratio / size);
    }
    ratio = r / i;
    size = r * ratio + i;
    return __builtin_complex(ratio / size, -1 / size);""",
    ),
    # Scaled by powers of two, so that squares neither overflow nor vanish; in float64 there is no
    # need to for float32's. Without branches, unlike hypot, so that loops vectorise.
    "abs": (
        "c",
        "@R(@T a)",
        """
    double r = __builtin_fabs(__real__ a), i = __builtin_fabs(__imag__ a), most = r > i ? r : i;
    int small = sizeof(@R) > 4 && most < 0x1p-480, large = sizeof(@R) > 4 && most > 0x1p480;
    double up = small ? 0x1p600 : large ? 0x1p-600 : 1;
    double down = small ? 0x1p-600 : large ? 0x1p600 : 1;
    double x = r * up, y = i * up, size = __builtin_sqrt(x * x + y * y) * down;
    double infinite = __builtin_inf();
    return (@R)((r == infinite) | (i == infinite) ? infinite : size); /* beside a NaN too */""",
    ),
    "where": (
        "c",
        "@T(@Y c, @T a, @T b)",
        """
    return __builtin_complex(weft_choose_@r(c, __real__ a, __real__ b),
                             weft_choose_@r(c, __imag__ a, __imag__ b));""",
    ),
    "isnan": (
        "c",
        "@Y(@T a)",
        """
    return (__real__ a != __real__ a) | (__imag__ a != __imag__ a);""",
    ),
    "isfinite": (
        "c",
        "@Y(@T a)",
        """
    return (__real__ a - __real__ a == 0) & (__imag__ a - __imag__ a == 0);""",
    ),
    "isinf": (
        "c",
        "@Y(@T a)",
        """
    @R r = __real__ a, i = __imag__ a;
    return ((r == r) & (r - r != 0)) | ((i == i) & (i - i != 0));""",
    ),
    "sign": (
        "c",
        "@T(@T a)",
        """
    @R r = __real__ a, i = __imag__ a, size = weft_abs_@s(a);
    @R rinf = (r == r) & (r - r != 0), iinf = (i == i) & (i - i != 0);
    if (size == 0)
        return 0;
    if (rinf != iinf && size == size) /* one infinite part gives the direction */
        return rinf ? __builtin_complex((@R)(r > 0 ? 1 : -1), (@R)0)
                    : __builtin_complex((@R)0, (@R)(i > 0 ? 1 : -1));
    r = rinf != 0 ? r - r : r;
    return __builtin_complex(r / size, rinf != 0 || size != size ? r - r : i / size);""",
    ),
    "round": (
        "c",
        "@T(@T a)",
        """
    return __builtin_complex(@rint(__real__ a), @rint(__imag__ a));""",
    ),
    "pow": (
        "c",
        "@T(@T a, @T b)",
        """
    @R exponent = __real__ b;
    if (b == 0)
        return 1;
    if (a == 0)
        return exponent > 0 ? (@T)0 : __builtin_complex(
            (exponent - exponent) / (@R)0, (exponent - exponent) / (@R)0);
    if (b == 1)
        return a;
    if (b == 2 || b == 3) {
        @T square = weft_multiply_@s(a, a);
        return exponent < 3 ? square : weft_multiply_@s(square, a);
    }
    if (__imag__ b == 0 && exponent > -100 && exponent < 100 && @floor(exponent) == exponent) {
        int n = exponent < 0 ? (int)-exponent : (int)exponent;
        @T power = 1;
        for (; n; n >>= 1, a = weft_multiply_@s(a, a))
            if (n & 1)
                power = weft_multiply_@s(power, a);
        return exponent < 0 ? weft_divide_@s(1, power) : power;
    }
    return @cpow(a, b);""",
    ),
    "expm1": (
        "c",
        "@T(@T a)",
        """
    @R r = __real__ a, i = __imag__ a, sine = @sin(i / 2);
    return __builtin_complex(@expm1(r) * @cos(i) - 2 * sine * sine, @exp(r) * @sin(i));""",
    ),
    "log1p": (
        "c",
        "@T(@T a)",
        """
    @R r = __real__ a + 1, i = __imag__ a;
    return __builtin_complex(@log(@hypot(r, i)), @atan2(i, r));""",
    ),
    "scaled_log": (
        "c",
        "@T(@T a, @R scale)",
        """
    @T log = @clog(a);
    return __builtin_complex(__real__ log * scale, __imag__ log * scale);""",
    ),
    "exp2": (
        "c",
        "@T(@T a)",
        """
    @R scale = (@R)0.693147180559945309417232121458176568;
    return @cexp(__builtin_complex(__real__ a * scale, __imag__ a * scale));""",
    ),
}

# Conversions of floats to integers, with the results of x86-64's instructions (see casts).
_CAST = {
    "to_i32": (
        "f",
        "@I32(@T a)",
        """
    return (a >= (@T)-2147483648.0) & (a < (@T)2147483648.0) ? (@I32)a : (@I32)-2147483647 - 1;""",
    ),
    "to_i64": (
        "f",
        "@I64(@T a)",
        """
    return (a >= (@T)-9223372036854775808.0) & (a < (@T)9223372036854775808.0)
        ? (@I64)a : -(@I64)9223372036854775807 - 1;""",
    ),
    "to_u64": (
        "f",
        "@U64(@T a)",
        """
    @T middle = (@T)9223372036854775808.0;
    return a >= middle ? (@U64)weft_to_i64_@s(a - middle) + ((@U64)1 << 63)
                     : (@U64)weft_to_i64_@s(a);""",
    ),
}
_GROUPS = (_INTEGER, _UNSIGNED, _SIGNED, _ORDER, _FLOAT, _COMPLEX, _CAST)
_CALL = re.compile(r"@([a-z]\w+)\(")
_NAME = re.compile(r"\bweft_\w+")


def _expand(text: str, dialect: Dialect, dtype: DType) -> str:
    wide = DType.U64 if dtype.itemsize == 8 else DType.U32
    text = text.replace("@constant(", "__builtin_constant_p(" if dialect == "c" else "0 && (")
    text = _CALL.sub(lambda m: call_name(dialect, m[1], dtype) + "(", text)
    for key, value in (
        ("@I32", DType.I32), ("@I64", DType.I64), ("@U64", DType.U64), ("@Y", DType.BOOL),
        ("@T", dtype), ("@U", UNSIGNED.get(dtype, dtype)), ("@W", wide), ("@R", dtype.real),
    ):  # fmt: skip
        text = text.replace(key, type_name(dialect, value))
    text = text.replace("@s", dtype.value).replace("@r", dtype.real.value)
    return text.replace("@B", str(8 * dtype.itemsize))


@cache
def _templates(dialect: Dialect) -> dict[str, tuple[str, DType]]:
    """What all helper functions of a dialect are made of, by name, callees before callers."""
    found: dict[str, tuple[str, DType]] = {}
    for group in _GROUPS:
        for base, (kinds, signature, body) in group.items():
            for dtype in DType:
                if dtype.kind not in kinds or (dtype.is_complex and dialect != "c"):
                    continue
                name = f"weft_{base}_{dtype}"
                result, params = signature.split("(")
                head = f"{QUALIFIER[dialect]} {result} {name}({params} {{"
                found[name] = f"{head}{body}\n}}\n", dtype
    return found


@cache
def helper(dialect: Dialect, name: str) -> str:
    """The text of a helper function."""
    template, dtype = _templates(dialect)[name]
    return _expand(template, dialect, dtype)


def needed_helpers(dialect: Dialect, text: str) -> tuple[str, ...]:
    """The texts of the helpers that a program text calls, callees before callers."""
    known = _templates(dialect)
    needed: set[str] = set()
    pending = [text]
    while pending:
        for name in set(_NAME.findall(pending.pop())) & known.keys():
            if name not in needed:
                needed.add(name)
                pending.append(helper(dialect, name))
    found = tuple(helper(dialect, name) for name in known if name in needed)
    rounds = any("weft_rounded(" in part for part in (text, *found))
    return (_ROUNDED, *found) if rounds else found
