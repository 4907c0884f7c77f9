"""Loops whose first round gives a number another type: that round by itself, before the others.

    m = x[0]  # int32                         m = x[0] + y[0]
    for i in range(n): m = m + y[i]    =>     for i in range(1, n): m = m + y[i]
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

from weft.array import Array
from weft.kernel import branches, loops
from weft.kernel.disagreements import TypesError
from weft.kernel.expressions import as_truth, negated
from weft.kernel.frame import Frame
from weft.kernel.syntax import left_flag

_MOST = 2
"""So many rounds are done by themselves: types may change again, or in every round."""


def for_range(
    frame: Frame, node: ast.For, bounds: tuple[Any, Any, Any], run: Callable[[], None],
    bind: Callable[[Any], None], body: Callable[[], Any], by_range: bool = True, done: int = 0,
) -> None:  # fmt: skip
    """A loop in order over a range, or over what is bound by the numbers of one.

    `body` interprets the body of a round by itself, `run` that of all.
    """
    start, stop, step = bounds

    def first() -> bool | None:
        count = loops.count_of(frame, node, bounds)
        if count.is_undecided:
            return None
        if count > 0:
            bind(start)
            body()
        return bool(count > 0)

    def rest(done: int) -> None:
        others = start + step, stop, step
        for_range(frame, node, others, run, bind, body, by_range, done)

    def traced() -> None:
        loops.for_range(frame, node, bounds, run, bind, False, by_range)

    or_apart(frame, node, traced, first, rest, done)


def or_apart(
    frame: Frame, node: ast.For | ast.While, traced: Callable[[], None],
    first: Callable[[], bool | None], rest: Callable[[int], None], done: int,
) -> None:  # fmt: skip
    """Trace a loop, or its first round and what follows, if types have to be those of the second.

    `first` does the round; it gives False where there is none, and None where only the run knows.
    `done`: how many rounds were done so before.
    """
    variables, places = dict(frame.variables), dict(frame.assigned_at)
    try:
        traced()
        return
    except TypesError as error:
        if done == _MOST:
            raise
        refused = error
    frame.variables, frame.assigned_at = variables, places
    flag = left_flag(node)
    if flag is not None:
        frame.variables[flag] = False
    there_is_one = first()
    if there_is_one is None:
        raise refused
    left = flag is not None and as_truth(frame, node, frame.variables[flag])
    if isinstance(left, Array):
        branches.branch(frame, node, negated(left), partial(rest, done + 1), lambda: None)
    elif there_is_one and not left:
        rest(done + 1)
