"""Small FUN programs, one behaviour each: `EXAMPLES["name"]`.

Each has its text, arguments for given sizes, and what NumPy says the results are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weft.fun import nodes as fun
from weft.fun.parse import parse
from weft.sizes import as_poly

FOLDER = Path(__file__).parent / "library"
SIZES: dict[str, int] = {"n": 7, "m": 5, "k": 3}


@dataclass(frozen=True)
class Example:
    """A program and its meaning.

    Attributes
    ----------
    expected : callable
        From the arguments to the results, in NumPy.
    """

    name: str
    expected: Callable[..., Any]

    @property
    def text(self) -> str:
        return (FOLDER / f"{self.name}.fun").read_text()

    @property
    def program(self) -> fun.Program:
        return parse(self.text)

    def arguments(self, sizes: Mapping[str, int] = SIZES, seed: int = 0) -> tuple[Any, ...]:
        """Random arguments; parameters that begin with "at" hold indices below n."""
        rng = np.random.default_rng(seed)
        return tuple(_argument(param, sizes, rng) for param in self.program.params)

    def results(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """What the results are for these arguments, as a tuple."""
        with np.errstate(all="ignore"):
            expected = self.expected(*arguments)
        return expected if isinstance(expected, tuple) else (expected,)


def _argument(param: fun.Var, sizes: Mapping[str, int], rng: np.random.Generator) -> Any:
    dtype = param.type.dtype
    shape = param.type.shape if isinstance(param.type, fun.Array) else ()
    concrete = tuple(as_poly(size).evaluate(sizes) for size in shape)
    if param.name.startswith("at"):
        values = rng.integers(0, sizes["n"], concrete)
    elif dtype.kind == "c":
        values = rng.normal(size=concrete) + 1j * rng.normal(size=concrete)
    elif dtype.kind == "f":
        values = rng.normal(size=concrete)
    elif dtype.kind == "b":
        values = rng.random(concrete) < 0.5
    else:
        values = rng.integers(0, 10, concrete)
    return np.asarray(values).astype(dtype.numpy)[()]


def _gaussian_welford(a: Any) -> tuple[Any, ...]:
    return np.int64(a.size), a.mean(), ((a - a.mean()) ** 2).sum()


def _histogram(at: Any, counts: Any) -> Any:
    result = counts.copy()
    np.add.at(result, at, 1)
    return result


def _last_wins(destination: Any, at: Any, values: Any) -> Any:
    result = destination.copy()
    for index, value in zip(at, values, strict=True):
        result[index] = value
    return result


def _in_order(destination: Any, at: Any, values: Any) -> Any:
    """new = 2 * old + value, in order: neither commutative nor a ufunc."""
    result = destination.copy()
    for index, value in zip(at, values, strict=True):
        result[index] = 2 * result[index] + value
    return result


def _collatz(n: int) -> Any:
    def steps(value: int) -> int:
        count = 0
        while value > 1:
            value = value // 2 if value % 2 == 0 else 3 * value + 1
            count += 1
        return count

    return np.array([steps(value) for value in range(n)])


def _triangle(a: Any) -> Any:
    return np.array([a[i, : i + 1].sum() for i in range(len(a))])


def _triangle_rows(a: Any) -> Any:
    """Running sums of growing prefixes, and the greatest of each."""
    return np.array([np.cumsum(a[: i + 1]).max() for i in range(len(a))])


def _pad(mode: str) -> Callable[..., Any]:
    def padded(a: Any) -> Any:
        n = len(a)
        wide = np.pad(a, 3 * n, mode=mode)
        return wide[3 * n - 2 : 4 * n - 2] + wide[3 * n + 9 : 4 * n + 9]

    return padded


def _pad_constant(a: Any) -> Any:
    wide = np.pad(a, 20, constant_values=-1.5)
    n = len(a)
    return wide[18 : 18 + n] + wide[29 : 29 + n]


def _blur(a: Any) -> Any:
    wide = np.pad(np.pad(a, ((1, 1), (0, 0)), "edge"), ((0, 0), (1, 1)), "wrap")
    n, m = a.shape
    return sum(wide[i : i + n, j : j + m] for i in range(3) for j in range(3))


def _corner(a: Any) -> Any:
    """In a corner the last dimension's value."""
    wide = np.pad(a, ((1, 0), (0, 0)), constant_values=1.0)
    return np.pad(wide, ((0, 0), (1, 0)), constant_values=2.0)[: len(a), : a.shape[1]]


def _newton(a: Any) -> Any:
    x = np.ones_like(a)
    for _ in range(40):
        x = 0.5 * (x + (np.abs(a) + 1) / x)
    return x


def _updated(a: Any, b: Any) -> Any:
    result = a.copy()
    result[::-1, 0] = b
    return result


def _block_update(a: Any) -> Any:
    result = a.copy()
    result[1:, 1] = 9.0
    return result


def _shifted(a: Any) -> Any:
    n = len(a)
    return np.where(np.arange(n) > 0, np.concatenate(([0.0], a[:-1])), 0.0)


def _columns(a: Any) -> Any:
    return (a - a.mean(axis=0)) / a.std(axis=0)


def _argmax(a: Any) -> tuple[Any, ...]:
    return a.max(axis=1), a.argmax(axis=1)


def _scan_max(a: Any) -> Any:
    return np.maximum.accumulate(np.concatenate(([0.5], a)))[1:]


def _linear_recurrence(a: Any, b: Any) -> Any:
    result, x = [], 0.0
    for slope, offset in zip(a, b, strict=True):
        x = slope * x + offset
        result.append(x)
    return np.array(result)


def _powers(n: int) -> Any:
    return np.array([3**i for i in range(n)])


def _lmad(a: Any) -> Any:
    """Three rows of two elements, which begin at 1 and are two apart."""
    return a[1 + 2 * np.arange(3)[:, None] + np.arange(2)[None, :]]


def _lmad_update(a: Any, b: Any) -> Any:
    result = a.copy()
    result[1:7:2] = b
    return result


def _growing_slices(a: Any) -> Any:
    result = np.zeros_like(a)
    for k in range(len(a)):
        result[: k + 1] += 2 * a[k::-1]
    return result


def _shrinking_slices(a: Any) -> Any:
    result = a.copy()
    for k in range(len(a)):
        around = result[k + 1 :, k, None] + result[k, k + 1 :]
        result[k + 1 :, k + 1 :] = around * 0.25 + result[k + 1 :, k + 1 :] * 0.5
    return result


def _eliminated(a: Any) -> Any:
    result = a.copy()
    for k in range(4):
        result[k] /= result[k, k]
        factors = result[:, k].copy()
        factors[k] = 0.0
        result -= np.outer(factors, result[k])
    return result


def _growing_blocks(a: Any, b: Any) -> Any:
    result = a.copy()
    for k in range(len(result)):
        result[: k + 1, -1] = result[: k + 1] @ b
    return result.ravel()


def _divided(a: Any, b: Any) -> tuple[Any, ...]:
    return np.floor_divide(a, b), np.remainder(a, b)


def _searched(a: Any, b: Any) -> Any:
    """By powers of two, from the largest, whether or not there is an order."""
    found = np.zeros(len(b), np.int64)
    for i, value in enumerate(b):
        for k in reversed(range(len(a).bit_length())):
            wished = found[i] + (1 << k)
            if wished <= len(a) and a[wished - 1] < value:
                found[i] = wished
    return found


def _medians_of_windows(a: Any) -> Any:
    return np.median(np.lib.stride_tricks.sliding_window_view(a, 3), axis=1)


def _rows_sorted(a: Any) -> Any:
    return np.sort(a, axis=-1)


def _sizes(a: Any) -> tuple[Any, ...]:
    n, m = a.shape
    return np.int64(n * m - 1), np.int64((n + 1) // 2), np.int64(min(n, m))


def _mandelbrot(n: int) -> Any:
    result = np.zeros(n, np.int64)
    for i in range(n):
        z, c = 0j, complex(-2 + 0.5 * i, 0.25)
        while result[i] < 30 and abs(z) <= 2:
            z, result[i] = z * z + c, result[i] + 1
    return result


EXAMPLES: dict[str, Example] = {
    name: Example(name, expected)
    for name, expected in {
        "map": lambda a: np.exp(a) * 2.0,
        "zip_with_broadcast": lambda a, b: a + b,
        "two_results": lambda a: (-a, a.astype(np.float32)),
        "constants": lambda a: (
            a,
            True,
            np.uint8(3),
            np.float32("nan"),
            -0.0,
            np.complex64(1 - 2j),
        ),
        "outer_product": np.outer,
        "generate": lambda a: np.arange(a.shape[0])[:, None] * a.shape[1] + np.arange(a.shape[1]),
        "complex_multiply": lambda a, b: a * b,
        "integer_division": _divided,
        "sizes": _sizes,
        "transpose": lambda a: a.T,
        "flatten": np.ravel,
        "reverse": lambda a: a[::-1],
        "every_second": lambda a: a[1::2],
        "row_and_column": lambda a: (a[2], a[:, 1]),
        "broadcast": lambda a, s: (np.broadcast_to(a, (3, *a.shape)), np.full(a.shape, s)),
        "concat": lambda a, b: np.concatenate([a, b, a]),
        "copy": lambda a: a,
        "update_column": _updated,
        "update_scalar": _block_update,
        "lmad_slice": _lmad,
        "lmad_update": _lmad_update,
        "sum": np.sum,
        "sum_of_rows": lambda a: a.sum(axis=1),
        "sum_of_columns": lambda a: a.sum(axis=0),
        "sum_of_windows": lambda a, b: np.correlate(a, b, "valid"),
        "sum_of_squared_differences": lambda a, b: ((a - b) ** 2).sum(),
        "sum_max_of_one_pass": lambda a: (a.sum(), a.max()),
        "any_all": lambda a: (a.any(), a.all()),
        "arg_max_of_rows": _argmax,
        "welford": _gaussian_welford,
        "normalise_columns": _columns,
        "matrix_product": np.matmul,
        "cumulative_sum": lambda a: np.cumsum(a, axis=1),
        "exclusive_sum": lambda a: 10.0 + np.concatenate(([0.0], np.cumsum(a)[:-1])),
        "scan_max_with_initial": _scan_max,
        "linear_recurrence": _linear_recurrence,
        "histogram": _histogram,
        "scatter_last_wins": _last_wins,
        "scatter_in_order": _in_order,
        "scatter_in_rows": lambda at: np.apply_along_axis(np.bincount, 1, at, None, 13),
        "gather": lambda a, at: a[at],
        "stencil_edge": _pad("edge"),
        "stencil_reflect": _pad("reflect"),
        "stencil_symmetric": _pad("symmetric"),
        "stencil_wrap": _pad("wrap"),
        "stencil_constant": _pad_constant,
        "stencil_mixed": _blur,
        "stencil_corner": _corner,
        "guarded_read": _shifted,
        "branch_on_scalar": lambda a, s: a if s > 0 else -a,
        "loop_newton": _newton,
        "loop_with_inner_bound": lambda a: _powers(len(a)),
        "while_collatz": lambda a: _collatz(len(a)),
        "while_mandelbrot": lambda a: _mandelbrot(len(a)),
        "nested_softmax": lambda a: np.exp(a) / np.exp(a).sum(axis=1, keepdims=True),
        "medians_of_windows": _medians_of_windows,
        "search_ordered": _searched,
        "merge_sort_rows": _rows_sorted,
        "growing_slices": _growing_slices,
        "shrinking_slices": _shrinking_slices,
        "growing_blocks": _growing_blocks,
        "eliminate": _eliminated,
        "triangle": _triangle,
        "ragged_scan": _triangle_rows,
        "ragged_reshape": lambda a: np.array([(i + 1) * i * 2.0 for i in range(len(a))]),
        "call_matmul": np.matmul,
        "call_sort_rows": _rows_sorted,
    }.items()
}
