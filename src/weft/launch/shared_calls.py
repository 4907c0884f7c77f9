"""Library calls whose rows several threads do, a share each: NumPy has one do all.

Rows, matrices of a batch, and values that are looked for know nothing of each other, so they are
what they are in any share. NumPy lets go of Python's lock while it computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.ops.factorisations import FACTORISATIONS
from weft.ops.routines import Routine
from weft.ops.runs import MERGES
from weft.ops.transforms import TRANSFORMS
from weft.records import dataclass
from weft.runtime import workers

NDArray = npt.NDArray[Any]

_LEAST = 1 << 15
"""Elements of a share: of fewer, one thread is done before another is awake."""

_MATRICES = 64
"""Of a batch: few large ones are done by threads of LAPACK's own."""


@dataclass(frozen=True, slots=True)
class Share:
    """A call for some of its rows."""

    arguments: Sequence[NDArray]
    out: tuple[NDArray, ...]


def shares(
    routine: Routine, arguments: Sequence[NDArray], out: tuple[NDArray, ...],
    options: Mapping[str, Any], threads: int,
) -> list[Share]:  # fmt: skip
    """The call as several, as many as there are threads at most; one where that is no gain."""
    whole = [Share(arguments, out)]
    if threads < 2:
        return whole
    sized = out if routine.name in MERGES else (*arguments, *out)
    elements = max(array.size for array in sized)
    most = min(threads, elements // _LEAST)
    if most < 2:
        return whole
    if routine.name in MERGES:
        count, cut = out[0].shape[-1], _ranks
    else:
        axis = _apart(routine.name, arguments, options)
        if axis is None:
            return whole
        count, cut = out[0].shape[axis], partial(_rows, _along(routine.name, arguments), axis)
    bounds = [count * number // most for number in range(most + 1)]
    return [cut(arguments, out, *part) for part in pairwise(bounds) if part[0] < part[1]]


def _apart(
    name: str, arguments: Sequence[NDArray], options: Mapping[str, Any]
) -> int | None:
    """An axis along which nothing knows of anything else."""
    rank = arguments[0].ndim
    if name in ("sort", "argsort"):
        sorted_ = options["axis"] % rank
        return next((axis for axis in range(rank) if axis != sorted_), None)
    if name == "searchsorted":
        return 0 if arguments[1].ndim else None
    if name == "partition" or name in TRANSFORMS:
        return 0 if rank > 1 else None
    if name in FACTORISATIONS:
        batches = {array.shape[:-2][:1] for array in arguments}
        return 0 if len(batches) == 1 and min(batches) >= (_MATRICES,) else None
    return None


def _along(name: str, arguments: Sequence[NDArray]) -> Sequence[int]:
    """Which arguments have that axis; of the others each share takes all."""
    if name == "searchsorted":
        return (1,)
    return range(len(arguments)) if name in FACTORISATIONS else (0,)


def _rows(
    along: Sequence[int], axis: int, arguments: Sequence[NDArray], out: tuple[NDArray, ...],
    start: int, stop: int,
) -> Share:  # fmt: skip
    rows = (slice(None),) * axis + (slice(start, stop),)
    own = [array[rows] if number in along else array for number, array in enumerate(arguments)]
    return Share(own, tuple(array[rows] for array in out))


def _ranks(
    arguments: Sequence[NDArray], out: tuple[NDArray, ...], start: int, stop: int
) -> Share:
    """The elements of some ranks, of what is merged: the last argument is the first rank."""
    *runs, at = arguments
    return Share([*runs, np.asarray(at + start)], tuple(array[..., start:stop] for array in out))


def run(shared: Sequence[Share], call: Callable[[Share], object]) -> None:
    """Have a thread for each share make its call; this one is one of them.

    Raises
    ------
    Exception
        What the call for the first of the shares that failed has raised, once all have ended.
    """
    failures: dict[int, BaseException] = {}

    def attempt(number: int) -> None:
        try:
            call(shared[number])
        except BaseException as failure:  # raised below, by the thread that called
            failures[number] = failure

    others = [
        (partial(copy_context().run, attempt, number), ()) for number in range(1, len(shared))
    ]
    jobs = workers.begin(others)
    attempt(0)
    for job in jobs:
        job.join()
    if failures:
        raise failures[min(failures)]
