"""The in-core programs, one a file.

Each module has `TITLE`, `MEMORY_BOUND`, `inputs(scale)`, `traffic(*inputs)` (the bytes that
any implementation must move), `agrees(found, reference)`, and a builder for each contender:
`weft`, `numpy_`, `numba_`, `jax_`, `numexpr_`, `dask_`, `c` take the inputs and give a function
of no arguments. A missing builder, or one whose library is missing, is a missing contender.
Contenders that can write into an array that is already there do.
"""

from __future__ import annotations

import functools
import importlib
from types import ModuleType
from typing import Any

import native
import numpy as np

NAMES = (
    "triad", "distance", "softmax", "normalise", "black_scholes", "magnitude", "cumulative",
    "mandelbrot", "stencil", "layer", "histogram", "argmax",
)  # fmt: skip


def load(name: str) -> ModuleType:
    return importlib.import_module(f"programs.{name}")


def uniform(seed: int, *shape: int, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """Random float32 in [low, high)."""
    random = np.random.default_rng(seed).random(shape, np.float32)
    random *= np.float32(high - low)
    random += np.float32(low)
    return random


def close(found: Any, reference: Any, tolerance: float = 1e-4) -> bool:
    """Same shape, and close relative to the largest value."""
    found, reference = np.asarray(found), np.asarray(reference)
    size = max(float(np.abs(reference).max()), 1e-30)
    return found.shape == reference.shape and bool(
        np.abs(found.astype(np.float64) - reference).max() <= tolerance * size
    )


def jitted(function: Any, *inputs: np.ndarray) -> Any:
    """A JAX function, compiled, on arrays that JAX already has, run to its end."""
    import jax

    arrays = [jax.device_put(array) for array in inputs]
    compiled = jax.jit(function)
    return lambda: compiled(*arrays).block_until_ready()


def chunked(*inputs: np.ndarray) -> list[Any]:
    """Dask arrays over the inputs, in 16 chunks of whole rows."""
    import dask.array

    return [
        dask.array.from_array(a, chunks=(-(-a.shape[0] // 16), *a.shape[1:]), name=False)
        for a in inputs
    ]


def parallel() -> Any:
    """`numba.njit` as for such loops: threads, and sums that may be reordered."""
    import numba

    return functools.partial(numba.njit, parallel=True, fastmath=True, error_model="numpy")


def native_call(out: np.ndarray, function: str, *arguments: Any) -> Any:
    """A call of hand-written C that fills `out`."""

    def run() -> np.ndarray:
        native.call(function, *arguments)
        return out

    return run
