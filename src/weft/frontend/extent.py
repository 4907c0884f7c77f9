"""Extents: concrete integers that know how they came about.

An `Extent` is the length of a dimension, or an int given to a compiled function: its value
in this call, and a polynomial over size variables that is valid for every call of the same
pattern. Whatever is decided from the value alone becomes a `Guard`: the program that is
being traced holds only where the guard does.

A size variable's name ends in ":" and its value, so that a graph needs no table of values.
Sizes that no polynomial expresses (a division) are variables too, each with a `Derived`.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from weft.errors import ArgumentTypeError, user_place
from weft.frontend.guards import Guard, record, tracing
from weft.sizes import Derived, Fact, Poly
from weft.sizes.division import divided
from weft.sizes.facts import Relation, SizeOperation, least

_counter = itertools.count()
_SMALL = 16  # literals up to this are constants of the program, larger ones size variables


class Extent:
    """An int in this call, a polynomial in every call of the pattern."""

    __slots__ = ("derived", "poly", "value")

    symbols: tuple[Any, ...] = ()  # those of `weft.frontend.symbolic`: there is no value then

    def __init__(self, value: int, poly: Poly, derived: tuple[Derived, ...] = ()) -> None:
        self.value = value
        self.poly = poly
        self.derived = derived

    @property
    def is_constant(self) -> bool:
        return self.poly.is_constant

    @property
    def is_undecided(self) -> bool:
        """Whether its value decides nothing: the run tells it, or a program is for any length."""
        return bool(self.symbols) or any("any" in name for name in self.poly.variables())

    # ------------------------------------------------------------ arithmetic

    def __add__(self, other: Any) -> Any:
        if isinstance(other, int):
            other = constant(other)
        elif not isinstance(other, Extent):
            return _as_scalar(operator.add, self, other)
        return Extent(self.value + other.value, self.poly + other.poly, merged(self, other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, int):
            other = constant(other)
        elif not isinstance(other, Extent):
            return _as_scalar(operator.sub, self, other)
        return Extent(self.value - other.value, self.poly - other.poly, merged(self, other))

    def __rsub__(self, other: Any) -> Any:
        if isinstance(other, int):
            return constant(other) - self
        return _as_scalar(operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, int):
            other = constant(other)
        elif not isinstance(other, Extent):
            if isinstance(other, list | tuple | str):
                return other * operator.index(self)
            return _as_scalar(operator.mul, self, other)
        return Extent(self.value * other.value, self.poly * other.poly, merged(self, other))

    __rmul__ = __mul__

    def __neg__(self) -> Extent:
        return Extent(-self.value, -self.poly, self.derived)

    def __pos__(self) -> Extent:
        return self

    def __abs__(self) -> Extent:
        return self if self >= 0 else -self

    def __floordiv__(self, other: Any) -> Any:
        if isinstance(other, int | Extent):
            return divide(self, as_extent(other))
        return _as_scalar(operator.floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        if isinstance(other, int):
            return divide(constant(other), self)
        return _as_scalar(operator.floordiv, other, self)

    def __mod__(self, other: Any) -> Any:
        if isinstance(other, int | Extent):
            return remainder(self, as_extent(other))
        return _as_scalar(operator.mod, self, other)

    def __rmod__(self, other: Any) -> Any:
        if isinstance(other, int):
            return remainder(constant(other), self)
        return _as_scalar(operator.mod, other, self)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __truediv__(self, other: Any) -> Any:
        return _as_scalar(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _as_scalar(operator.truediv, other, self)

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, int) and 0 <= other <= _SMALL:
            power: Any = constant(1)
            for _ in range(other):
                power = power * self
            return power
        return _as_scalar(operator.pow, self, other)

    def __rpow__(self, other: Any) -> Any:
        return _as_scalar(operator.pow, other, self)

    # ------------------------------------------------------------ decisions: guards

    def is_zero(self) -> bool:
        """Whether it is 0; what is not so for all sizes becomes a guard."""
        if not self.is_constant:
            _guard("!=0" if self.value else "==0", self)
        return self.value == 0

    def is_nonnegative(self) -> bool:
        """Whether it is >= 0, guarded unless it is so for all sizes."""
        known, answer = (self, True) if self.value >= 0 else (-self - 1, False)
        if not never_negative(known.poly):
            _guard(">=0", known)
        return answer

    def __index__(self) -> int:
        """The value, for good: the program now holds for this value only."""
        if not self.is_constant:
            _guard("==0", self - self.value)
        return self.value

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __bool__(self) -> bool:
        return not self.is_zero()

    def __round__(self, digits: Any = None) -> Any:
        return self if digits is None or digits >= 0 else round(self.__index__(), digits)

    def __trunc__(self) -> Extent:
        return self

    __floor__ = __ceil__ = __trunc__

    def bit_length(self) -> int:
        return self.__index__().bit_length()

    def __hash__(self) -> int:
        return hash(self.__index__())

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, int | Extent):
            if isinstance(other, float):
                return self.__index__() == other
            return NotImplemented
        return decide_equal(self, as_extent(other))

    def __ne__(self, other: object) -> Any:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __lt__(self, other: Any) -> Any:
        if not isinstance(other, int | Extent):
            return self.__index__() < other
        return not at_least(self, as_extent(other))

    def __le__(self, other: Any) -> Any:
        if not isinstance(other, int | Extent):
            return self.__index__() <= other
        return at_least(as_extent(other), self)

    def __gt__(self, other: Any) -> Any:
        if not isinstance(other, int | Extent):
            return self.__index__() > other
        return not at_least(as_extent(other), self)

    def __ge__(self, other: Any) -> Any:
        if not isinstance(other, int | Extent):
            return self.__index__() >= other
        return at_least(self, as_extent(other))

    # ------------------------------------------------------------ NumPy, and text

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return getattr(ufunc, method)(*map(_plain, inputs), **options)

    def __repr__(self) -> str:  # of shapes that are shown: decides nothing
        return str(self.value)

    def __str__(self) -> str:
        return str(self.__index__())

    def __format__(self, spec: str) -> str:
        return format(self.__index__(), spec)


def _install_bits() -> None:
    """Operations on the bits of an int, which no polynomial expresses: they take its value."""

    def exactly(operation: Callable[[Any, Any], Any], reflected: bool) -> Any:
        def method(self: Extent, other: Any) -> Any:
            if not isinstance(other, int | Extent):
                return NotImplemented
            left, right = self.__index__(), operator.index(other)
            return operation(right, left) if reflected else operation(left, right)

        return method

    for name in ("and", "or", "xor", "lshift", "rshift"):
        operation = getattr(operator, f"__{name}__")
        setattr(Extent, f"__{name}__", exactly(operation, False))
        setattr(Extent, f"__r{name}__", exactly(operation, True))
    setattr(Extent, "__invert__", lambda self: -self - 1)  # noqa: B010


_install_bits()


Dimension: TypeAlias = int | Extent
"""What users give and get as a length: an int, or (while tracing) an extent."""

_constants = {value: Extent(value, Poly.const(value)) for value in range(-_SMALL, 257)}


def constant(value: int) -> Extent:
    """An extent that is the same in every call."""
    found = _constants.get(value)
    return Extent(int(value), Poly.const(value)) if found is None else found


def variable(value: int, any_length: bool = False) -> Extent:
    """A fresh size variable; 0 and 1 are constants, negative values negated variables.

    With `any_length` it stands for 0 and 1 as well.
    """
    if value < 0:
        return -variable(-value, any_length)
    if any_length:
        return Extent(value, Poly.var(f"any{next(_counter)}:{value}"))
    if value < 2:
        return _constants[value]
    return Extent(value, Poly.var(f"n{next(_counter)}:{value}"))


def as_extent(value: Dimension) -> Extent:
    return value if isinstance(value, Extent) else constant(value)


def integer(value: Any) -> int:
    """An int that the user wrote where nothing else goes, of Python or NumPy."""
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentTypeError(
            f"a {type(value).__name__} as a length or an index", "an int", place=user_place()
        ) from None


def literal(value: Any) -> Extent:
    """An int that the user wrote.

    In a traced function it is a constant of the program; elsewhere it may be different on
    the next round of the user's loop, so all but small ones are size variables.
    """
    if isinstance(value, Extent):
        return value
    value = traced(value)
    if isinstance(value, Extent):
        return value
    value = integer(value)
    if tracing() or -_SMALL <= value <= _SMALL:
        return constant(value)
    return variable(value)


def variable_value(name: str) -> int:
    """The value of a size variable, which its name holds."""
    return int(name[name.index(":") + 1 :])


# ---------------------------------------------------------------- decisions


def decide_equal(left: Extent, right: Extent) -> bool:
    """Whether two extents are equal; what is not so for all sizes becomes a guard."""
    if left is right or left.poly == right.poly:
        return True
    difference: Extent = left - right
    return difference.is_zero()


def at_least(left: Extent, right: Extent) -> bool:
    """Whether left >= right, guarded unless it is so for all sizes."""
    difference: Extent = left - right
    return difference.is_nonnegative()


def require_equal(left: Extent, right: Extent) -> Extent:
    """The one length of two dimensions whose values were found equal."""
    if left is right or left.poly == right.poly:
        return left
    if left.is_constant:
        left, right = right, left
    difference = left - right
    if difference.symbols:
        decide_equal(left, right)
        return left
    _guard("==0", difference)
    return right if right.is_constant else left


def _guard(relation: Relation, extent: Extent) -> None:
    record([Guard(Fact(relation, extent.poly), extent.derived)])


def settle(names: Iterable[str]) -> None:
    """These size variables have their values for good: what is being traced holds for no others."""
    for name in names:
        if name[0] != "(":
            Extent(variable_value(name), Poly.var(name)).__index__()


def require_at_least(left: Extent, right: Extent) -> None:
    """A fact for the prover: left >= right, as their values were found to be."""
    difference = left - right
    if not difference.symbols and not never_negative(difference.poly):
        _guard(">=0", difference)


def never_negative(poly: Poly) -> bool:
    """Whether poly >= 0 is plain, given what plain size variables are at least."""
    total = 0
    for monomial, factor in poly.terms.items():
        if not monomial:
            total += factor
        elif factor < 0 or any(name[0] == "(" for name in monomial):
            return False
        elif all(map(least, monomial)):
            total += factor << len(monomial)
    return total >= 0


# ---------------------------------------------------------------- division


def divide(left: Extent, right: Extent) -> Extent:
    """left // right."""
    if left.symbols or right.symbols:
        return _chosen("floor_divide", left, right)
    if right.value == 0:
        raise ZeroDivisionError("integer division of a size by zero")
    if right.is_constant:
        exact = _exact_quotient(left.poly, right.value)
        if exact is not None:
            return Extent(left.value // right.value, exact, left.derived)
    return _derive("floordiv", left, right, left.value // right.value)


def remainder(left: Extent, right: Extent) -> Extent:
    """left % right."""
    if left.symbols or right.symbols:
        return _chosen("remainder", left, right)
    if right.value == 0:
        raise ZeroDivisionError("integer remainder of a size by zero")
    if right.is_constant and _exact_quotient(left.poly, right.value) is not None:
        return constant(0)
    return _derive("mod", left, right, left.value % right.value)


def smaller(left: Extent, right: Extent) -> Extent:
    """min(left, right), without deciding which."""
    if left.poly == right.poly:
        return left
    if left.symbols or right.symbols:
        return _chosen("minimum", left, right)
    return _derive("min", left, right, min(left.value, right.value))


def not_negative(extent: Extent) -> Extent:
    """max(extent, 0), without deciding which."""
    if extent.symbols:
        return _chosen("maximum", extent, constant(0))
    return extent if never_negative(extent.poly) else -smaller(-extent, constant(0))


def _exact_quotient(poly: Poly, divisor: int) -> Poly | None:
    if divisor and all(factor % divisor == 0 for factor in poly.terms.values()):
        return divided(poly, divisor)
    return None


def _derive(operation: SizeOperation, left: Extent, right: Extent, value: int) -> Extent:
    if left.is_constant and right.is_constant:
        return constant(value)
    name = f"({operation} {left.poly}, {right.poly})"
    derived = merged(left, right)
    entry = Derived(name, operation, left.poly, right.poly)
    if entry not in derived:
        derived = (*derived, entry)
    return Extent(value, Poly.var(name), derived)


def merged(left: Extent, right: Extent) -> tuple[Derived, ...]:
    if not right.derived:
        return left.derived
    if not left.derived or left.derived == right.derived:
        return right.derived
    return (*left.derived, *(entry for entry in right.derived if entry not in left.derived))


def product(extents: tuple[Extent, ...]) -> Extent:
    total = _constants[1]
    for extent in extents:
        total = extent if total.poly == 1 else total * extent
    return total


# ---------------------------------------------------------------- extents as scalars

choose: Callable[[str, Extent, Extent], Extent] | None = None
"""The extent that a scalar operation on two gives; set by `weft.frontend.symbolic`."""


def values(shape: Sequence[Extent]) -> tuple[Any, ...]:
    """A shape for people: ints, and extents that differ from round to round."""
    return tuple([extent if extent.symbols else extent.value for extent in shape])


def _chosen(operation: str, left: Extent, right: Extent) -> Extent:
    assert choose is not None
    return choose(operation, left, right)


scalar_of: Callable[[Extent], Any] | None = None
"""Makes a weak scalar array of an extent; set by `weft.array`, which knows arrays."""

extent_of: Callable[[Any], Extent | None] | None = None
"""The extent that a scalar array is, while tracing; None of what is none. Set likewise."""


def traced(value: Any) -> Any:
    """Integer scalars of a function being traced as extents; else what is given."""
    if isinstance(value, int | float) or extent_of is None:
        return value
    found = extent_of(value)
    return value if found is None else found


def _as_scalar(operation: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """`operation` on what is no int: extents that are not constant become scalar arrays.

    An array on the right is asked itself, which knows whether its dtype holds an int.
    """
    if hasattr(right, "_node"):
        return NotImplemented
    return operation(_plain(left), _plain(right))


def _plain(value: Any) -> Any:
    """An int of an extent that is constant, a scalar array of another."""
    if not isinstance(value, Extent):
        return value
    if value.is_constant:
        return value.value
    assert scalar_of is not None
    return scalar_of(value)
