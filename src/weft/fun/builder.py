"""Building FUN: fresh names, and a list of statements that grows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.ops.dtypes import DType
from weft.sizes import Derived, Poly, Size, as_poly
from weft.sizes.facts import SizeOperation

_SUFFIX = re.compile(r"_\d+$")


class Names:
    """Fresh names for one program, so that printed IR is the same on every run."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = set(taken)
        self.next: dict[str, int] = {}

    @staticmethod
    def of(program: fun.Program) -> Names:
        """Names that avoid every name of a program."""
        names = Names(program.sizes)
        names.taken.update(derived.name for derived in program.derived)
        names.taken.update(param.name for param in program.params)
        for let in walk.statements(program.body):
            names.taken.update(var.name for var in let.pattern)
            names.taken.update(var.name for var in walk.operands(let.expr)[2])
        return names

    def copy(self) -> Names:
        """Names that go on from here by themselves."""
        names = Names(self.taken)
        names.next = dict(self.next)
        return names

    def fresh(self, base: str) -> str:
        """A new name made of `base` (without its number) and the next free number."""
        base = _SUFFIX.sub("", base)
        number = self.next.get(base, 0)
        while f"{base}_{number}" in self.taken:
            number += 1
        self.next[base] = number + 1
        name = f"{base}_{number}"
        self.taken.add(name)
        return name


def derive(
    derived: list[Derived], names: Names, operation: SizeOperation, left: Size, right: Size,
    base: str,
) -> Size:  # fmt: skip
    """A derived size: computed now where it is constant, else one of `derived`, or added to it."""
    if left.is_constant and right.is_constant:
        return as_poly(Derived("", operation, left, right).evaluate({}))
    for known in derived:
        if (known.operation, known.left, known.right) == (operation, left, right):
            return Poly.var(known.name)
    name = names.fresh(base)
    derived.append(Derived(name, operation, left, right))
    return Poly.var(name)


def polynomial(expr: fun.Expr, size: Callable[[fun.Atom], Size]) -> Size | None:
    """An integer as a polynomial of what `size` gives for its operands; None where it is none."""
    match expr:
        case fun.SizeValue(value):
            return value
        case fun.Apply("add", (left, right)):
            return size(left) + size(right)
        case fun.Apply("subtract", (left, right)):
            return size(left) - size(right)
        case fun.Apply("multiply", (left, right)):
            return size(left) * size(right)
    return None


class Builder:
    """Collects the statements of one body.

    It remembers how int64 scalars were computed from others by `add`, `subtract` and
    `multiply`, so that an index written with scalar operations becomes a polynomial.
    """

    def __init__(self, names: Names, outer: Builder | None = None) -> None:
        self.names = names
        self.statements: list[fun.Let] = []
        self.place: Place | None = None if outer is None else outer.place
        self.polynomials: dict[str, Size] = {} if outer is None else dict(outer.polynomials)

    def inner(self) -> Builder:
        """A builder for a body inside this one."""
        return Builder(self.names, self)

    def var(self, base: str, type_: fun.Type) -> fun.Var:
        return fun.Var(self.names.fresh(base), type_)

    def index(self, base: str = "i") -> fun.Var:
        return self.var(base, fun.Scalar(DType.I64))

    def bind(
        self, expr: fun.Expr, types: tuple[fun.Type, ...], base: str = "t"
    ) -> tuple[fun.Var, ...]:
        """`let fresh names : types = expr`."""
        pattern = tuple(self.var(base, type_) for type_ in types)
        self.statements.append(fun.Let(pattern, expr, self.place))
        return pattern

    def let(self, expr: fun.Expr, type_: fun.Type, base: str = "t") -> fun.Var:
        """`bind` of one variable; remembers its polynomial where it has one."""
        (var,) = self.bind(expr, (type_,), base)
        polynomial = self._polynomial(expr, type_)
        if polynomial is not None:
            self.polynomials[var.name] = polynomial
        return var

    def size(self, atom: fun.Atom) -> Size:
        """An int64 scalar as a polynomial (itself a variable, where nothing is known)."""
        if isinstance(atom, fun.Const):
            return as_poly(int(atom.value.real))
        return self.polynomials.get(atom.name, Poly.var(atom.name))

    def scalar(self, size: Size) -> fun.Atom:
        """A polynomial as an int64 scalar: a constant, a variable in scope, or a new one."""
        if size.is_constant:
            return fun.Const(size.constant, DType.I64)
        return self.let(fun.SizeValue(size), fun.Scalar(DType.I64), "s")

    def body(self, results: Iterable[fun.Atom]) -> fun.Body:
        return fun.Body(tuple(self.statements), tuple(results))

    def _polynomial(self, expr: fun.Expr, type_: fun.Type) -> Size | None:
        if not (isinstance(type_, fun.Scalar) and type_.dtype is DType.I64):
            return None
        if isinstance(expr, fun.Apply) and expr.operation == "negative":
            return -self.size(expr.arguments[0])
        return polynomial(expr, self.size)
