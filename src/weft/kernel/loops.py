"""Loops of a user's function: traced once, carrying what their bodies assign and write."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from weft.array import Array, node_of
from weft.frontend import extent as extents
from weft.frontend import graph, indexing, operations, symbolic
from weft.frontend.elementwise import apply
from weft.frontend.extent import Extent
from weft.frontend.graph import Lambda, Node, Scope, make
from weft.functions import traced, where
from weft.kernel import branches, maybe
from weft.kernel.branches import kinds
from weft.kernel.carried import Loop
from weft.kernel.carried_values import Scalar
from weft.kernel.frame import Frame, Unbound
from weft.kernel.liveness import live
from weft.kernel.syntax import left_flag
from weft.kernel.values import Maybe, NotCarried, Reference
from weft.ops.dtypes import DType

_UNROLLED = 4  # rounds of a loop over a range of literals that are done one by one
_FEW = 32  # and of one over another range that cannot be done otherwise


# ---------------------------------------------------------------- for


def for_range(
    frame: Frame, node: ast.For, bounds: tuple[Any, Any, Any], run: Callable[[], Any],
    bind: Callable[[Any], None], parallel: bool, by_range: bool = True,
) -> None:  # fmt: skip
    """`for i in range(start, stop, step)` as a loop of the program.

    `by_range`: the target is what the range gives; else `bind` gives it something else.
    """
    start, stop, step = bounds
    step = _step(frame, node, step)
    begin, end = bound(start), bound(stop)
    index = node.target.id if isinstance(node.target, ast.Name) else ""
    one_by_one = isinstance(step, int) and step == 1
    if one_by_one and left_flag(node) is None:
        lower, upper = begin, end
    else:
        lower, upper = extents.constant(0), _count(begin, end, step)
    count = upper - lower
    if count.is_undecided and not count.symbols:
        upper = lower + extents.not_negative(count)
    name = index or "i"
    rounds = _rounds(lower, upper)

    def value(param: Node) -> Array:
        counter = Array(param)
        if one_by_one and lower is begin:
            return counter
        first = Array(graph.size_scalar(begin, weak=True))
        return first + counter * step

    if left_flag(node) is not None:
        if parallel:
            frame.refuse(node, "break in a prange", "a prange whose rounds are all done", "range")
        if _while_range(frame, node, run, (lower, upper), value, bind):
            return
    # After a range the target is computed, unless the body assigns it
    loop = Loop(frame, node, run, [] if by_range else [node.target])
    loop.most, loop.rounds = upper - lower, rounds

    def first_parameters(scope: Scope) -> list[Node]:
        param = traced.index_parameter(scope, name, lower, upper)
        param.weak = True
        return [param]

    function = loop.trace(first_parameters, lambda arrays: bind(value(arrays[0]._node)))
    inputs = (graph.size_scalar(lower), graph.size_scalar(upper), *loop.initial())
    types = loop.types()
    if types:
        made = make(operations.For(), inputs, (), None, lambdas=(function,), types=types)
        loop.finish([graph.pick(made, k) for k in range(len(types))])
        if parallel:
            place, rebound = frame.place(node), frame.trace.rebound
            frame.trace.parallel[place] = name
            rebound[place] = rebound.get(place, frozenset()) | loop.rebound()
    else:
        loop.finish([])
    if by_range and index in live(node) and index not in loop.names:
        _assign_last(frame, node, index, _count(begin, end, step), begin, step)


def _assign_last(
    frame: Frame, node: ast.For, index: str, count: Extent, begin: Extent, step: int | Extent
) -> None:
    """Let the target of a range be what it was in the last round; if there was none, as before."""
    last = Array(graph.size_scalar(begin + (count - 1) * step, weak=True))
    before = frame.variables.get(index, Unbound(frame.place(node)))
    if not count.is_undecided:
        if count > 0:
            frame.assign(index, last, node)
        return
    some = Array(graph.size_scalar(count, weak=True)) > 0
    if isinstance(before, Maybe):
        present = Array(apply("logical_or", some._node, before.present._node))
        last = where(some, last, before.number)
        frame.variables[index] = Maybe(last, present, before.absent)
    elif maybe.is_absent(before):
        frame.variables[index] = Maybe(last, some, before)
    elif isinstance(before, Reference | Unbound):
        frame.variables[index] = Unbound(frame.place(node), kinds((before, last)))
    else:
        frame.assign(index, where(some, last, before), node)


def _step(frame: Frame, node: ast.AST, step: Any) -> int | Extent:
    """The step of a range: a number of the program, unless only running it tells."""
    size = bound(step)
    if size.is_undecided:
        return size
    if size.value == 0:
        frame.refuse(
            node, "a range of step 0", "another step",
            "a step of 1, or -1 to go down: range(start, stop, -1)",
        )  # fmt: skip
    return int(size)


def bound(value: Any) -> Extent:
    return symbolic.extent_of(indexing.index_node(node_of(value)))


def _count(begin: Extent, end: Extent, step: int | Extent) -> Extent:
    """The rounds of a range; it may be negative where there are none."""
    if isinstance(step, Extent):  # whose sign is not known
        return -extents.divide(begin - end, step)
    distance: Extent = end - begin if step > 0 else begin - end
    if step in (1, -1):
        return distance
    return extents.divide(distance + (abs(step) - 1), extents.constant(abs(step)))


def count_of(frame: Frame, node: ast.AST, bounds: tuple[Any, Any, Any]) -> Extent:
    """How many numbers a range has, or less than none."""
    start, stop, step = bounds
    return _count(bound(start), bound(stop), _step(frame, node, step))


def _rounds(lower: Extent, upper: Extent) -> Extent | None:
    """How many rounds there are; None where only running the program tells."""
    count = upper - lower
    if count.is_undecided:
        return None
    return count if count >= 0 else extents.constant(0)


def _while_range(
    frame: Frame, node: ast.For, body: Callable[[], Any], bounds: tuple[Extent, Extent],
    value: Callable[[Node], Array], bind: Callable[[Any], None],
) -> bool:  # fmt: skip
    """A range that `break` may leave: while there are rounds and it has not been left.

    False, and nothing is done, where no round leaves it, by conditions that are known.
    """
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
    whole.most = bounds[1] - bounds[0]
    for name in (counter, flag):
        initial = node_of(frame.variables[name])
        whole.scalars[name] = Scalar(name, initial, initial.dtype, initial.weak)
    last = Array(graph.size_scalar(bounds[1], weak=True))

    def condition() -> Any:
        left = frame.variables[flag]
        inside = frame.variables[counter] < last
        return Array(apply("logical_and", inside._node,
                           apply("logical_not", node_of(left))))  # fmt: skip

    function = whole.trace(lambda scope: [], lambda arrays: None)
    leaves = flag not in whole.fixed
    if leaves:
        _while(frame, whole, function, condition)
    frame.variables[counter] = outer
    return leaves


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

    loop = Loop(frame, node, run)
    function = loop.trace(lambda scope: [], lambda arrays: None)
    try:
        _while(frame, loop, function, lambda: _unless_failed(frame, test()))
    except _TestNotes:
        _while_tested_before(frame, node, condition, run)


def _unless_failed(frame: Frame, holds: Any) -> Any:
    """A condition; False once an error has been noted, after which it may hold forever."""
    none = frame.trace.assertions.none_failed()
    if none is None:
        return holds
    return Array(apply("logical_and", none._node, node_of(holds)))


class _TestNotes(Exception):  # noqa: N818 - a signal: test in the body
    """The condition of a loop notes errors, which only the body of a loop of the program may."""


def _while_tested_before(
    frame: Frame, node: ast.While, condition: Callable[[], Any], run: Callable[[], Any]
) -> None:
    """A `while` whose condition is evaluated before it and at the end of each round."""
    goes, flag = ".goes", left_flag(node)
    outer = frame.variables.get(goes)

    def tested() -> None:
        left = False if flag is None else frame.variables[flag]
        if isinstance(left, Array):
            stays = Array(apply("logical_not", left._node))
            found = branches.chosen(frame, node, stays, condition, lambda: False)
        else:
            found = False if left else condition()
        frame.variables[goes] = Array(node_of(found))

    def round_and_test() -> None:
        run()
        tested()

    tested()
    loop = Loop(frame, node, round_and_test)
    loop.scalars[goes] = Scalar(goes, node_of(frame.variables[goes]), DType.BOOL, False)
    function = loop.trace(lambda scope: [], lambda arrays: None)
    _while(frame, loop, function, lambda: _unless_failed(frame, frame.variables[goes]))
    frame.variables[goes] = outer


def _while(frame: Frame, loop: Loop, function: Lambda, condition: Callable[[], Any]) -> None:
    before = dict(frame.variables)
    region = frame.memory.enter(set(loop.cells))

    def call(arrays: Sequence[Array]) -> Any:
        loop.enter(region, arrays)
        return condition()

    try:
        test, _ = traced.trace(call, loop.parameters, call)
    except NotCarried as signal:
        if signal.region is not region:
            raise
        raise _TestNotes from None
    finally:
        frame.memory.leave(region)
        frame.variables = before
    test = traced.settled(test, [DType.BOOL])
    types = loop.types()
    made = make(
        operations.While(), tuple(loop.initial()), (), None, lambdas=(test, function), types=types
    )
    loop.finish([graph.pick(made, k) for k in range(len(types))])


# ---------------------------------------------------------------- rounds one by one


def few_rounds(bounds: tuple[Any, Any, Any]) -> Extent | None:
    """How many rounds a range has, where each may be traced by itself if it has to be.

    Where arrays have other lengths in each round, that no round knows of another.
    """
    start, stop, step = map(bound, bounds)
    if any(size.is_undecided for size in (start, stop, step)) or step.value == 0:
        return None
    count = _count(start, stop, int(step))
    return count if count.value <= _FEW else None


def is_small(bounds: tuple[Any, Any, Any]) -> bool:
    """Whether a range of literals has so few rounds that each is traced by itself."""
    if not all(isinstance(end, int) for end in bounds):
        return False
    start, stop, step = bounds
    return step != 0 and len(range(start, stop, step)) <= _UNROLLED
