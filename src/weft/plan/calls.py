"""Library calls that can be cut: which axes of their arguments go with those of their results.

    let c = call matmul(a, b)   rows of c need rows of a, and all of b; or parts of what is summed
                                are added to all of c
    let s = call sort(x, axis)  every axis but the sorted one; as rows that are partitioned
    let f = call fft(x)         or transformed
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from weft.fun import nodes as fun
from weft.fun import walk
from weft.ops.routines import routine
from weft.ops.runs import RUNS
from weft.records import dataclass
from weft.sizes import ONE, ZERO, Poly, Size, as_poly, product

Ends = tuple[Size, Size] | None


@dataclass(frozen=True, slots=True)
class CutCall:
    """A call as if it were a kernel over the axes along which it can be cut.

    Attributes
    ----------
    axes : tuple of (str, Size)
        For each axis of the result from the first on, an index variable and its extent.
    reads : tuple of (tuple of Ends)
        For each argument and each of its axes, the index that is read; None for all of it.
    summed : (str, Size) or None
        An index variable of what is summed, and its extent: boxes along it add to all results.
    """

    axes: tuple[tuple[str, Size], ...]
    reads: tuple[tuple[Ends, ...], ...]
    summed: tuple[str, Size] | None = None


def bytes_beside(let: fun.Let) -> Size:
    """What a call makes besides its results, and gives back, at most; 0 of other statements."""
    if not isinstance(let.expr, fun.Call):
        return ZERO
    called = routine(let.expr.routine)
    of_arguments, of_results = called.beside
    arguments = [_bytes(atom.type) for atom in let.expr.arguments]
    results = [_bytes(var.type) for var in let.pattern]
    rows = [_row_bytes(var.type) for var in let.pattern]
    found = sum(arguments, ZERO) * of_arguments + sum(results, ZERO) * of_results
    return as_poly(found + sum(rows, ZERO) * called.rows)


def _bytes(type_: fun.Type) -> Size:
    return product(walk.type_sizes(type_)) * type_.dtype.itemsize


def _row_bytes(type_: fun.Type) -> Size:
    return product(walk.type_sizes(type_)[-1:]) * type_.dtype.itemsize


def cut_call(let: fun.Let) -> CutCall | None:
    """How a statement that calls a routine can be cut (None: not at all)."""
    expr = let.expr
    if not isinstance(expr, fun.Call) or len(let.pattern) != 1:
        return None
    shapes = [a.type.shape if isinstance(a.type, fun.Array) else () for a in expr.arguments]
    type_ = let.pattern[0].type
    if not isinstance(type_, fun.Array):
        return None
    names = [f"{let.pattern[0].name}.{axis}" for axis in range(type_.rank)]
    at: list[Ends] = [(Poly.var(name), Poly.var(name)) for name in names]
    axes = tuple(zip(names, type_.shape, strict=True))
    match expr.routine:
        case "matmul":
            summed = f"{let.pattern[0].name}.terms", shapes[0][-1]
            return _matmul(shapes[0], shapes[1], axes, at, summed)
        case "sort" | "argsort":
            axis = int(dict(expr.options).get("axis", -1)) % type_.rank
            kept = tuple(None if k == axis else end for k, end in enumerate(at))
            return CutCall(axes[:axis], (kept,)) if axis > 0 else None
        case "fft" | "ifft" | "rfft" | "ihfft" | "irfft" | "hfft":
            return CutCall(axes[:-1], ((*at[:-1], None),)) if type_.rank > 1 else None
        case "partition":
            return CutCall(axes[:-1], ((*at[:-1], None), (None,))) if type_.rank > 1 else None
        case "sort_runs" | "argsort_runs":
            return CutCall(axes, (tuple(at),))
        case "merge_runs" | "merge_order":  # the last argument is where a part begins
            runs = (*at[:-1], None)
            return CutCall(axes, (*(runs for _ in expr.arguments[:-1]), ()))
        case "searchsorted":
            return CutCall(axes, ((None,), tuple(at)))
        case _:
            return None


TALL = 4
"""Sums are made in parts where an argument is so many times as large as their result."""

_BLOCK = 2 << 20  # bytes of the arguments of a product that is added to those before, about
_LEAST_TERMS = 256  # of it: fewer, and adding would take as long as multiplying


def summed_in_parts(
    let: fun.Let, cut: CutCall, sizes: Mapping[str, int]
) -> tuple[str, Size] | None:
    """What a product sums, if boxes may have parts of it: the result is much the smaller."""
    if cut.summed is None:
        return None
    call = let.expr
    assert isinstance(call, fun.Call)
    arguments = (_bytes(atom.type).evaluate(sizes) for atom in call.arguments)
    (result,) = let.pattern
    return cut.summed if TALL * _bytes(result.type).evaluate(sizes) <= max(arguments) else None


def unit_of(let: fun.Let, dim: int, sizes: Mapping[str, int]) -> int:
    """What bounds of boxes along an axis of a call are multiples of: runs, blocks of terms."""
    call, type_ = let.expr, let.pattern[0].type
    if not isinstance(call, fun.Call) or not isinstance(type_, fun.Array):
        return 1
    if call.routine in RUNS and dim == type_.rank - 1:
        return int(dict(call.options)["run"])
    return terms_of_block(let, sizes) if dim >= type_.rank else 1


def terms_of_block(let: fun.Let, sizes: Mapping[str, int]) -> int:
    """How many terms of sums are added at once: whatever the boxes, so that bits are the same."""
    call, cut = let.expr, cut_call(let)
    assert isinstance(call, fun.Call)
    assert cut is not None
    assert cut.summed is not None
    count = max(int(cut.summed[1].evaluate(sizes)), 1)
    bytes_ = sum(int(_bytes(atom.type).evaluate(sizes)) for atom in call.arguments)
    terms = max(_BLOCK * count // max(bytes_, 1), _LEAST_TERMS)
    return 1 << int(math.log2(terms))


def _matmul(
    left: tuple[Size, ...], right: tuple[Size, ...], axes: tuple[tuple[str, Size], ...],
    at: list[Ends], summed: tuple[str, Size],
) -> CutCall:  # fmt: skip
    """Batches along both arguments, rows along the left one, columns along the right one.

    And the terms of sums along both.
    """
    rest = list(at)
    term: Ends = Poly.var(summed[0]), Poly.var(summed[0])
    columns: tuple[Ends, ...] = () if len(right) == 1 else (rest.pop(),)
    rows: tuple[Ends, ...] = () if len(left) == 1 else (rest.pop(),)
    return CutCall(
        axes,
        (
            (*_batch(left[:-2], rest), *rows, term),
            (*_batch(right[:-2], rest), term, *columns),
        ),
        summed,
    )


def _batch(shape: tuple[Size, ...], at: list[Ends]) -> tuple[Ends, ...]:
    last = at[len(at) - len(shape) :]
    return tuple(
        (ZERO, ZERO) if n == ONE else end for n, end in zip(shape, last, strict=True)
    )
