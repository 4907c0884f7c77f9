"""Matrices that are each other's transpose, as far as a program's own views tell."""

from __future__ import annotations

from collections.abc import Mapping

from weft.fun import nodes as fun
from weft.passes.knowledge import Knowledge
from weft.sizes import Size


def is_view(expr: fun.Expr | None) -> bool:
    """Whether an array is another one's memory."""
    return isinstance(expr, fun.LAYOUT_CHANGES)


def are_mirrored(
    left: fun.Var, right: fun.Var, bound: Mapping[str, fun.Let], known: Knowledge
) -> bool:
    """Whether one matrix is the other's transpose: both are views of the same elements."""
    one, other = _part_of(left, bound), _part_of(right, bound)
    if one is None or other is None or one[0] != other[0]:
        return False
    pairs = zip(one[1], other[1][::-1], strict=True)
    return one[2] != other[2] and all(known.equal(a, b) for a, b in pairs)


def _part_of(
    matrix: fun.Var, bound: Mapping[str, fun.Let]
) -> tuple[str, tuple[Size, ...], bool] | None:
    """The matrix of which one is the first rows and columns, its shape, whether transposed."""
    assert isinstance(matrix.type, fun.Array)
    shape, transposed, name = matrix.type.shape, False, matrix.name
    while name in bound and is_view(view := bound[name].expr):
        match view:
            case fun.Permute(array, (1, 0)):
                transposed = not transposed
            case fun.Slice(array, dims) if all(
                isinstance(dim, fun.Span) and dim.start == 0 and dim.step == 1 for dim in dims
            ):
                pass
            case _:
                return None
        name = array.name
    return name, shape, transposed
