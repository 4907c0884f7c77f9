"""Steps that NumPy does: library calls, and views between compiled segments."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.errors import InternalError, Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.access import span_slice
from weft.launch.gram import gram
from weft.launch.shared_calls import run, shares
from weft.ops import routines
from weft.plan.calls import bytes_beside
from weft.plan.segment import BoundsCheck
from weft.runtime import blas, profile
from weft.runtime.incore import HostRun, HostStep, check_bounds
from weft.runtime.memory import host_pool
from weft.runtime.watch import watched
from weft.sizes import ONE, Size

NDArray: TypeAlias = npt.NDArray[Any]
Value: TypeAlias = Any


def host_step(let: fun.Let, over: str | None = None) -> HostStep:
    """A library call, or a view, as NumPy does it; `over`: what the result takes the memory of."""
    names = tuple(sorted(walk.used_names(let.expr)))
    expr = let.expr
    variables = {a.name: a for a in walk.operands(expr)[0] if isinstance(a, fun.Var)}
    params = tuple(name for name in names if name in variables)
    results = tuple(var.name for var in let.pattern)
    if isinstance(expr, fun.Call):
        return HostStep(
            params, results, lambda sizes: LibraryCall(let, params, over, sizes),
            lambda sizes: _allocated(let, sizes), over, workspace=bytes_beside(let).evaluate,
        )  # fmt: skip
    constant = None
    if isinstance(expr, fun.Broadcast) and isinstance(expr.array, fun.Const):
        constant = np.asarray(expr.array.value, expr.array.dtype.numpy)

    def bind(sizes: Mapping[str, int]) -> HostRun:
        turn = _turn(expr, sizes, let.place)
        return lambda values, given: (turn(values[0] if values else constant),)

    reshapes = isinstance(expr, fun.Reshape) and constant is None
    return HostStep(params, results, bind, lambda sizes: (0,), reshapes=reshapes)


def _allocated(let: fun.Let, sizes: Mapping[str, int]) -> list[int]:
    return [math.prod(_shape(var, sizes)) * var.type.dtype.itemsize for var in let.pattern]


def _shape(var: fun.Var, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(extent.evaluate(sizes) for extent in walk.type_sizes(var.type))


class LibraryCall:
    """A library call for some sizes.

    Parameters
    ----------
    let : fun.Let
    params : tuple of str
        What it is called with.
    over : str or None
        What the result takes the memory of.
    sizes : mapping of str to int
        With "threads".

    Attributes
    ----------
    routine : Routine
    options : dict
    places : list of int or ndarray
        For each argument, which of what it is called with it is; or a constant.
    kinds : list of (str, tuple of int, dtype)
        The names, shapes and dtypes of the results.
    over : int or None
        Which of what it is called with the result takes the memory of.
    """

    def __init__(
        self, let: fun.Let, params: tuple[str, ...], over: str | None, sizes: Mapping[str, int]
    ) -> None:
        call = let.expr
        assert isinstance(call, fun.Call)
        self.routine = routines.routine(call.routine)
        self.options: dict[str, Any] = dict(call.options)
        self._place = let.place
        self.places = [
            params.index(atom.name)
            if isinstance(atom, fun.Var)
            else np.asarray(atom.value, atom.dtype.numpy)
            for atom in call.arguments
        ]
        self.kinds = [(var.name, _shape(var, sizes), var.type.dtype.numpy) for var in let.pattern]
        self.over = None if over is None else params.index(over)
        self._threads = sizes["threads"]

    def arguments(
        self, values: Sequence[Value], given: Mapping[str, NDArray] | None
    ) -> tuple[list[NDArray], tuple[NDArray, ...]]:
        """What the routine takes, and where it writes to."""
        arguments = [values[place] if isinstance(place, int) else place for place in self.places]
        out = tuple(
            given[name]
            if given and name in given
            else host_pool().empty(shape, dtype)
            if self.over is None
            else values[self.over]
            for name, shape, dtype in self.kinds
        )
        return arguments, out

    def __call__(
        self, values: Sequence[Value], given: Mapping[str, NDArray] | None
    ) -> Sequence[Value]:
        arguments, out = self.arguments(values, given)
        recorder = profile.recorder
        start = perf_counter() if recorder is not None else 0.0
        call_library(self.routine, arguments, out, self.options, self._place, self._threads)
        if recorder is not None:
            moved = sum(array.nbytes for array in (*arguments, *out))
            recorder.record(self.routine.name, "cpu", start, perf_counter(), moved)
        return out


def call_library(
    routine: routines.Routine, arguments: Sequence[NDArray], out: tuple[NDArray, ...],
    options: Mapping[str, Any], place: Place | None, threads: int,
) -> None:  # fmt: skip
    """Have a library write to `out`, by so many threads at most."""
    with watched(arguments):
        if routine.name == "matmul" and gram(arguments[0], arguments[1], out[0], threads):
            return
        shared = shares(routine, arguments, out, options, threads)
        if len(shared) == 1:
            with blas.at_most(threads):
                routine.run(*arguments, out=out, place=place, **options)
            return
        with blas.at_most(1):
            run(shared, lambda s: routine.run(*s.arguments, out=s.out, place=place, **options))


def view(let: fun.Let, value: Value, sizes: Mapping[str, int]) -> Value:
    """A layout change of an array in memory: a view where NumPy has one."""
    return _turn(let.expr, sizes, let.place)(value)


def _turn(
    expr: fun.Expr, sizes: Mapping[str, int], place: Place | None
) -> Callable[[Value], Value]:
    """A layout change for these sizes."""

    def number(size: Size) -> int:
        return size.evaluate(sizes)

    match expr:
        case fun.Slice(array, dims):
            check_bounds(_bounds(array, dims, place), sizes)
            index = tuple(
                span_slice(number(dim.start), number(dim.extent), dim.step)
                if isinstance(dim, fun.Span)
                else number(dim)
                for dim in dims
            )
            return lambda value: value[index]
        case fun.Permute(_, axes):
            return lambda value: value.transpose(axes)
        case fun.Reshape(_, shape):
            extents = tuple(map(number, shape))
            return lambda value: value.reshape(extents)
        case fun.Broadcast(_, shape):
            wide = tuple(map(number, shape))
            return lambda value: np.broadcast_to(value, wide)
        case fun.LmadSlice(_, offset, dims):
            places: NDArray = np.asarray(number(offset))
            for extent, stride in dims:
                places = places[..., None] + number(stride) * np.arange(number(extent))
            return lambda value: value[places]
        case _:
            raise InternalError(f"{type(expr).__name__} is not a layout change")


def _bounds(
    array: fun.Var, dims: tuple[fun.Span | Size, ...], place: Place | None
) -> list[BoundsCheck]:
    """That a slice is inside of its array: NumPy would take less."""
    assert isinstance(array.type, fun.Array)
    spans = [dim if isinstance(dim, fun.Span) else fun.Span(dim, ONE) for dim in dims]
    counts = tuple(span.extent for span in spans)
    checks = []
    for axis, (span, extent) in enumerate(zip(spans, array.type.shape, strict=True)):
        ends = span.start, span.start + (span.extent - 1) * span.step
        low, high = ends if span.step > 0 else ends[::-1]
        checks.append(BoundsCheck((low,), (high,), extent, counts, array.name, axis, place))
    return checks
