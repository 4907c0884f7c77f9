"""Loops of a user's function: traced once, carrying what their bodies assign and write."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.array import Array, node_of, strong
from weft.errors import DTypeError, Place, ShapeError, TracingError
from weft.frontend import extent as extents
from weft.frontend import graph, indexing, layout, operations, symbolic
from weft.frontend.elementwise import apply, as_dtype, common_dtype
from weft.frontend.extent import Extent
from weft.frontend.graph import Lambda, Node, Scope, Shape, make, scalar_constant
from weft.functions import traced
from weft.functions.creation import filled
from weft.kernel.frame import Frame, Unbound
from weft.kernel.syntax import assigned, left_flag
from weft.kernel.values import Cell, NotCarried, Reference, Region, replaced
from weft.ops.dtypes import DType

_UNROLLED = 4  # rounds of a loop over a range of literals that are done one by one
_ROUNDS = 6  # of tracing, until types are stable

Number = Array | bool | int | float | complex | Extent | np.generic


@dataclass(slots=True)
class Scalar:
    """A number that a loop carries."""

    name: str
    initial: Node
    dtype: DType
    weak: bool
    local: bool = False  # made by the body, and read after the loop

    def node(self) -> Node:
        return (
            strong(self.initial, self.dtype)
            if self.initial.weak
            else as_dtype(self.initial, self.dtype)
        )


@dataclass(slots=True)
class Whole:
    """An array that a loop carries by its value: a variable that each round binds anew."""

    name: str
    initial: Array
    before: Reference | None  # None: made by the body, and read after the loop


class Loop:
    """A loop that is traced: what it carries, found by tracing its body until that is stable.

    Parameters
    ----------
    frame : Frame
    node : ast.For or ast.While
    run : callable
        Interprets the body.
    bound : sequence of ast.AST
        Targets that it also binds.
    """

    def __init__(
        self, frame: Frame, node: ast.For | ast.While, run: Callable[[], Any],
        bound: Sequence[ast.AST] = (),
    ) -> None:  # fmt: skip
        self.frame = frame
        self.node = node
        self.run = run
        self.before = dict(frame.variables)
        self.entry: dict[str, Reference] = {}
        self.at_end: dict[str, Place] = {}
        self.scalars: dict[str, Scalar] = {}
        self.wholes: dict[str, Whole] = {}
        self.cells: dict[Cell, None] = {}
        self.locals: list[str] = []
        self.turned: dict[str, str] | None = None  # variable -> whose entry array it ends with
        self.names = assigned([*node.body, *bound])
        for name in self.names:
            value = frame.variables.get(name)
            if isinstance(value, Number):
                initial = node_of(value)
                self.scalars[name] = Scalar(name, initial, initial.dtype, initial.weak)
            elif (value is None or isinstance(value, Unbound)) and frame.is_needed_after(
                name, node
            ):
                self.locals.append(name)
        for name in written(node.body):
            value = frame.variables.get(name)
            if isinstance(value, Reference) and name not in self.names:
                self.cells[value.cell] = None

    # ------------------------------------------------------------ parameters

    def parameters(self, scope: Scope) -> list[Node]:
        found = []
        for scalar in self.scalars.values():
            param = graph.parameter(scalar.name, (), scalar.dtype, scope)
            param.weak = scalar.weak
            found.append(param)
        arrays = [(whole.name, whole.initial) for whole in self.wholes.values()]
        arrays += [(cell.name, cell.array) for cell in self.cells]
        for name, array in arrays:
            found.append(graph.parameter(name, array._node.shape, array._node.dtype, scope))
        return found

    def _held(self) -> list[Array]:
        return [cell.array for cell in self.cells]

    def initial(self) -> list[Node]:
        return [
            *(scalar.node() for scalar in self.scalars.values()),
            *(whole.initial._node for whole in self.wholes.values()),
            *(array._node for array in self._held()),
        ]

    def types(self) -> tuple[tuple[Shape, DType], ...]:
        wholes = [whole.initial for whole in self.wholes.values()]
        scalars = [((), scalar.dtype) for scalar in self.scalars.values()]
        arrays = [(a._node.shape, a._node.dtype) for a in (*wholes, *self._held())]
        return (*scalars, *arrays)

    # ------------------------------------------------------------ the body

    def trace(
        self, first: Callable[[Scope], list[Node]], bind: Callable[[list[Array]], None]
    ) -> Lambda:
        """The body as a lambda; `first` makes its first parameters, `bind` binds them."""
        for _ in range(_ROUNDS):
            try:
                function = self._attempt(first, bind)
            except NotCarried as signal:
                if signal.region is not self._region:
                    raise
                self.cells[signal.cell] = None
                continue
            if function is not None:
                return function
        raise DTypeError(
            "a loop whose variables change their types with every round", "stable types",
            place=self.frame.place(self.node),
        )  # fmt: skip

    def _attempt(
        self, first: Callable[[Scope], list[Node]], bind: Callable[[list[Array]], None]
    ) -> Lambda | None:
        """The body with what is carried now; None where more turned out to be carried."""
        frame = self.frame
        before, places = dict(frame.variables), dict(frame.assigned_at)
        region = self._region = frame.memory.enter(set(self.cells))
        count = [0]

        def parameters(scope: Scope) -> list[Node]:
            own = first(scope)
            count[0] = len(own)
            return [*own, *self.parameters(scope)]

        def call(arrays: Sequence[Array]) -> list[Any]:
            bind(list(arrays[: count[0]]))
            self._enter(region, arrays[count[0] :])
            self.run()
            return self._end()

        try:
            function, _ = traced.trace(call, parameters, call)
        finally:
            after, frame.variables = frame.variables, before
            self.at_end, frame.assigned_at = frame.assigned_at, places
            frame.memory.leave(region)
        if self._missing(after) or not self._settled(function.results):
            return None
        return traced.settled(function, [dtype for _, dtype in self.types()])

    def _enter(self, region: Region, arrays: Sequence[Array]) -> None:
        values = iter(arrays)
        for name in self.scalars:
            self.frame.variables[name] = next(values)
        self.entry = {}
        for name in self.wholes:
            self.entry[name] = self.frame.memory.make(next(values))
            self.frame.variables[name] = self.entry[name]
        for cell in self.cells:
            region.journal[cell] = cell.array
            cell.array = next(values)

    def _end(self) -> list[Any]:
        """What the next round takes."""
        variables = self.frame.variables
        found: list[Any] = []
        for name in self.scalars:
            value = variables[name]
            if not isinstance(value, Number):
                self._refuse(name, value)
            found.append(value)
        for name, whole in self.wholes.items():
            value = variables[name]
            if not isinstance(value, Reference):
                self._refuse(name, value)
            array = value.read()
            if layout.values(array._node.shape) != layout.values(whole.initial._node.shape):
                self._refuse_shape(name, whole.initial, array)
            for own, given in zip(whole.initial._node.shape, array._node.shape, strict=True):
                extents.require_equal(own, given)
            found.append(array)
        self._note_turns()
        return [*found, *(cell.array for cell in self.cells)]

    def _note_turns(self) -> None:
        """Which variables have exchanged their arrays."""
        names = {id(reference): name for name, reference in self.entry.items()}
        ends = {name: names.get(id(self.frame.variables[name])) for name in self.wholes}
        given = [end for end in ends.values() if end is not None]
        self.turned = None
        if given and sorted(given) == sorted(n for n, e in ends.items() if e is not None):
            self.turned = {name: end for name, end in ends.items() if end is not None}

    def _missing(self, after: dict[str, Any]) -> bool:
        """Take in what turned out to be carried, the variables being these after a round."""
        found = False
        for name in self.names:
            value = after.get(name)
            if name in self.scalars or name in self.wholes:
                continue
            held = self.before.get(name)
            if isinstance(held, Reference) and isinstance(value, Reference):
                if not held.same(value):
                    self.wholes[name] = Whole(name, held.read(), held)
                    self.cells.pop(held.cell, None)
                    found = True
            elif name in self.locals and value is not None and not isinstance(value, Unbound):
                self._add_local(name, value)
                found = True
        return found

    def _add_local(self, name: str, value: Any) -> None:
        self.locals.remove(name)
        if isinstance(value, Number):
            node = node_of(value)
            start = scalar_constant(0, node.dtype, weak=node.weak)
            self.scalars[name] = Scalar(name, start, node.dtype, node.weak, local=True)
        elif isinstance(value, Reference):
            node = value.read()._node
            zero = scalar_constant(0, node.dtype)
            symbolic.require_one_shape(node, 1 + _depth())
            self.wholes[name] = Whole(name, Array(filled(zero, node.shape)), None)

    # ------------------------------------------------------------ types

    def _settled(self, results: Sequence[Node]) -> bool:
        """Whether types are those that the body was traced with; else they are changed."""
        stable = True
        for scalar, result in zip(self.scalars.values(), results, strict=False):
            dtype, weak = self._type(scalar, result)
            if (dtype, weak) != (scalar.dtype, scalar.weak):
                scalar.dtype, scalar.weak = dtype, weak
                stable = False
        start = len(self.scalars)
        for whole, result in zip(self.wholes.values(), results[start:], strict=False):
            if result.dtype is not whole.initial._node.dtype:
                if whole.before is None:
                    zero = scalar_constant(0, result.dtype)
                    whole.initial = Array(filled(zero, result.shape))
                    stable = False
                else:
                    self._refuse_type(whole.name, whole.initial._node.dtype, result.dtype)
        return stable

    def _type(self, scalar: Scalar, result: Node) -> tuple[DType, bool]:
        if scalar.weak and result.weak:
            return common_dtype((scalar.initial, result)), True
        if result.weak:
            return scalar.dtype, False
        if scalar.weak:
            common = common_dtype((scalar.initial, result))
            if common is not result.dtype and not scalar.local:
                self._refuse_type(scalar.name, scalar.initial.dtype, result.dtype)
            return result.dtype, False
        if result.dtype is not scalar.dtype:
            self._refuse_type(scalar.name, scalar.dtype, result.dtype)
        return scalar.dtype, False

    def _refuse_type(self, name: str, before: DType, after: DType) -> None:
        first, second = self.frame.assigned_at.get(name), self.at_end.get(name)
        raise DTypeError(
            f"{name} changes its type in a loop: {before.numpy}{_at(first)}, "
            f"{after.numpy}{_at(second)}",
            "one type in every round",
            f"begin with {after.numpy}: {name} = np.{after.numpy}(...), or another variable",
            place=second or self.frame.place(self.node),
        )

    def _refuse(self, name: str, value: Any) -> None:
        first, second = self.frame.assigned_at.get(name), self.frame.assigned_at.get(name)
        raise DTypeError(
            f"{name} is {_kind(value)} after a round of this loop{_at(first)}",
            "a value of the kind that it has before the loop",
            "another variable", place=second or self.frame.place(self.node),
        )  # fmt: skip

    def _refuse_shape(self, name: str, before: Array, after: Array) -> None:
        place = self.frame.assigned_at.get(name)
        raise ShapeError(
            f"{name} has shape {before.shape} before a round of this loop, {after.shape} after it",
            "one shape in every round", place=place or self.frame.place(self.node),
        )  # fmt: skip

    # ------------------------------------------------------------ afterwards

    def finish(self, results: list[Node], rounds: Extent | None) -> None:
        """Bind what the loop gives."""
        frame = self.frame
        values = iter(results)
        for scalar in self.scalars.values():
            node = next(values)
            node.weak = scalar.weak
            frame.variables[scalar.name] = Array(node)
            frame.assigned_at[scalar.name] = self.at_end.get(scalar.name, frame.place(self.node))
        arrays = {name: Array(next(values)) for name in self.wholes}
        cells = {cell: Array(next(values)) for cell in list(self.cells)}
        for cell, array in cells.items():
            frame.memory.write(cell, array)
        turned = self.turned or {}
        if turned:
            self._turn_back(turned, arrays, rounds)
        for name, array in arrays.items():
            if name not in turned:
                frame.variables[name] = frame.memory.make(array, frame.place(self.node))

    def _turn_back(
        self, turned: dict[str, str], arrays: dict[str, Array], rounds: Extent | None
    ) -> None:
        """Variables that exchange their arrays in every round: which has which is the count's.

        After r rounds the array that `name` began with is where `turned` leads, r times.
        """
        frame = self.frame
        order = _order(turned)
        if rounds is None or rounds.symbols:
            frame.refuse(
                self.node, f"{' and '.join(turned)} exchange their arrays in a loop whose number "
                "of rounds is not known", "range of a size or an argument",
                "copy the values: a[...] = b",
            )  # fmt: skip
        over = rounds % order
        steps = next(k for k in range(order) if k == order - 1 or over == k)
        before = {name: self.wholes[name].before for name in turned}
        for name, array in arrays.items():
            if name not in turned:
                continue
            own = name
            for _ in range(steps):
                own = turned[own]
            target = before[own]
            assert target is not None
            frame.variables[name] = target
            frame.memory.write(target.cell, replaced(target.cell.array, target.views, array))


def _order(turned: dict[str, str]) -> int:
    """After how many rounds all variables have the arrays that they began with."""
    now, count = {name: turned[name] for name in turned}, 1
    while any(name != own for name, own in now.items()):
        now = {name: turned[own] for name, own in now.items()}
        count += 1
    return count


def _depth() -> int:
    return len(graph._open.all)


def _at(place: Place | None) -> str:
    return f" at {place}" if place is not None else ""


def _kind(value: Any) -> str:
    return "an array" if isinstance(value, Reference) else f"a {type(value).__name__}"


def written(statements: Sequence[ast.AST]) -> list[str]:
    """Names whose arrays statements write, as far as that is plain."""
    found: dict[str, None] = {}
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                if isinstance(node.value, ast.Name):
                    found[node.value.id] = None
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = None
    return list(found)


# ---------------------------------------------------------------- for


def for_range(
    frame: Frame, node: ast.For, bounds: tuple[Any, Any, Any], run: Callable[[], Any],
    bind: Callable[[Any], None], parallel: bool,
) -> None:  # fmt: skip
    """`for i in range(start, stop, step)` as a loop of the program."""
    start, stop, step = bounds
    step = _known_step(frame, node, step)
    begin, end = _bound(start), _bound(stop)
    index = node.target.id if isinstance(node.target, ast.Name) else ""
    if step == 1 and left_flag(node) is None:
        lower, upper = begin, end
    else:
        lower, upper = extents.constant(0), _count(begin, end, step)
    name = index or "i"
    rounds = _rounds(lower, upper)

    def value(param: Node) -> Array:
        counter = Array(param)
        if step == 1 and lower is begin:
            return counter
        first = Array(graph.size_scalar(begin, weak=True))
        return first + counter * step

    if left_flag(node) is not None:
        if parallel:
            frame.refuse(node, "break in a prange", "a prange whose rounds are all done", "range")
        _while_range(frame, node, run, (lower, upper), value, bind)
        return
    loop = Loop(frame, node, run)

    def first_parameters(scope: Scope) -> list[Node]:
        param = traced.index_parameter(scope, name, lower, upper)
        param.weak = True
        return [param]

    function = loop.trace(first_parameters, lambda arrays: bind(value(arrays[0]._node)))
    inputs = (graph.size_scalar(lower), graph.size_scalar(upper), *loop.initial())
    types = loop.types()
    if not types:
        return
    made = make(operations.For(), inputs, (), None, lambdas=(function,), types=types)
    loop.finish([graph.pick(made, k) for k in range(len(types))], rounds)
    if parallel:
        frame.trace.parallel[frame.place(node)] = name
    if index and frame.is_needed_after(index, node):
        frame.assign(index, Array(graph.size_scalar(begin + (_count(begin, end, step) - 1) * step,
                                                    weak=True)), node)  # fmt: skip


def _known_step(frame: Frame, node: ast.For, step: Any) -> int:
    if isinstance(step, Extent):
        step = int(step)
    if not isinstance(step, int):
        frame.refuse(
            node, "a range whose step is not known while compiling", "a constant step",
            "a while loop",
        )  # fmt: skip
    if step == 0:
        frame.refuse(node, "a range of step 0", "another step")
    return step


def _bound(value: Any) -> Extent:
    return symbolic.extent_of(indexing.index_node(node_of(value)))


def _count(begin: Extent, end: Extent, step: int) -> Extent:
    """The rounds of a range; it may be negative where there are none."""
    distance: Extent = end - begin if step > 0 else begin - end
    if step in (1, -1):
        return distance
    return extents.divide(distance + (abs(step) - 1), extents.constant(abs(step)))


def _rounds(lower: Extent, upper: Extent) -> Extent | None:
    """How many rounds there are; None where only running the program tells."""
    count = upper - lower
    if count.symbols:
        return None
    return count if count >= 0 else extents.constant(0)


def _while_range(
    frame: Frame, node: ast.For, body: Callable[[], Any], bounds: tuple[Extent, Extent],
    value: Callable[[Node], Array], bind: Callable[[Any], None],
) -> None:  # fmt: skip
    """A range that `break` may leave: while there are rounds and it has not been left."""
    counter, flag = ".counter", left_flag(node)
    assert flag is not None
    outer = frame.variables.get(counter)
    frame.variables[counter] = Array(graph.size_scalar(bounds[0], weak=True))
    frame.variables[flag] = False

    def run() -> None:
        now = frame.variables[counter]
        bind(value(now._node))
        body()
        frame.variables[counter] = now + 1

    whole = Loop(frame, node, run, [node.target])
    for name in (counter, flag):
        initial = node_of(frame.variables[name])
        whole.scalars[name] = Scalar(name, initial, initial.dtype, initial.weak)
    last = Array(graph.size_scalar(bounds[1], weak=True))

    def condition() -> Any:
        left = frame.variables[flag]
        inside = frame.variables[counter] < last
        return Array(apply("logical_and", inside._node,
                           apply("logical_not", node_of(left))))  # fmt: skip

    _while(frame, whole, condition)
    frame.variables[counter] = outer


# ---------------------------------------------------------------- while


def while_traced(
    frame: Frame, node: ast.While, condition: Callable[[], Any], run: Callable[[], Any]
) -> None:
    """`while` as a loop of the program."""
    flag = left_flag(node)
    test = condition
    if flag is not None:
        frame.variables[flag] = False

        def test() -> Any:
            left = apply("logical_not", node_of(frame.variables[flag]))
            return Array(apply("logical_and", left, node_of(condition())))

    _while(frame, Loop(frame, node, run), test)


def _while(frame: Frame, loop: Loop, condition: Callable[[], Any]) -> None:
    function = loop.trace(lambda scope: [], lambda arrays: None)
    before = dict(frame.variables)
    region = frame.memory.enter(set(loop.cells))

    def call(arrays: Sequence[Array]) -> Any:
        loop._enter(region, arrays)
        return condition()

    try:
        test, _ = traced.trace(call, loop.parameters, call)
    finally:
        frame.memory.leave(region)
        frame.variables = before
    test = traced.settled(test, [DType.BOOL])
    types = loop.types()
    made = make(
        operations.While(), tuple(loop.initial()), (), None, lambdas=(test, function), types=types
    )
    loop.finish([graph.pick(made, k) for k in range(len(types))], None)


# ---------------------------------------------------------------- rounds one by one


def is_small(bounds: tuple[Any, Any, Any]) -> bool:
    """Whether a range of literals has so few rounds that each is traced by itself."""
    if not all(isinstance(bound, int) for bound in bounds):
        return False
    start, stop, step = bounds
    return step != 0 and len(range(start, stop, step)) <= _UNROLLED


def is_decided(test: Any) -> bool:
    """Whether a condition is known while tracing."""
    return not isinstance(test, Array)


__all__ = ["TracingError", "for_range", "is_decided", "is_small", "while_traced"]
