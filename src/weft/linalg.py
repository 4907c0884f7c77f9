"""Linear algebra: the standard's extension, and NumPy's `norm`.

Norms, products, diagonals and traces are Weft's own: they fuse, and stream. Factorisations are
NumPy's library calls on whole arrays; determinants, inverses and solutions are eliminated within
loops, branches and combinators, where those of a singular matrix are not finite, and an error in a
kernel. Matrices are the last two dimensions of an array, those before them are batches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft import functions as wf
from weft.array import Array
from weft.errors import ArgumentError, ShapeError, user_place
from weft.frontend import extent as extents
from weft.frontend import layout, lengths
from weft.frontend.elementwise import as_dtype, broadcast_shapes, common_dtype
from weft.frontend.extent import Extent
from weft.frontend.graph import Node, Shape, pick
from weft.frontend.guards import forget_guards
from weft.functions import elimination, matmul, matrix_transpose, tensordot, vecdot
from weft.functions.arguments import array_node, as_inexact, inexact, length_of, one_axis
from weft.functions.library_calls import is_within, library_call, library_calls
from weft.functions.linear_algebra import misfit
from weft.functions.matrices import cross, diagonal, outer, trace
from weft.functions.tensors import multi_dot, tensorinv, tensorsolve
from weft.ops.dtypes import DType

__all__ = [
    "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv",
    "lstsq", "matmul", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose",
    "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]  # fmt: skip


class EigResult(NamedTuple):
    """What `eig` gives."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """What `eigh` gives."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """What `qr` gives."""

    Q: Array
    R: Array


class SlogdetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    """What `svd` gives."""

    U: Array
    S: Array
    Vh: Array


# ---------------------------------------------------------------- what matrices are


def _matrices(x: Any, what: str) -> Node:
    """Matrices of floats or complex numbers."""
    node = as_inexact(array_node(x))
    if len(node.shape) < 2:
        raise ShapeError(
            f"{what} of an array of shape {layout.values(node.shape)}",
            "two dimensions or more", place=user_place(),
        )  # fmt: skip
    return node


def _square(x: Any, what: str) -> Node:
    node = _matrices(x, what)
    rows, columns = node.shape[-2:]
    if not lengths.agree(rows, columns):
        forget_guards()
        raise ShapeError(
            f"{what} of matrices of shape {layout.values(node.shape[-2:])}",
            "square ones", place=user_place(),
        )  # fmt: skip
    extents.require_equal(rows, columns)
    return node


def _is_wide(node: Node) -> bool:
    """Whether there are no more rows than columns: part of the program, and guarded."""
    return extents.at_least(node.shape[-1], node.shape[-2])


def _shorter(node: Node, wide: bool) -> Extent:
    return node.shape[-2] if wide else node.shape[-1]


# ---------------------------------------------------------------- norms


def vector_norm(
    x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2
) -> Array:
    """The norm of vectors: sum(abs(x)**ord)**(1/ord).

    Parameters
    ----------
    x : array
        Integers count as float64.
    axis : int or tuple of int, optional
        What a vector lies along; by default all of the array is one.
    keepdims : bool
    ord : float
        inf and -inf are the greatest and least magnitude, 0 counts what is not zero.
    """
    array = inexact(x)
    kept: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    if ord == 0:
        return wf.astype(wf.sum(wf.astype(array != 0, np.int64), **kept), _real(array))
    if ord == 2:
        return wf.sqrt(wf.sum(_squares(array), **kept))
    magnitudes = wf.abs(array)
    if ord == np.inf:
        return wf.max(magnitudes, **kept)
    if ord == -np.inf:
        return wf.min(magnitudes, **kept)
    if ord == 1:
        return wf.sum(magnitudes, **kept)
    return wf.sum(magnitudes**ord, **kept) ** (1 / ord)


def _real(array: Array) -> np.dtype[Any]:
    return array._node.dtype.real.numpy


def _squares(array: Array) -> Array:
    """Of magnitudes, without their roots."""
    if array._node.dtype.is_complex:
        return wf.real(array) ** 2 + wf.imag(array) ** 2
    return array * array


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """The norm of matrices.

    Parameters
    ----------
    x : array
        Of two dimensions or more.
    keepdims : bool
    ord : {"fro", "nuc", 1, -1, 2, -2, inf, -inf}
        The root of all squares; the sum, the greatest (2) or least (-2) of the singular values;
        the greatest (1) or least (-1) sum of magnitudes of a column, of a row (inf, -inf).

    Raises
    ------
    ShapeError
        For fewer than two dimensions.
    ArgumentError
        For another order.
    """
    array = Array(_matrices(x, "a matrix norm"))
    if ord == "fro":
        return vector_norm(array, axis=(-2, -1), keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        values = svdvals(array)
        chosen = {"nuc": wf.sum, 2: wf.max, -2: wf.min}[ord](values, axis=-1)
        return chosen[..., None, None] if keepdims else chosen
    if ord not in (1, -1, np.inf, -np.inf):
        expected = 'one of "fro", "nuc", 1, -1, 2, -2, inf, -inf'
        raise ArgumentError(f"order {ord!r} of a matrix norm", expected, place=user_place())
    along, across = (-2, -1) if abs(ord) == 1 else (-1, -2)
    sums = wf.sum(wf.abs(array), axis=along, keepdims=True)
    found = (wf.max if ord > 0 else wf.min)(sums, axis=across, keepdims=True)
    return found if keepdims else wf.squeeze(found, (-2, -1))


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """NumPy's norm: of vectors along one axis, of matrices along two, else of all elements.

    Raises
    ------
    ArgumentError
        For an order that there is not.
    ShapeError
        For an order without axes, of an array of more than two dimensions.
    """
    array = inexact(x)
    if axis is None and ord is None:
        return vector_norm(array, keepdims=keepdims)
    if isinstance(ord, str) and (array.ndim if axis is None else np.size(axis)) == 1:
        raise ArgumentError(f"order {ord!r} of a vector norm", "a number", place=user_place())
    if axis is None:
        if not 1 <= array.ndim <= 2:
            raise ShapeError(
                f"norm of order {ord!r} of {array.ndim} dimensions", "one or two, or an axis",
                place=user_place(),
            )  # fmt: skip
        axis = tuple(range(array.ndim))
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    if len(axes) == 1:
        return vector_norm(array, axis=axes[0], keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ArgumentError(f"norm along axes {axis}", "one axis or two", place=user_place())
    numbers = tuple(one_axis(a, array.ndim) for a in axes)
    found = matrix_norm(wf.moveaxis(array, numbers, (-2, -1)), ord="fro" if ord is None else ord)
    return wf.expand_dims(found, tuple(sorted(numbers))) if keepdims else found


# ---------------------------------------------------------------- powers


def matrix_power(x: Any, n: int, /) -> Array:
    """The product of n square matrices x; of inverses for n < 0.

    Raises
    ------
    ShapeError
        For matrices that are not square.
    LinearAlgebraError
        When it is computed, for n < 0 and a singular matrix.
    """
    n = extents.integer(n)
    power = Array(_square(x, "a power"))
    if n < 0:
        power, n = inv(power), -n
    elif array_node(x).dtype.kind in "biu":
        power = Array(array_node(x))  # of integers, exactly; of booleans, where any are
    result: Array | None = None
    while n:  # squares of squares, of which the bits of n are taken
        if n & 1:
            result = power if result is None else matmul(result, power)
        n >>= 1
        power = matmul(power, power) if n else power
    if result is not None:
        return result
    size = power._node.shape[-1]
    identity = wf.eye(size, dtype=power.dtype)
    return wf.broadcast_to(identity, power.shape)


# ---------------------------------------------------------------- factorisations


def _results(
    routine: str, options: Any, inputs: tuple[Node, ...], types: tuple[tuple[Shape, DType], ...]
) -> list[Array]:
    if is_within(*inputs):
        from weft.functions.written_out import several_written_out

        written = several_written_out(routine, dict(options), inputs)
        if written is not None:
            return [Array(node) for node in written]
    node = library_calls(routine, options, inputs, types)
    return [Array(pick(node, k)) for k in range(len(types))]


def cholesky(x: Any, /, *, upper: bool = False) -> Array:
    """The lower triangle L of L @ L.T.conj() = x, or the upper one of U.T.conj() @ U = x.

    Raises
    ------
    LinearAlgebraError
        When it is computed, for a matrix that is not positive definite.
    """
    node = _square(x, "cholesky")
    options = (("upper", bool(upper)),)
    return Array(library_call("cholesky", options, (node,), node.shape, node.dtype))


def det(x: Any, /) -> Array:
    """The determinants of square matrices: of many small ones, in one fused pass."""
    node = _square(x, "det")
    if len(node.shape) > 2 and elimination.are_few(node):
        return Array(elimination.determinants(node))
    return Array(library_call("det", (), (node,), node.shape[:-2], node.dtype))


def slogdet(x: Any, /) -> SlogdetResult:
    """The signs of determinants, and the logarithms of their magnitudes."""
    node = _square(x, "slogdet")
    batch = node.shape[:-2]
    types = (batch, node.dtype), (batch, node.dtype.real)
    return SlogdetResult(*_results("slogdet", (), (node,), types))


def eig(x: Any, /) -> EigResult:
    """Eigenvalues, and the eigenvectors as columns: complex, in no order."""
    node = _square(x, "eig")
    dtype = node.dtype.complex
    types = (node.shape[:-1], dtype), (node.shape, dtype)
    return EigResult(*_results("eig", (), (node,), types))


def eigvals(x: Any, /) -> Array:
    """Eigenvalues: complex, in no order."""
    node = _square(x, "eigvals")
    return Array(library_call("eigvals", (), (node,), node.shape[:-1], node.dtype.complex))


def eigh(x: Any, /) -> EighResult:
    """Eigenvalues, ascending, and eigenvectors as columns, of Hermitian matrices.

    Their lower triangle alone is read.
    """
    node = _square(x, "eigh")
    types = (node.shape[:-1], node.dtype.real), (node.shape, node.dtype)
    return EighResult(*_results("eigh", (), (node,), types))


def eigvalsh(x: Any, /) -> Array:
    """Eigenvalues, ascending, of Hermitian matrices; their lower triangle alone is read."""
    node = _square(x, "eigvalsh")
    return Array(library_call("eigvalsh", (), (node,), node.shape[:-1], node.dtype.real))


def inv(x: Any, /) -> Array:
    """The inverses of square matrices.

    Raises
    ------
    LinearAlgebraError
        When it is computed, for a singular matrix.
    """
    node = _square(x, "inv")
    return Array(library_call("inv", (), (node,), node.shape, node.dtype))


def solve(x1: Any, x2: Any, /) -> Array:
    """The solutions of x1 @ y = x2, of a vector or of matrices.

    Raises
    ------
    ShapeError
        For matrices that are not square, and where rows differ in number.
    LinearAlgebraError
        When it is computed, for a singular matrix.
    """
    left, right = _square(x1, "solve"), as_inexact(array_node(x2))
    dtype = common_dtype((left, right))
    left, right = as_dtype(left, dtype), as_dtype(right, dtype)
    if len(right.shape) == 1:
        return wf.squeeze(solve(Array(left), Array(layout.expand(right, 1))), -1)
    if not right.shape or not lengths.agree(left.shape[-1], right.shape[-2]):
        raise misfit("solve", left, right, "as many rows on the right as on the left")
    extents.require_equal(left.shape[-1], right.shape[-2])
    batch = broadcast_shapes([left.shape[:-2], right.shape[:-2]], "solve")
    return Array(library_call("solve", (), (left, right), (*batch, *right.shape[-2:]), dtype))


def qr(x: Any, /, mode: str = "reduced") -> QRResult:
    """An orthonormal matrix and an upper triangular one, whose product is x.

    Parameters
    ----------
    x : array
    mode : {"reduced", "complete"}
        Whether as many columns and rows as the shorter side, or square ones.
    """
    if mode not in ("reduced", "complete"):
        raise ArgumentError(f"mode {mode!r}", '"reduced" or "complete"', place=user_place())
    node = _matrices(x, "qr")
    wide = _is_wide(node)
    *batch, rows, columns = node.shape
    inner = rows if mode == "complete" else _shorter(node, wide)
    options = ("mode", mode), ("wide", wide)
    types = ((*batch, rows, inner), node.dtype), ((*batch, inner, columns), node.dtype)
    return QRResult(*_results("qr", options, (node,), types))


def svd(x: Any, /, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Singular vectors, values (descending), and conjugated vectors: x = U @ diag(S) @ Vh.

    Parameters
    ----------
    x : array
    full_matrices : bool
        Whether U and Vh are square; else they have as many vectors as there are values.
    compute_uv : bool
        NumPy's: else the values alone, as `svdvals`.
    """
    if not compute_uv:
        return svdvals(x)
    node = _matrices(x, "svd")
    wide = _is_wide(node)
    *batch, rows, columns = node.shape
    inner = _shorter(node, wide)
    options = ("full_matrices", bool(full_matrices)), ("wide", wide)
    types = (
        ((*batch, rows, rows if full_matrices else inner), node.dtype),
        ((*batch, inner), node.dtype.real),
        ((*batch, columns if full_matrices else inner, columns), node.dtype),
    )
    return SVDResult(*_results("svd", options, (node,), types))


def svdvals(x: Any, /) -> Array:
    """Singular values, descending."""
    node = _matrices(x, "svdvals")
    wide = _is_wide(node)
    shape = (*node.shape[:-2], _shorter(node, wide))
    return Array(library_call("svdvals", (("wide", wide),), (node,), shape, node.dtype.real))


def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Array, Array, Array, Array]:
    """NumPy's lstsq: the x of least norm(a @ x - b), squares, the rank, and singular values.

    Parameters
    ----------
    a : matrix
    b : array
        A right side, or several as columns.
    rcond : float, optional
        Singular values below this part of the greatest count as zero; by default the longer
        side times the dtype's epsilon.

    Returns
    -------
    x, residuals, rank, s : Array
        The sums of squares of a @ x - b are there where a has more rows than columns, of any
        rank (NumPy's are not where the rank is less).

    Raises
    ------
    ShapeError
        For what is no matrix, and for right sides of another length.
    """
    left, right = _matrices(a, "lstsq"), as_inexact(array_node(b))
    if len(left.shape) != 2 or not 1 <= len(right.shape) <= 2 or not lengths.agree(
        left.shape[0], right.shape[0]
    ):
        raise misfit("lstsq", left, right, "a matrix, and as many rows on the right")
    extents.require_equal(left.shape[0], right.shape[0])
    dtype = common_dtype((left, right))
    left, right = as_dtype(left, dtype), as_dtype(right, dtype)
    tolerance = as_dtype(array_node(_tolerance(left, rcond)), dtype.real)
    wide = _is_wide(left)
    types = (
        ((left.shape[1], *right.shape[1:]), dtype), ((), DType.I32),
        ((_shorter(left, wide),), dtype.real),
    )  # fmt: skip
    inputs = (left, right, tolerance)
    node = library_calls("lstsq", (("wide", wide),), inputs, types)
    found, rank, values = (Array(pick(node, k)) for k in range(3))
    if wide:
        squares = wf.zeros((0,), dtype=dtype.real.numpy)
    else:
        squares = wf.sum(_squares(Array(right) - matmul(Array(left), found)), axis=0)
        squares = squares.reshape((-1,))
    return found, squares, rank, values


def cond(x: Any, p: Any = None) -> Array:
    """The condition numbers of matrices: norms of them times those of their inverses.

    Parameters
    ----------
    x : array
    p : None or an order of `matrix_norm`
        None and 2: the greatest singular value over the least.
    """
    if p in (None, 2, -2):
        values = svdvals(x)
        greatest, least = values[..., 0], values[..., -1]
        return least / greatest if p == -2 else greatest / least
    return matrix_norm(x, ord=p) * matrix_norm(inv(x), ord=p)


def pinv(x: Any, /, *, rtol: Any = None) -> Array:
    """The pseudo-inverses of matrices (Moore and Penrose).

    Parameters
    ----------
    x : array
    rtol : float or array, optional
        Singular values below this part of the greatest count as zero; by default the longer
        side times the dtype's epsilon.
    """
    node = _matrices(x, "pinv")
    tolerance = as_dtype(array_node(_tolerance(node, rtol)), node.dtype.real)
    shape = (*node.shape[:-2], node.shape[-1], node.shape[-2])
    return Array(library_call("pinv", (), (node, tolerance), shape, node.dtype))


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Array:
    """How many singular values count, as int64; `rtol` is as for `pinv`."""
    node = _matrices(x, "matrix_rank")
    if lengths.may_be_empty(extents.smaller(*node.shape[-2:])):
        return wf.zeros(Array(node).shape[:-2], dtype=np.int64)
    values = svdvals(Array(node))
    least = wf.max(values, axis=-1) * _tolerance(node, rtol)
    return wf.sum(wf.astype(values > least[..., None], np.int64), axis=-1)


def _tolerance(node: Node, rtol: Any) -> Any:
    """The part of the greatest singular value below which others count as zero."""
    if rtol is not None:
        return rtol
    real = node.dtype.real.numpy
    longer = length_of(node.shape[-1] if _is_wide(node) else node.shape[-2])
    return wf.astype(longer, real) * float(np.finfo(real).eps)
