"""Branches whose condition is traced: both are traced, and what they change is chosen."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from weft.array import Array, node_of
from weft.errors import DTypeError, OutOfBoundsError, ShapeError, WeftError
from weft.frontend import graph, layout, lengths, operations
from weft.frontend.extent import Extent
from weft.frontend.graph import Lambda, Node, make, scalar_constant
from weft.frontend.guards import record, recording
from weft.functions import traced
from weft.functions.creation import filled
from weft.kernel import maybe, named, numbers, ordered, rebound
from weft.kernel.closures import Closure
from weft.kernel.frame import Frame, NoneOperandError, Origin, ReadUnbound, Unbound, cells, plain
from weft.kernel.lists import Grown, Kind, NothingYet, Outgrown
from weft.kernel.liveness import live
from weft.kernel.syntax import is_result
from weft.kernel.values import Cell, KeyView, Maybe, OneOf, PermutedView, Reference, Region, View
from weft.records import dataclass

RAISED = object()
"""The result of a branch that raises an error: what it leaves is never looked at."""


@dataclass(slots=True)
class Traced:
    """A branch: its scope, its result, the variables and cells at its end."""

    function: Lambda
    result: Any
    variables: dict[str, Any]
    assigned_at: dict[str, Any]
    cells: dict[Cell, Array]
    error: Exception | None = None  # Python's own, which the branch ends with


def is_of_the_run(error: Exception) -> bool:
    """Whether Python would raise an error where it arises, rather than Weft refuse the program."""
    return isinstance(error, OutOfBoundsError) or not isinstance(error, WeftError)


def _trace(
    frame: Frame, node: ast.AST, body: Callable[[], Any], condition: Node, holds: bool
) -> Traced:
    """A branch, once lists that grow in it have room."""
    path, granted = frame.memory.visit(), set[Any]()
    while True:
        region = Region(len(frame.memory.regions) + 1, None, path=path, granted=granted)
        try:
            return _traced_in(frame, node, body, condition, holds, region)
        except Outgrown as signal:
            if not signal.settle(region, granted):
                raise


def noting(
    frame: Frame, node: ast.AST, body: Callable[[], Any]
) -> tuple[Any, Exception | None]:
    """What the body of a branch or loop gives, or the error that it ends with, for a run to note.

    Where a list that it reads holds nothing yet a later round may append something: then that is
    found out, and the loop traced again.
    """
    try:
        return body(), None
    except NothingYet as signal:
        error: Exception = signal.error
    except (ArithmeticError, IndexError, NoneOperandError, ValueError) as raised:
        if not is_of_the_run(raised):
            raise
        error = raised
    frame.trace.assertions.fail(frame.memory, error, frame.place(node))
    return RAISED, error


def _traced_in(
    frame: Frame, node: ast.AST, body: Callable[[], Any], condition: Node, holds: bool,
    region: Region,
) -> Traced:  # fmt: skip
    """A branch; where it ends with an error of Python's, the run is to note that."""
    present = frame.trace.present
    flag = maybe.known_by(condition, holds)
    known = set() if flag is None else {flag} - present
    present |= known
    before, places = dict(frame.variables), dict(frame.assigned_at)
    frame.memory.regions.append(region)
    try:
        with recording() as guards, graph.Tracing(fixed=True) as scope:
            try:
                result, ended = noting(frame, node, body)
            except ReadUnbound as signal:  # the loop is traced again, with its value
                signal.note()
                ended, result = signal, RAISED
    finally:
        present -= known
        cells = frame.memory.leave(region)
        after, frame.variables = frame.variables, before
        assigned, frame.assigned_at = frame.assigned_at, places
    record(guards)
    return Traced(Lambda((), (), scope), result, after, assigned, cells, ended)


def chosen(
    frame: Frame, node: ast.AST, condition: Array, then: Callable[[], Any],
    otherwise: Callable[[], Any],
) -> Any:  # fmt: skip
    """The result of one of two expressions; only that one is evaluated."""
    return branch(frame, node, condition, then, otherwise)


def branch(
    frame: Frame, node: ast.AST, condition: Array, then: Callable[[], Any],
    otherwise: Callable[[], Any],
) -> Any:  # fmt: skip
    """Trace both branches; what either changes is that of the one whose turn it is.

    Gives the result of `then` or `otherwise` likewise.
    """
    sides = (
        _trace(frame, node, then, condition._node, True),
        _trace(frame, node, otherwise, condition._node, False),
    )
    for side in sides:
        if side.error is not None and all(s.result is RAISED for s in sides):
            raise side.error
    choice = _Choice(frame, node, sides)
    names = _changed(frame.variables, sides)
    merged = {name: choice.variable(name) for name in names}
    changed = list(dict.fromkeys(cell for side in sides for cell in side.cells))
    written = [
        choice.either([side.cells.get(cell, cell.array) for side in sides], "an array")
        for cell in changed
    ]
    result = choice.result()
    picked = choice.made(condition)
    for cell, place in zip(changed, written, strict=True):
        frame.memory.write(cell, picked[place])
    for name, value in merged.items():
        later = [s.assigned_at[name] for s in sides if name in s.assigned_at]
        if later:
            frame.assigned_at[name] = later[0]
        frame.variables[name] = choice.filled(value, picked)
    return choice.filled(result, picked)


def _changed(before: dict[str, Any], sides: Sequence[Traced]) -> list[str]:
    names = dict.fromkeys(name for side in sides for name in side.variables)
    missing = object()
    return [
        name for name in names
        if any(side.variables.get(name, missing) is not before.get(name, missing) for side in sides)
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Place:
    """A result of the If that is being made, by number.

    `array`: it gets memory of its own, a copy of one of the `sources` where others see these.
    """

    number: int
    array: bool
    sources: tuple[Origin, ...] = ()
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class _Doubtful:
    """A number or array that may not be there, of results of the If that is being made."""

    number: Any
    present: Any
    absent: Any


@dataclass(frozen=True, slots=True)
class _List:
    """A list that grows, of results of the If that is being made; see `weft.kernel.rebound`."""

    parts: list[_Place]
    kinds: list[Kind]
    of_tuples: bool
    sources: list[Grown]


class _Choice:
    """The values that an If gives, collected."""

    def __init__(self, frame: Frame, node: ast.AST, sides: tuple[Traced, Traced]) -> None:
        self.frame = frame
        self.node = node
        self.sides = sides
        self.pairs: list[tuple[Node, Node]] = []
        self.what: list[str] = []

    def either(self, values: list[Any], what: str) -> int:
        self.pairs.append((node_of(values[0]), node_of(values[1])))
        self.what.append(what)
        return len(self.pairs) - 1

    def variable(self, name: str) -> Any:
        values = [side.variables.get(name) for side in self.sides]
        bound = [name in side.variables for side in self.sides]
        if not all(bound):
            raised = [side.result is RAISED for side in self.sides]
            missing = bound.index(False)
            if is_result(name) or raised[missing]:
                values[missing] = nothing(values[1 - missing])
            else:
                values[missing] = Unbound(self.frame.place(self.node))
        values = maybe.spread(values)
        unbound = [value for value in values if isinstance(value, Unbound)]
        is_live = isinstance(self.node, ast.If) and name in live(self.node)
        if not is_live and rebound.are_lists(values) and values[0] is not values[1]:
            return self._unbound(values)
        if unbound and (not is_live or maybe.joined(values) is None):
            return Unbound(self.frame.place(self.node), unbound[0].found)
        value = self.value(values, name)
        return next(_unbound(value), value)

    def result(self) -> Any:
        """What the branches give, as an expression or as a function's result."""
        value = self.value([side.result for side in self.sides], "the result")
        for unbound in _unbound(value):
            returned = isinstance(self.node, ast.If)
            self.frame.refuse(
                self.node,
                f"{'the function gives' if returned else 'this expression is'} {unbound.found}, "
                "by which branch is taken",
                "one kind of value",
                "a return of such a value on every path, the end of the function included"
                if returned else "values of one kind, or an if statement",
            )  # fmt: skip
        return value

    def value(self, values: list[Any], what: str) -> Any:
        first, second = values
        if first is second:
            return first
        if first is RAISED or second is RAISED:
            other = nothing(second if first is RAISED else first)
            return self.value([other, second] if first is RAISED else [first, other], what)
        doubtful = maybe.joined(values)
        if doubtful is not None:
            absent, ((one, has_one), (two, has_two)) = doubtful
            return _Doubtful(
                self.value([one, two], what), self.value([has_one, has_two], what), absent
            )
        if isinstance(first, tuple) and type(second) is type(first) and len(first) == len(second):
            parts = [self.value([a, b], what) for a, b in zip(first, second, strict=True)]
            return named.of_parts(type(first), parts)
        if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
            return [self.value([a, b], what) for a, b in zip(first, second, strict=True)]
        if rebound.are_lists(values) and rebound.have_common_room(self.frame, values):
            return self._list(values, what)
        if any(isinstance(value, Reference) for value in values) and not all(
            isinstance(value, Reference | Array) for value in values
        ):
            return self._unbound(values)
        if isinstance(first, Reference) and (first.same(second) or _same_part(first, second)):
            return first
        if isinstance(first, Reference) or isinstance(second, Reference):
            arrays = [self._at_end(value, side) for value, side in
                      zip(values, self.sides, strict=True)]  # fmt: skip
            sources = [c for sources in map(self._sources, values, self.sides) for c in sources]
            is_list = all(map(ordered.is_list, values))
            return _Place(self.either(arrays, what), True, tuple(sources), is_list)
        if all(isinstance(v, Array | bool | int | float | complex | Extent) for v in values) or all(
            isinstance(v, Array) or hasattr(v, "dtype") for v in values
        ):
            if not any(isinstance(v, Array) for v in values) and _alike(first, second):
                return first
            return _Place(self.either(values, what), array=False)
        if not isinstance(first, Array) and not isinstance(second, Array):
            try:
                if bool(first == second):
                    return first
            except (TypeError, ValueError, WeftError):
                pass
        return self._unbound(values)

    def _list(self, values: list[Grown], what: str) -> _List | Unbound:
        kinds = rebound.kinds_of(values)
        if kinds is None:
            return self._unbound(values)
        found = []
        for value, side in zip(values, self.sides, strict=True):
            with traced._inside(side.function):
                numbers = [side.cells.get(c, c.array) for c in (value.count, value.first)]
                found.append([*numbers, *rebound.arrays(self.frame, value, kinds, side.cells)])
        places = [_Place(self.either([*pair], what), False) for pair in zip(*found, strict=True)]
        sources = [
            value for value, side in zip(values, self.sides, strict=True)
            if value.count in self.frame.foreign or value.count.refusal
            or sum(rebound.shown(value, [held]) for held in self._holders(side)) > 1
        ]  # fmt: skip
        return _List(places, kinds, any(value.of_tuples for value in values), sources)

    def _unbound(self, values: list[Any]) -> Unbound:
        return Unbound(self.frame.place(self.node), kinds(values))

    def _sources(self, value: Any, side: Traced) -> list[Origin]:
        """An array at the end of a branch, if more is to show it than one variable, or result."""
        if not isinstance(value, Reference):
            return []
        own = cells(value)
        holders = [held for held in self._holders(side) if any(c in own for c in cells(held))]
        return self.frame.sources(value, holders[1:])

    def _holders(self, side: Traced) -> list[Any]:
        """What holds arrays and lists at the end of a branch: variables that are read, a result."""
        variables = side.variables
        if isinstance(self.node, ast.If):
            variables = {n: held for n, held in variables.items() if n in live(self.node)}
        return [*variables.values(), side.result]

    def _at_end(self, value: Any, side: Traced) -> Any:
        """What a reference shows at the end of a branch."""
        if not isinstance(value, Reference):
            return value
        before = {cell: cell.array for cell in cells(value)}
        for cell, array in before.items():
            cell.array = side.cells.get(cell, array)
        try:
            with traced._inside(side.function):
                return value.read()
        finally:
            for cell, array in before.items():
                cell.array = array

    def made(self, condition: Array) -> list[Array]:
        """The If, and its results."""
        if not self.pairs:
            return []
        dtypes = []
        for (left, right), what in zip(self.pairs, self.what, strict=True):
            if not lengths.certainly_agree(left.shape, right.shape):
                raise ShapeError(
                    f"{what} has shape {layout.values(left.shape)} or "
                    f"{layout.values(right.shape)} after this branch",
                    "one shape", place=self.frame.place(self.node),
                )  # fmt: skip
            if not (left.weak or right.weak) and left.dtype is not right.dtype:
                self._refuse_types(what, left, right)
            dtypes.append(numbers.dtype_of_one(Array(left), Array(right)))
        lambdas = []
        for number, side in enumerate(self.sides):
            function = traced.with_results(side.function, [pair[number] for pair in self.pairs])
            lambdas.append(traced.settled(function, dtypes))
        types = tuple((pair[0].shape, d) for pair, d in zip(self.pairs, dtypes, strict=True))
        made = make(
            operations.If(), (condition._node,), (), None, lambdas=tuple(lambdas), types=types
        )
        picked = [graph.pick(made, number) for number in range(len(types))]
        for pick, (left, right) in zip(picked, self.pairs, strict=True):
            pick.weak = left.weak and right.weak
        return [Array(pick) for pick in picked]

    def _refuse_types(self, what: str, left: Node, right: Node) -> None:
        places = [side.assigned_at.get(what) for side in self.sides]
        where = " and ".join(f"{d.dtype.numpy} at {p}" if p else str(d.dtype.numpy)
                             for d, p in zip((left, right), places, strict=True))  # fmt: skip
        raise DTypeError(
            f"{what} has two types after this branch: {where}", "one type",
            "convert one: np.float64(x)", place=self.frame.place(self.node),
        )  # fmt: skip

    def filled(self, value: Any, picked: list[Array]) -> Any:
        """A collected value with the If's results in it."""
        if isinstance(value, tuple | list):
            parts = [self.filled(part, picked) for part in value]
            return named.of_parts(type(value), parts)
        if isinstance(value, _Doubtful):
            number, present = self.filled(value.number, picked), self.filled(value.present, picked)
            return Maybe(number, present, value.absent)
        if isinstance(value, _List):
            return self._filled_list(value, picked)
        if isinstance(value, _Place):
            found = picked[value.number]
            if value.array:
                made = self.frame.copied(found, value.sources, "branch", self.node)
                made.cell.is_list = value.is_list
                return made
            return found
        return value

    def _filled_list(self, value: _List, picked: list[Array]) -> Grown:
        count, first, *parts = (picked[place.number] for place in value.parts)
        made = rebound.made(self.frame, count, first, parts, value.kinds, value.of_tuples)
        origins = [(cell, cell.array) for source in value.sources for cell in cells(source)]
        if origins:
            self.frame.trace.copies[made.count] = [*origins]
            place = self.frame.place(self.node)
            made.count.refusal = f"it is one of several lists, by the branch at {place}"
        return made


def nothing(like: Any) -> Any:
    """What a result is where there is none: never looked at, of the type of one that is."""
    if type(like) in (tuple, list):
        return type(like)(map(nothing, like))
    if isinstance(like, Reference) or (isinstance(like, Array) and like.ndim):
        node = node_of(plain(like))
        return Array(filled(scalar_constant(0, node.dtype), node.shape))
    if isinstance(like, Maybe):
        return Maybe(nothing(like.number), maybe.flag(False), like.absent)
    if isinstance(like, Array | bool | int | float | complex | Extent):
        node = node_of(like)
        return Array(scalar_constant(0, node.dtype, weak=node.weak))
    return like


def _same_part(first: Reference, second: Any) -> bool:
    """Whether two references show the same part of an array, by keys that are constants."""
    return (
        isinstance(second, Reference) and first.cell is second.cell
        and not isinstance(first, OneOf)
        and all(map(_is_constant, (*first.views, *second.views)))
        and first.views == second.views
    )  # fmt: skip


def _is_constant(view: View) -> bool:
    if not isinstance(view, KeyView):
        return isinstance(view, PermutedView)
    key = view.key if isinstance(view.key, tuple) else (view.key,)
    parts = [p for e in key for p in ((e.start, e.stop, e.step) if isinstance(e, slice) else (e,))]
    return all(type(part) is int or part is None or part is Ellipsis for part in parts)


def _unbound(value: Any) -> Iterator[Unbound]:
    """The parts of a value that are of another kind in each branch."""
    if isinstance(value, Unbound):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _unbound(part)


def kinds(values: Sequence[Any]) -> str:
    """What one of two values is."""
    found = list(dict.fromkeys(map(kind, values)))
    return " or ".join(found) if len(found) == 2 else f"one of two: {found[0]}"


def kind(value: Any) -> str:
    """What a value is, in messages."""
    if isinstance(value, Unbound):
        return value.found or "without a value on some path"
    if isinstance(value, Maybe):
        if value.absent is not None:
            return "without a value on some path"
        return f"{kind(value.number)} or None"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, Reference) or (isinstance(value, Array) and value.ndim):
        return "an array"
    if isinstance(value, Array | bool | int | float | complex | Extent):
        return "a number"
    if isinstance(value, Closure):
        return "a function"
    if isinstance(value, Grown):
        return "a list"
    return "None" if value is None else f"a {type(value).__name__}"


def _alike(first: Any, second: Any) -> bool:
    return type(first) is type(second) and not isinstance(first, Extent) and (
        first == second or (first != first and second != second)
    )  # fmt: skip
