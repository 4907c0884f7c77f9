"""Extents without a value: of loop indices, and of int64 scalars that the program computes.

Such an extent is a polynomial over size variables and *symbols*; a symbol is a scalar node,
with extents that bound it. A question about it is decided for all values of the symbols at
once: sizes are equal where the factors of each product of symbols are, and a size is not
negative where it is not at the ends of the symbols' ranges. Either leaves questions about
known extents, which are decided by their values, under guards (`weft.frontend.extent`).
What is not decided so is refused, never guessed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NoReturn

from weft.errors import ShapeError, TracingError, user_place
from weft.frontend import extent as extents
from weft.frontend import operations
from weft.frontend.elementwise import apply
from weft.frontend.extent import (
    Extent,
    constant,
    decide_equal,
    merged,
    never_negative,
    variable_value,
)
from weft.frontend.graph import Node, scopes_around, size_scalar
from weft.frontend.guards import Guard, chosen, record
from weft.ops.dtypes import DType
from weft.records import dataclass
from weft.sizes import Fact, Poly

_counter = itertools.count()
_ONE, _ZERO = constant(1), constant(0)


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """A scalar that extents depend on.

    Attributes
    ----------
    node : Node
        An int64 scalar.
    name : str
        The polynomials' variable: "@", a number (inner symbols have higher ones), a name.
    lower, upper : tuple of Extent
        Each is at most (at least) the scalar, in every round.
    either : tuple of Extent
        Of which it is one, in every round.
    known : Extent or None
        What it was computed to be before, by another program.
    """

    node: Node
    name: str
    lower: tuple[Extent, ...] = ()
    upper: tuple[Extent, ...] = ()
    either: tuple[Extent, ...] = ()
    known: Extent | None = None

    @property
    def number(self) -> int:
        return int(self.name[1 : self.name.index(":")])


class Symbolic(Extent):
    """An extent that depends on symbols (at least one)."""

    __slots__ = ("symbols",)

    def __init__(
        self, poly: Poly, derived: tuple[Any, ...] = (), symbols: tuple[Symbol, ...] = ()
    ) -> None:
        self.poly = poly
        self.derived = derived
        self.symbols = symbols

    @property
    def value(self) -> int:  # type: ignore[override]
        self._undecided("its value")

    def _undecided(self, question: str) -> NoReturn:
        raise TracingError(
            f"{question} is asked of the size {self}, which differs from round to round",
            "a size that is the same in every round",
            "wf.where, wf.minimum and wf.maximum on sizes, or wf.assume(...) before the loop",
            place=user_place(),
        )

    # ------------------------------------------------------------ arithmetic

    def __add__(self, other: Any) -> Any:
        if isinstance(other, int | Extent):
            return _made(self.poly + _poly(other), self, other)
        return super().__add__(other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, int | Extent):
            return _made(self.poly - _poly(other), self, other)
        return super().__sub__(other)

    def __rsub__(self, other: Any) -> Any:
        if isinstance(other, int | Extent):
            return _made(_poly(other) - self.poly, self, other)
        return super().__rsub__(other)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, int | Extent):
            return _made(self.poly * _poly(other), self, other)
        return super().__mul__(other)

    __rmul__ = __mul__

    def __neg__(self) -> Extent:
        return _made(-self.poly, self)

    # ------------------------------------------------------------ decisions

    def __index__(self) -> int:
        self._undecided("its value")

    __int__ = __index__

    def __hash__(self) -> int:
        return hash(self.poly)

    def is_zero(self) -> bool:
        if not self._always_zero():
            if not (_proved(self - 1) or _proved(-self - 1)):
                self._undecided("whether it is 0")
            return False
        for factor in self._factors():
            decide_equal(factor, _ZERO)
        return True

    def is_nonnegative(self) -> bool:
        for extent, answer in ((self, True), (-self - 1, False)):
            guards = _nonnegative(extent)
            if guards is not None:
                record(guards)
                return answer
        self._undecided("whether it is negative")

    def _always_zero(self) -> bool:
        return all(factor.value == 0 for factor in self._factors())

    def _factors(self) -> list[Extent]:
        """The factors of each product of symbols, which are known extents."""
        names = {symbol.name for symbol in self.symbols}
        grouped: dict[tuple[str, ...], dict[tuple[str, ...], int]] = {}
        for monomial, factor in self.poly.terms.items():
            product = tuple(name for name in monomial if name in names)
            rest = tuple(name for name in monomial if name not in names)
            grouped.setdefault(product, {})[rest] = factor
        return [_made(Poly(terms), self) for terms in grouped.values()]

    # ------------------------------------------------------------ text

    def __repr__(self) -> str:
        """With the values of this call for what has one: `3*i + 7`."""
        shown: dict[str, Poly | int] = dict(_values(self.poly, self.derived))
        for symbol in self.symbols:
            shown[symbol.name] = Poly.var(symbol.name[symbol.name.index(":") + 1 :])
        return str(self.poly.substitute(shown))

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)


def _poly(value: int | Extent) -> Poly:
    return value.poly if isinstance(value, Extent) else Poly.const(value)


def _made(poly: Poly, *sources: int | Extent) -> Extent:
    """The extent of a polynomial made of others: a known one where no symbol is left."""
    if poly.is_constant:
        return constant(poly.constant)
    left, right = (*[s for s in sources if isinstance(s, Extent)], _ZERO)[:2]
    derived = merged(left, right)
    names = poly.variables()
    symbols = {s.name: s for source in (left, right) for s in source.symbols if s.name in names}
    if symbols:
        return Symbolic(poly, derived, tuple(symbols.values()))
    return Extent(poly.evaluate(_values(poly, derived)), poly, derived)


def _values(poly: Poly, derived: Iterable[Any]) -> dict[str, int]:
    """What the known variables of a polynomial are in this call."""
    values: dict[str, int] = {}

    def learn(names: frozenset[str]) -> None:
        for name in names:
            if name[0] not in "(@":
                values[name] = variable_value(name)

    for entry in derived:
        learn(entry.left.variables() | entry.right.variables())
        values[entry.name] = entry.evaluate(values)
    learn(poly.variables())
    return values


def _nonnegative(extent: Extent) -> list[Guard] | None:
    """The guards under which an extent is never negative; None where that is not found."""
    asked: dict[Poly, list[Guard] | None] = {}  # symbols have bounds in common

    def ask(extent: Extent) -> list[Guard] | None:
        if not isinstance(extent, Symbolic):
            if extent.value < 0:
                return None
            fact = Fact(">=0", extent.poly)
            return [] if never_negative(extent.poly) else [Guard(fact, extent.derived)]
        if extent.poly not in asked:
            asked[extent.poly] = by_ends(extent)
        return asked[extent.poly]

    def by_ends(extent: Symbolic) -> list[Guard] | None:
        symbol = max(extent.symbols, key=lambda s: s.number)
        factor, rest = _apart(extent, symbol)
        for rising in (True, False):
            guards = ask(factor if rising else -factor)
            if guards is None:
                continue
            for end in symbol.lower if rising else symbol.upper:
                more = ask(factor * end + rest)
                if more is not None:
                    return guards + more
        cases = [ask(factor * one + rest) for one in symbol.either]
        if not cases or any(case is None for case in cases):
            return None
        return [guard for case in cases for guard in case or ()]

    return ask(extent)


def _apart(extent: Extent, symbol: Symbol) -> tuple[Extent, Extent]:
    """An extent as factor * symbol + rest, where the factor may hold the symbol again."""
    with_symbol: dict[tuple[str, ...], int] = {}
    for monomial, count in extent.poly.terms.items():
        if symbol.name in monomial:
            at = monomial.index(symbol.name)
            with_symbol[monomial[:at] + monomial[at + 1 :]] = count
    return _made(Poly(with_symbol), extent), _made(extent.poly.without(symbol.name), extent)


def at_most(extent: Extent, depth: int) -> Extent | None:
    """An extent that another is at most, in every round, of what scopes of a depth know.

    At depth -1 that is what is known before anything runs, as the shapes of results are. None
    where that is not found. Of several, one that is the least for the sizes of this call.
    """
    inner = [s for s in extent.symbols if _depth_of(s) > depth]
    if not inner:
        return extent
    symbol = max(inner, key=lambda s: s.number)
    factor, rest = _apart(extent, symbol)
    ends: tuple[Extent, ...] = ()
    if _proved(factor):
        ends = symbol.upper or _most_of(symbol, depth)
    elif _proved(-factor):
        ends = symbol.lower
    found = [at_most(factor * end + rest, depth) for end in ends]
    known = [one for one in found if one is not None]
    fixed = [one for one in known if not one.symbols]
    return min(fixed, key=lambda one: one.value) if fixed else next(iter(known), None)


def _most_of(symbol: Symbol, depth: int) -> tuple[Extent, ...]:
    """What one of several extents is at most: their sum, of those that are positive."""
    bounds = [at_most(one, depth) for one in symbol.either]
    known = [extents.not_negative(bound) for bound in bounds if bound is not None]
    return (sum(known, _ZERO),) if known and len(known) == len(bounds) else ()


def _depth_of(symbol: Symbol) -> int:
    scope = symbol.node.scope
    return 0 if scope is None else scope.depth


def _proved(extent: Extent) -> bool:
    """Whether an extent is found to be never negative; under guards, which are recorded."""
    guards = _nonnegative(extent)
    if guards is not None:
        record(guards)
    return guards is not None


def have_symbols(*nodes: Node) -> bool:
    """Whether only the run, or a round of it, tells how long some arrays are."""
    return any(extent.symbols for node in nodes for extent in node.shape)


def require_one_shape(node: Node, depth: int = 0) -> None:
    """Refuse a result whose shape depends on what is made in scopes of a depth, or deeper.

    Raises
    ------
    ShapeError
    """
    for symbol in (symbol for extent in node.shape for symbol in extent.symbols):
        if _depth_of(symbol) >= depth:
            raise ShapeError(
                f"a result of shape {node.shape}, which is not the same every time",
                "a result of one shape",
                "an array of the largest shape, of which a part is set: x.at[:k].set(...)",
                place=node.place(),
            )


# ---------------------------------------------------------------- scalars as extents


def choose(operation: str, left: Extent, right: Extent) -> Extent:
    """The extent that a scalar operation on two extents gives.

    Asked again in a body, or in one within it, it is the same.
    """

    def made() -> Extent:
        return extent_of(apply(operation, size_scalar(left), size_scalar(right)))

    outermost = chosen()
    known = [scope.chosen for scope in scopes_around()]
    known += [] if outermost is None else [outermost]
    key = operation, left.poly, right.poly
    for extents_of in known:
        if key in extents_of:
            found: Extent = extents_of[key]
            return found
    found = made()
    if known:
        known[0][key] = found
    return found


extents.choose = choose


def bounded(node: Node, name: str, lower: Extent, upper: Extent) -> None:
    """Say of an index that lower <= index < upper."""
    node.symbol = _symbol(node, name, (lower,), (upper - 1,))


def extent_of(node: Node) -> Extent:
    """An integer scalar as an extent: a symbol, or a polynomial of symbols and sizes."""
    match node.operation:
        case operations.Constant(const):
            return constant(int(const.value.real))
        case operations.SizeScalar():
            return node.sizes[0]
        case operations.Cast() if node.dtype is node.inputs[0].dtype is DType.I64:
            return extent_of(node.inputs[0])  # which is said to be Python's there
        case operations.Elementwise(operation) if node.dtype is DType.I64:
            if operation in ("add", "subtract", "multiply", "negative"):
                parts = [extent_of(source) for source in node.inputs]
                if operation == "negative":
                    return -parts[0]
                left, right = parts
                if operation == "multiply":
                    return left * right  # type: ignore[no-any-return]
                return left + right if operation == "add" else left - right  # type: ignore[no-any-return]
    if node.symbol is None:
        lower, upper = _range(node)
        node.symbol = _symbol(node, "s", lower, upper, _either(node))
    known = node.symbol.known
    return alone(node.symbol) if known is None else known


def alone(symbol: Symbol) -> Extent:
    """The extent that is a symbol."""
    return Symbolic(Poly.var(symbol.name), (), (symbol,))


def measure(symbol: Symbol, known: Extent) -> None:
    """Say what a scalar was computed to be: from now on it is that, as an extent."""
    symbol.node.symbol = replace(symbol, known=known)


def with_known(extent: Extent, symbol: Symbol, known: Extent) -> Extent:
    """An extent, with what a symbol was computed to be in its place."""
    factor, rest = _apart(extent, symbol)
    if any(symbol is other for other in factor.symbols):
        factor = with_known(factor, symbol, known)
    return factor * known + rest  # type: ignore[no-any-return]


def _symbol(
    node: Node, name: str, lower: tuple[Extent, ...] = (), upper: tuple[Extent, ...] = (),
    either: tuple[Extent, ...] = (),
) -> Symbol:  # fmt: skip
    return Symbol(node, f"@{next(_counter)}:{name}", lower, upper, either)


def _either(node: Node) -> tuple[Extent, ...]:
    """Of which a scalar is one, as its operation says."""
    match node.operation:
        case operations.Elementwise("minimum" | "maximum") if node.dtype is DType.I64:
            return tuple(map(extent_of, node.inputs))
    return ()


def _range(node: Node) -> tuple[tuple[Extent, ...], tuple[Extent, ...]]:
    """Bounds of a scalar, as its operation says."""
    if not isinstance(node.operation, operations.Elementwise) or node.dtype is not DType.I64:
        return (), ()
    operation = node.operation.operation
    if operation not in ("minimum", "maximum", "floor_divide", "remainder"):
        return (), ()
    left, right = map(extent_of, node.inputs)
    match operation:
        case "minimum":
            return ((_ZERO,) if _proved(left) and _proved(right) else ()), (left, right)
        case "maximum":
            return (left, right), ((left + right,) if _proved(left) and _proved(right) else ())
        case "remainder" if _proved(right - 1):
            return (_ZERO,), (right - 1,)
        case "floor_divide" if _proved(left) and _proved(right - 1):
            return (_ZERO,), (left,)
    return (), ()
