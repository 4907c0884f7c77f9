"""Linear algebra beside NumPy's, in core and streamed; factorisations that there are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf

RNG = np.random.default_rng(11)
SQUARE = ["cholesky", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "slogdet"]
SHAPES = [(1, 1), (5, 3), (3, 5), (2, 7, 4), (2, 4, 7), (0, 3), (3, 0, 0)]


def definite(shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
    """Hermitian matrices that are positive definite."""
    x = RNG.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.standard_normal(shape)
    made = x @ np.swapaxes(x, -1, -2).conj() + shape[-1] * np.eye(shape[-1])
    return made.astype(dtype)


def agree(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            agree(one, other)
        return
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    tolerance = 1e-3 if found.dtype.itemsize // (1 + (found.dtype.kind == "c")) == 4 else 1e-8
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", SQUARE)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (3, 4, 4), (0, 0)])
def test_square_ones_are_numpys(name: str, dtype: str, shape: tuple[int, ...]) -> None:
    x = definite(shape, dtype)
    found = getattr(wf.linalg, name)(wf.asarray(x))
    wanted = getattr(np.linalg, name)(x)
    if name == "eig":  # vectors have no sign of their own
        values, vectors = map(np.asarray, found)
        agree(x @ vectors, vectors * values[..., None, :])
        wanted, found = wanted[0].astype(values.dtype), values
    elif name == "eigh":
        agree(x @ np.asarray(found[1]), found[1] * found[0][..., None, :])
        wanted, found = wanted[0], found[0]
    agree(found, tuple(wanted) if name == "slogdet" else wanted)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("full", [False, True])
def test_factors_multiply_to_the_matrix(shape: tuple[int, ...], full: bool) -> None:
    x = RNG.standard_normal(shape)
    inner = min(shape[-2:])
    q, r = wf.linalg.qr(wf.asarray(x), mode="complete" if full else "reduced")
    assert q.shape[-1] == (shape[-2] if full else inner)
    agree(q @ r, x)
    u, s, vh = wf.linalg.svd(wf.asarray(x), full_matrices=full)
    assert (u.shape[-1], vh.shape[-2]) == (shape[-2:] if full else (inner, inner))
    agree((u[..., :inner] * s[..., None, :]) @ vh[..., :inner, :], x)
    if 0 not in shape:
        agree(wf.linalg.svdvals(wf.asarray(x)), s)
        agree(wf.linalg.pinv(wf.asarray(x)), np.linalg.pinv(x))
        agree(wf.linalg.matrix_rank(wf.asarray(x)), np.linalg.matrix_rank(x))


def test_one_compilation_serves_both_wide_and_tall_matrices() -> None:
    factors = wf.jit(lambda x: wf.linalg.qr(x + 1.0))
    for shape in [(4, 3), (3, 4), (7, 2), (2, 7), (5, 5)]:
        x = RNG.standard_normal(shape)
        q, r = factors(x)
        assert q.shape == (shape[0], min(shape))
        agree(q @ r, x + 1.0)


def test_ranks_count_what_a_tolerance_leaves() -> None:
    x = np.diag([1.0, 1e-3, 1e-9])
    assert int(wf.linalg.matrix_rank(x)) == 3
    assert int(wf.linalg.matrix_rank(x, rtol=1e-6)) == 2
    agree(wf.linalg.pinv(x, rtol=1e-6), np.diag([1.0, 1e3, 0.0]))


@pytest.mark.parametrize("columns", [None, 1, 3])
def test_solve(columns: int | None) -> None:
    a = definite((4, 4))
    b = RNG.standard_normal((4,) if columns is None else (2, 4, columns))
    agree(wf.linalg.solve(wf.asarray(a), wf.asarray(b)), np.linalg.solve(a, b))


@pytest.mark.parametrize("order", [0, 1, 2, 3, 0.5, np.inf, -np.inf, -1])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64"])
def test_vector_norms(order: float, axis: Any, dtype: str) -> None:
    x = (RNG.standard_normal((3, 4, 5)) * 9).astype(dtype) + np.ones((), dtype)
    for keepdims in (False, True):
        found = wf.linalg.vector_norm(wf.asarray(x), axis=axis, ord=order, keepdims=keepdims)
        with np.errstate(divide="ignore"):
            wanted = np.linalg.vector_norm(x, axis=axis, ord=order, keepdims=keepdims)
        agree(found, wanted)


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
def test_matrix_norms(order: Any) -> None:
    x = RNG.standard_normal((2, 4, 3)) + 1j * RNG.standard_normal((2, 4, 3))
    for keepdims in (False, True):
        found = wf.linalg.matrix_norm(wf.asarray(x), ord=order, keepdims=keepdims)
        agree(found, np.linalg.matrix_norm(x, ord=order, keepdims=keepdims))
    agree(wf.linalg.norm(x[0], order), np.linalg.norm(x[0], order))
    agree(wf.linalg.norm(x, order, (0, 2)), np.linalg.norm(x, order, (0, 2)))


@pytest.mark.parametrize("offset", [-5, -2, 0, 1, 9])
def test_diagonals_and_traces(offset: int) -> None:
    x = RNG.standard_normal((2, 4, 6))
    agree(wf.linalg.diagonal(x, offset=offset), np.linalg.diagonal(x, offset=offset))
    agree(wf.linalg.trace(x, offset=offset), np.linalg.trace(x, offset=offset))


@pytest.mark.parametrize("power", [-3, -1, 0, 1, 2, 7])
def test_powers(power: int) -> None:
    x = RNG.standard_normal((2, 3, 3)) + 3 * np.eye(3)
    agree(wf.linalg.matrix_power(wf.asarray(x), power), np.linalg.matrix_power(x, power))


def test_cross_and_outer() -> None:
    x, y = RNG.standard_normal((4, 3)), RNG.standard_normal((3,))
    agree(wf.linalg.cross(wf.asarray(x), wf.asarray(y)), np.linalg.cross(x, y))
    agree(wf.linalg.cross(x.T, x.T, axis=0), np.zeros((3, 4)))
    agree(wf.linalg.outer(y, x[:, 0]), np.outer(y, x[:, 0]))


def test_numpys_functions_are_lazy_on_lazy_arrays() -> None:
    x = definite((4, 4))
    lazy = wf.asarray(x)
    for name in ("norm", "inv", "det", "pinv", "cholesky", "eigvalsh"):
        found = getattr(np.linalg, name)(lazy)
        assert isinstance(found, wf.Array), name
        agree(found, getattr(np.linalg, name)(x))
    agree(np.linalg.norm(lazy, axis=1, keepdims=True), np.linalg.norm(x, axis=1, keepdims=True))
    assert isinstance(np.linalg.eigh(lazy, UPLO="U")[0], np.ndarray)  # NumPy's, where Weft has not


def largest(a: Any, rounds: int) -> Any:
    v = np.ones(a.shape[0])
    for _ in range(rounds):
        w = a @ v
        v = w / np.linalg.norm(w)
    return v @ (a @ v), np.linalg.solve(a, v)


def test_kernels_take_norms_in_loops_and_solve_outside_of_them() -> None:
    a = definite((5, 5))
    agree(wf.kernel(largest)(a, 30), largest(a, 30))


def factored_in_a_loop(a: Any) -> Any:
    for _ in range(a.shape[0]):
        a = np.linalg.svd(a)[0]
    return a


def test_a_factorisation_in_a_loop_is_refused() -> None:
    with pytest.raises(wf.errors.UnsupportedError, match="svd inside a loop") as caught:
        wf.kernel(factored_in_a_loop)(definite((3, 3)))
    assert "a = np.linalg.svd(a)[0]" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: wf.linalg.inv(np.zeros((2, 3))), wf.errors.ShapeError, "inv of matrices"),
        (lambda: wf.linalg.det(np.zeros(3)), wf.errors.ShapeError, "two dimensions or more"),
        (lambda: wf.linalg.solve(np.eye(3), np.ones(2)), wf.errors.ShapeError, "solve of shapes"),
        (lambda: wf.linalg.cross(np.ones(2), np.ones(2)), wf.errors.ShapeError, "three elements"),
        (lambda: wf.linalg.outer(np.ones((2, 2)), np.ones(2)), wf.errors.ShapeError, "outer of"),
        (lambda: wf.linalg.diagonal(np.ones(2)), wf.errors.ShapeError, "diagonal of 1"),
        (lambda: wf.linalg.qr(np.eye(2), mode="r"), wf.errors.ArgumentError, "mode 'r'"),
        (lambda: wf.linalg.matrix_norm(np.eye(2), ord=3), wf.errors.ArgumentError, "order 3"),
        (lambda: wf.linalg.norm(np.ones((2, 2, 2)), 1), wf.errors.ShapeError, "norm of order 1"),
        (lambda: wf.linalg.norm(np.eye(2), axis=(0, 1, 1)), wf.errors.ArgumentError, "norm along"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_at_once(call: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("below", [0, 1 << 20])
@pytest.mark.parametrize(
    ("name", "matrix"),
    [("inv", np.zeros((3, 3))), ("solve", np.zeros((3, 3))), ("cholesky", -np.eye(3))],
)
def test_what_has_no_answer_is_named_when_it_is_computed(
    name: str, matrix: Any, below: int
) -> None:
    lazy = getattr(wf.linalg, name)(*[wf.asarray(matrix)] * (1 + (name == "solve")))
    with (
        wf.config(interpret_below=below),
        pytest.raises(wf.errors.LinearAlgebraError, match=f"{name}: ") as caught,
    ):
        lazy.compute()
    assert isinstance(caught.value, np.linalg.LinAlgError)
    assert "test_linalg.py" in str(caught.value)


def test_norms_stream(tmp_path: Path) -> None:
    x = RNG.standard_normal((3001, 101))
    np.save(tmp_path / "x.npy", x)
    source = wf.open(tmp_path / "x.npy")
    with wf.config(memory_limit=25 << 20, interpret_below=0):
        agree(wf.linalg.norm(source), np.linalg.norm(x))
        agree(wf.linalg.vector_norm(source, axis=1), np.linalg.norm(x, axis=1))
        agree(wf.linalg.matrix_norm(source, ord=np.inf), np.linalg.norm(x, np.inf))
        agree(wf.linalg.trace(source[:101]), np.trace(x[:101]))


def test_powers_of_integers_are_integers() -> None:
    x = np.array([[3, 7], [-2, 10**9]])
    for n in (0, 1, 2, 3):
        found = wf.linalg.matrix_power(wf.asarray(x), n).numpy()
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, np.linalg.matrix_power(x, n))
    assert wf.linalg.matrix_power(wf.asarray(x), -1).dtype == np.float64


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (2, 3, 0)])
def test_the_rank_of_nothing_is_0(shape: tuple[int, ...]) -> None:
    found = wf.linalg.matrix_rank(wf.zeros(shape)).numpy()
    np.testing.assert_array_equal(found, np.linalg.matrix_rank(np.zeros(shape)))
    assert found.shape == shape[:-2]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64"])
def test_determinants_of_many_small_matrices(dtype: str) -> None:
    """They are computed where they are, of singular matrices too; larger ones are LAPACK's."""
    jitted = wf.jit(wf.linalg.det)
    for shape in [(70, 1, 1), (70, 2, 2), (7, 10, 3, 3), (70, 4, 4), (9, 5, 5), (0, 3, 3)]:
        x = (4 * RNG.standard_normal(shape)).astype(dtype)
        if shape[0]:
            x[0], x[1, ..., 0, :], x[2, ..., :, 0] = 0, 0, 0
        x[3:4, ..., 0, 0] = 0  # rows are exchanged
        wanted = np.linalg.det(x)
        for found in (np.asarray(wf.linalg.det(wf.asarray(x))), jitted(x)):
            assert found.dtype == wanted.dtype
            close = 2e-4 if dtype == "float32" else 1e-9  # of integers, some are 0 but for rounding
            np.testing.assert_allclose(found, wanted, rtol=close, atol=close)


def test_determinants_of_small_matrices_are_one_kernel_with_what_uses_them() -> None:
    x = RNG.random((500, 3, 3))
    lowered = wf.jit(lambda x: np.abs(np.linalg.det(x)).max()).lower(x)
    assert "call" not in lowered.fun
