"""NumPy's linear algebra as library routines: rules for result types, and what to run.

Matrices are the last two dimensions, those before them are batches. Which of both is longer is
an option (`wide`: no more rows than columns), since a rule knows extents as polynomials only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.errors import InternalError, LinearAlgebraError
from weft.ops.dtypes import DType
from weft.ops.rules import ArrayType, Described, NDArray, Options, Rule, broadcast


def _same(arguments: tuple[ArrayType, ...], options: Options) -> tuple[ArrayType, ...]:
    return arguments[:1]


def _determinant(arguments: tuple[ArrayType, ...], options: Options) -> tuple[ArrayType, ...]:
    dtype, shape = arguments[0]
    return ((dtype, shape[:-2]),)


def _sign_and_logarithm(
    arguments: tuple[ArrayType, ...], options: Options
) -> tuple[ArrayType, ...]:
    dtype, shape = arguments[0]
    return (dtype, shape[:-2]), (dtype.real, shape[:-2])


def _hermitian(arguments: tuple[ArrayType, ...], options: Options) -> tuple[ArrayType, ...]:
    dtype, shape = arguments[0]
    return (dtype.real, shape[:-1]), (dtype, shape)


def _general(arguments: tuple[ArrayType, ...], options: Options) -> tuple[ArrayType, ...]:
    dtype, shape = arguments[0]
    dtype = dtype.complex
    return (dtype, shape[:-1]), (dtype, shape)


def _first(rule: Rule) -> Rule:
    """The rule of a routine that gives but the first result of another."""
    return lambda arguments, options: rule(arguments, options)[:1]


def _solved(arguments: tuple[ArrayType, ...], options: Options) -> tuple[ArrayType, ...]:
    (dtype, left), (_, right) = arguments
    return ((dtype, (*broadcast(left[:-2], right[:-2]), *right[-2:])),)


def _inverted(arguments: tuple[ArrayType, ...], options: Options) -> tuple[ArrayType, ...]:
    dtype, shape = arguments[0]
    return ((dtype, (*shape[:-2], shape[-1], shape[-2])),)


def _shorter(shape: tuple[Any, ...], options: Options) -> Any:
    return shape[-2] if options["wide"] else shape[-1]


def _orthogonal(arguments: tuple[ArrayType, ...], options: Options) -> tuple[ArrayType, ...]:
    dtype, shape = arguments[0]
    inner = shape[-2] if options["mode"] == "complete" else _shorter(shape, options)
    return (dtype, (*shape[:-1], inner)), (dtype, (*shape[:-2], inner, shape[-1]))


def _singular(arguments: tuple[ArrayType, ...], options: Options) -> tuple[ArrayType, ...]:
    dtype, shape = arguments[0]
    inner, full = _shorter(shape, options), options["full_matrices"]
    return (
        (dtype, (*shape[:-1], shape[-2] if full else inner)),
        (dtype.real, (*shape[:-2], inner)),
        (dtype, (*shape[:-2], shape[-1] if full else inner, shape[-1])),
    )


def _singular_values(
    arguments: tuple[ArrayType, ...], options: Options
) -> tuple[ArrayType, ...]:
    return _singular(arguments, {**options, "full_matrices": False})[1:2]


def _least_squares(
    arguments: tuple[ArrayType, ...], options: Options
) -> tuple[ArrayType, ...]:
    """Solutions, the rank, and singular values; arguments: matrix, right sides, tolerance."""
    (dtype, shape), (_, right), _ = arguments
    values = (dtype.real, (_shorter(shape, options),))
    return (dtype, (shape[-1], *right[1:])), (DType.I32, ()), values


def _solve_least_squares(matrix: NDArray, right: NDArray, tolerance: NDArray) -> Any:
    found, _, rank, values = np.linalg.lstsq(matrix, right, tolerance.item())
    return found, np.asarray(rank), values


def _run(name: str, compute: Callable[..., Any]) -> Callable[..., None]:
    """What computes into the arrays of `out`, and names what has no answer."""

    def run(*arrays: NDArray, out: tuple[NDArray, ...], **options: Any) -> None:
        options.pop("wide", None)
        try:
            found = compute(*arrays, **options)
        except np.linalg.LinAlgError as error:
            raise LinearAlgebraError(f"{name}: {str(error)[:1].lower()}{str(error)[1:]}") from None
        results = found if isinstance(found, tuple) else (found,)
        if len(results) != len(out):
            raise InternalError(f"{name} gives {len(results)} results, not {len(out)}")
        for target, result in zip(out, results, strict=True):
            target[...] = result

    return run


_linalg = np.linalg
_WIDE = {"wide": False}

FACTORISATIONS: dict[str, Described] = {
    name: (rule, _run(name, compute), defaults)
    for name, rule, compute, defaults in (
        ("cholesky", _same, _linalg.cholesky, {"upper": False}),
        ("det", _determinant, _linalg.det, {}),
        ("eig", _general, lambda array: tuple(_linalg.eig(array)), {}),
        ("eigh", _hermitian, lambda array: tuple(_linalg.eigh(array)), {}),
        ("eigvals", _first(_general), _linalg.eigvals, {}),
        ("eigvalsh", _first(_hermitian), _linalg.eigvalsh, {}),
        ("inv", _same, _linalg.inv, {}),
        ("lstsq", _least_squares, _solve_least_squares, _WIDE),
        ("pinv", _inverted, _linalg.pinv, {}),
        ("qr", _orthogonal, lambda a, mode: tuple(_linalg.qr(a, mode)),
         {"mode": "reduced", **_WIDE}),
        ("slogdet", _sign_and_logarithm, lambda array: tuple(_linalg.slogdet(array)), {}),
        ("solve", _solved, _linalg.solve, {}),
        ("svd", _singular, lambda a, full_matrices: tuple(_linalg.svd(a, full_matrices)),
         {"full_matrices": True, **_WIDE}),
        ("svdvals", _singular_values, lambda a: _linalg.svd(a, compute_uv=False), _WIDE),
    )
}  # fmt: skip
