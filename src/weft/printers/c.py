"""IMP to C11: one entry function, and one function for each parallel statement.

The text includes no header, so that compiling it costs only what it says. Math functions
of which libmvec has a vector form are declared `simd`; loops that call them are vectorised.
"""

from __future__ import annotations

import platform
import sys
from functools import cache

from weft.imp import nodes as imp
from weft.ops import dialects, helpers
from weft.printers.c_like import Dialect, Frame, Printer

C = Dialect(
    name="c",
    restrict="restrict",
    simd="#pragma omp simd{lanes}{reductions}",
    unroll="#pragma GCC unroll {count}",
    unroll_simd="",
    infinity="__builtin_inf()",
    nan='__builtin_nan("")',
    rounded="weft_rounded({})",
    optimised="weft_optimised",
)

_CONTEXT = """typedef struct weft_context weft_context;
struct weft_context {
    void (*parallel_for)(weft_context *, void (*)(void *, int64_t, int32_t), void *, int64_t);
    volatile int32_t *cancel;
    int32_t threads;
    int32_t error;
    int64_t detail[4];
    void (*parallel_in_order)(weft_context *, void (*)(void *, int64_t, int32_t), void *, int64_t);
    void (*roots)(double *, int64_t);
    void (*columns)(weft_context *, void *, int64_t, const void *, int64_t, int64_t, int64_t,
                    int64_t, int64_t);
};
"""
# Compilers that are to be quick are given another text: see `weft.runtime.tiers`.
_OPTIMISED = """#ifndef weft_optimised
#define weft_optimised 1
#endif
"""
_FAIL = """static __attribute__((cold, noinline)) void
weft_fail(weft_context *context, int32_t code, int64_t index, int64_t extent) {
    int32_t none = 0;
    if (__atomic_compare_exchange_n(&context->error, &none, code, 0, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
        context->detail[0] = index;
        context->detail[1] = extent;
    }
}
"""
_STOPPED = """static inline int weft_stopped(weft_context *context) {
    return *context->cancel | __atomic_load_n(&context->error, __ATOMIC_RELAXED);
}
"""
# Spinning gives way after a while: there may be more threads than cores.
_WAIT = """int sched_yield(void);
static int weft_wait(weft_context *context, const int64_t *address, int64_t value) {
    for (int spins = 1; __atomic_load_n(address, __ATOMIC_ACQUIRE) != value; spins++) {
        if (weft_stopped(context))
            return 1;
        if (spins % 1024 == 0)
            sched_yield();
    }
    return 0;
}
"""
_LOCK = """static int weft_lock(weft_context *context, int64_t *address) {
    while (__atomic_exchange_n(address, 1, __ATOMIC_ACQUIRE))
        if (weft_wait(context, address, 0))
            return 1;
    return 0;
}
"""
# Called for blocks of 2 KiB. A copy of it in each loop costs compilers more than calls cost.
_FLUSH = """#if defined(__clang__)
#define weft_past_caches(to, value) __builtin_nontemporal_store(value, (weft_half *)(to))
#elif defined(__AVX__)
#define weft_past_caches(to, value) __builtin_ia32_movntps256((float *)(to), value)
#else
#define weft_past_caches(to, value) (*(weft_half *)(to) = (value))
#endif
typedef float weft_half __attribute__((vector_size(32), may_alias));
/* `from` lies in its line as `to` does. What is left of a line stays for the next block: a part
 * of a line that is stored waits for the rest of it, and what is stored later waits behind it. */
static __attribute__((noinline)) void
weft_flush(char *to, char *from, int64_t size, int first, int last) {
    const int64_t begin = (int64_t)to & 63, end = begin + size;
    int64_t at = 0;
    to -= begin;
    if (first && begin) {
        at = end < 64 ? end : 64;
        __builtin_memcpy(to + begin, from + begin, at - begin);
    }
    for (; at + 64 <= end; at += 64) {
        weft_past_caches(to + at, *(const weft_half *)(from + at));
        weft_past_caches(to + at + 32, *(const weft_half *)(from + at + 32));
    }
    if (at < end && last)
        __builtin_memcpy(to + at, from + at, end - at);
    else if (at < end)
        __builtin_memcpy(from, from + at, 64);
}
"""


class CPrinter(Printer):
    dialect = C

    def __init__(self, program: imp.Program) -> None:
        super().__init__()
        self.program = program

    def view(self, view: imp.View) -> None:
        pointer = view.pointer
        self.frame.declared.add(pointer.name)
        if not view.alone:
            self.shared.add(pointer.name)
        block = self.program.buffers if view.block < 0 else view.block
        offset = "" if view.offset == imp.ZERO else f" + {self.expr(view.offset)}"
        base = f"buffers[{block}]" if not self.frame.in_tile else f"closure->buffers[{block}]"
        self.line(f"{self.pointer(pointer)} = (void *)({base}{offset});")

    def pointer(self, pointer: imp.Pointer) -> str:
        restrict = "" if pointer.name in self.shared else "restrict "
        return f"{self.type(pointer.dtype)} *{restrict}const {pointer.name}"

    def local_array(self, type_: str, name: str, extent: int) -> None:
        self.line(f"{type_} {name}[{extent}] __attribute__((aligned(64)));")

    def choose(self, choose: imp.Choose) -> None:
        pointer = choose.pointer
        self.shared.add(pointer.name)
        far = f"{self.name(choose.far)} + {self.expr(choose.index)}"
        near = self.name(choose.near)
        if choose.in_line:
            near = f"(void *)((char *){near} + ((int64_t)({far}) & 63))"
        chosen = f"{self.expr(choose.condition)} ? {near} : {far}"
        self.line(f"{self.pointer(pointer)} = {chosen};")

    def advance(self, pointer: imp.Pointer, address: str) -> None:
        self.shared.add(pointer.name)
        self.line(f"{self.pointer(pointer)} = {address};")

    def flush(self, to: str, source: str, size: str, ends: str) -> None:
        self.line(f"weft_flush((char *)({to}), (char *){source}, {size}, {ends});")

    def roots(self, near: str, count: str) -> None:
        self.line(f"context->roots({near}, {count});")

    def columns(self, copied: imp.Columns) -> None:
        to = f"{self.name(copied.target)} + {self.expr(copied.at)}, {self.expr(copied.between)}"
        of = f"{self.name(copied.source)} + {self.expr(copied.index)}"
        lie = f"{self.expr(copied.apart)}, {self.expr(copied.step)}, {copied.columns}"
        size = f"{self.expr(copied.records)}, {copied.target.dtype.itemsize}"
        self.line(f"context->columns(context, {to}, {of}, {lie}, {size});")
        self.poll()

    def prefetch(self, address: str) -> None:
        self.line(f"__builtin_prefetch({address});")

    def parallel(self, parallel: imp.Parallel) -> None:
        outer, depth, self.depth = self.frame, self.depth, 0
        self.frame = frame = Frame(in_tile=True)
        frame.declared |= {parallel.tile.name, parallel.thread.name}
        self.block(parallel.body)
        self.frame, self.depth = outer, depth
        free = [what for name, what in frame.used.items() if name not in frame.declared]
        for what in free:
            self.name(what)
        number = len(self.functions)
        self.functions.append(self._tile_function(number, parallel, free, frame.lines))
        values = "".join(f", {what.name}" for what in free)
        self.line("{")
        self.line(f"    struct closure_{number} closure = {{context, buffers{values}}};")
        tiles = self.bare(parallel.tiles)
        function = "parallel_in_order" if parallel.ordered else "parallel_for"
        self.line(f"    context->{function}(context, tile_{number}, &closure, {tiles});")
        self.line("}")
        self.poll()

    def _tile_function(
        self,
        number: int,
        parallel: imp.Parallel,
        free: list[imp.Var | imp.Pointer],
        body: list[str],
    ) -> str:
        fields, copies = [], []
        for what in free:
            type_ = self.type(what.dtype)
            if isinstance(what, imp.Pointer):
                fields.append(f"    {type_} *{what.name};")
                copies.append(f"    {self.pointer(what)} = closure->{what.name};")
            else:
                fields.append(f"    {type_} {what.name};")
                copies.append(f"    const {type_} {what.name} = closure->{what.name};")
        head = [
            f"struct closure_{number} {{", "    weft_context *context;",
            "    char *const *buffers;", *fields, "};",
            f"static void tile_{number}(void *argument, int64_t {parallel.tile.name},"
            f" int32_t {parallel.thread.name}) {{",
            f"    const struct closure_{number} *const closure = argument;",
            "    weft_context *const context = closure->context;",
        ]  # fmt: skip
        return "\n".join([*head, *copies, *body, "}", ""])

    def leave(self) -> str:
        return "return;" if self.frame.in_tile else "return context->error ? context->error : 1;"

    def poll(self) -> None:
        self.line(f"if (weft_stopped(context)) {self.leave()}")

    def fail(self, code: int, index: str, extent: str, stays: bool) -> None:
        self.line(f"weft_fail(context, {code}, {index}, {extent});")
        self.line(self.leave())

    def wait(self, address: str, value: str) -> None:
        self.line(f"if (weft_wait(context, {address}, {value})) {self.leave()}")

    def publish(self, address: str, value: str) -> None:
        self.line(f"__atomic_store_n({address}, {value}, __ATOMIC_RELEASE);")

    def lock(self, address: str) -> None:
        self.line(f"if (weft_lock(context, {address})) {self.leave()}")


@cache
def host_libmvec() -> tuple[int, int] | None:
    """The version of glibc here, where it comes with vector math functions."""
    name, version = platform.libc_ver() if sys.platform == "linux" else ("", "")
    if name != "glibc" or platform.machine() != "x86_64":
        return None
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def declarations(text: str, libmvec: tuple[int, int] | None) -> list[str]:
    """Prototypes of the C library's functions that a text calls."""
    lines = []
    for name in dialects.libm_functions(text):
        since = dialects.libmvec_since(name)
        if since is not None and libmvec is not None and libmvec >= since:
            lines.append("#pragma omp declare simd notinbranch")
        lines.append(f"__attribute__((const)) {dialects.libm_prototype(name)}")
    return lines


def print_program(program: imp.Program, libmvec: tuple[int, int] | None = None) -> str:
    """The C text of a program (for this machine's libmvec where none is named)."""
    printer = CPrinter(program)
    for position, var in enumerate(program.integers):
        printer.frame.declared.add(var.name)
        printer.line(f"const int64_t {var.name} = integers[{position}];")
    printer.depth = 0
    printer.block(program.body)
    entry = [
        f"__attribute__((visibility(\"default\"))) int32_t {program.name}(weft_context *context,"
        " char *const *buffers, const int64_t *integers) {",
        *printer.frame.lines,
        "    return 0;",
        "}",
        "",
    ]  # fmt: skip
    text = "\n".join([*printer.functions, *entry])
    needed = list(helpers.needed_helpers("c", text))
    support = [_OPTIMISED] if C.optimised in text else []
    support += [_FAIL] if "weft_fail(" in text else []
    support += [_WAIT] if "weft_wait(" in text or "weft_lock(" in text else []
    support += [_LOCK] if "weft_lock(" in text else []
    support += [_FLUSH] if "weft_flush(" in text else []
    math = declarations("".join(needed) + text, libmvec or host_libmvec())
    return "\n".join([dialects.TYPEDEFS, _CONTEXT + _STOPPED, *support, *math, *needed, text])
