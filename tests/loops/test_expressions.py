"""Expressions and calls in kernels mean what they mean in Python and NumPy, or are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft.errors import UnsupportedError

Function = Callable[..., Any]
MATRIX = np.arange(6.0).reshape(2, 3)


# ---------------------------------------------------------------- views

VIEWS = [
    "np.asarray(a)", "np.asanyarray(a)", "np.ascontiguousarray(a)", "np.array(a, copy=None)",
    "a.astype(a.dtype, copy=False)", "np.asarray(a, dtype=np.float64)", "np.ravel(a)",
    "np.reshape(a, (3, 2))", "np.reshape(a, -1, 'F')", "a.reshape((3, 2), order='F')",
    "np.reshape(a, shape=(3, 2))", "np.transpose(a)", "np.transpose(a, (1, 0))",
    "a.transpose(-1, 0)", "np.swapaxes(a, 0, 1)", "a.swapaxes(0, -1)", "np.moveaxis(a, 0, 1)",
    "a.reshape(1, 2, 1, 3).squeeze()", "np.squeeze(a[:1])", "np.flip(a)", "np.fliplr(a)",
    "np.flip(a, 1)", "np.rot90(a)", "np.expand_dims(a, 1)", "np.atleast_3d(a)", "a.real",
    "np.real(a)",
]  # fmt: skip
COPIES = [
    "np.array(a)", "np.copy(a, 'C')", "np.ascontiguousarray(a.T)", "a.T.ravel()",
    "a.T.reshape(-1)", "a.ravel('F')", "a.flatten('F')", "a[:, :2].reshape(-1)",
    "a[:, ::2].ravel()", "np.asarray(a, np.float32)",
]  # fmt: skip
BY_STRIDES = [
    "a[::-1, ::-1].reshape(-1)", "a.T.reshape(3, 1, 2)", "a[1].ravel()", "a[:, :3].reshape(-1)",
    "a[:, :2].reshape(2, 1, 2)", "a[1:].ravel()",
]  # fmt: skip


def written_in(folder: Path, parameters: str, *lines: str) -> Function:
    """A function of a module of its own."""
    path = folder / "written.py"
    body = "\n    ".join(lines)
    path.write_text(f"import math\nimport numpy as np\ndef function({parameters}):\n    {body}\n")
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    found: Function = names["function"]
    return found


@pytest.mark.parametrize("made", VIEWS + COPIES + BY_STRIDES)
def test_what_is_written_to_a_view_is_written_to_the_array(made: str, tmp_path: Path) -> None:
    agrees(written_in(tmp_path, "a", f"b = {made}", "b[0] = 7", "return b * 2"), MATRIX)


def test_views_are_seen_to_change() -> None:
    def parts(a: Any) -> Any:
        real, imaginary, spread = a.real, np.imag(a), np.broadcast_to(a, (2, 2, 3))
        a[0] = 7 + 3j
        return real * 1, imaginary * 1, spread * 1

    agrees(parts, MATRIX + 1j)


def test_views_in_loops() -> None:
    def rows(a: Any) -> None:
        for i in range(a.shape[0]):
            row = np.flip(a[i])
            row[0] = i + 1
            column = np.reshape(a[i], (3, 1))
            column[1] = i * i

    agrees(rows, MATRIX)


def test_whether_a_shape_is_a_view_depends_on_lengths() -> None:
    def first_columns(a: Any, n: int) -> None:
        b = a[:, :n].reshape(-1)
        b[0] = 7

    for n in (2, 3):
        agrees(first_columns, MATRIX, n)


@pytest.mark.parametrize("made", ["a.real", "np.imag(a)"])
def test_parts_of_complex_numbers_are_read_alone(made: str, tmp_path: Path) -> None:
    kernel = wf.kernel(written_in(tmp_path, "a", f"b = {made}", "b[0] = 7"))
    with pytest.raises(UnsupportedError, match=r"writing through it(.|\n)*written.py:5"):
        kernel(MATRIX + 1j)
