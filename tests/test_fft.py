"""Fourier transforms beside NumPy's: in core, traced, in kernels, and in boxes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import ArgumentError, DTypeError, OutOfBoundsError, ShapeError, UnsupportedError

RNG = np.random.default_rng(7)
ALONG_ONE = ["fft", "ifft", "rfft", "ihfft", "irfft", "hfft"]
ALONG_SEVERAL = ["fftn", "ifftn", "rfftn", "irfftn"]
SHAPES = [(1,), (2,), (7,), (12,), (3, 5), (13, 1), (2, 3, 11), (0, 4)]
DTYPES = ["float32", "float64", "complex64", "complex128", "int32", "uint8", "bool"]


def numbers(shape: tuple[int, ...], dtype: Any = "float64") -> Any:
    x = 3 * RNG.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.standard_normal(shape)
    return (np.abs(x) if np.dtype(dtype).kind == "u" else x).astype(dtype)


def agree(found: Any, wanted: Any) -> None:
    assert isinstance(found, wf.Array | np.ndarray)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    single = wanted.dtype in (np.float32, np.complex64)
    scale = max(1.0, float(np.abs(wanted).max(initial=0.0)))
    tolerance = scale * (1e-5 if single else 1e-12)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=0, atol=tolerance)


def takes(name: str, dtype: str) -> bool:
    return name not in ("rfft", "ihfft", "rfftn") or np.dtype(dtype).kind != "c"


@pytest.mark.parametrize("name", ALONG_ONE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_along_one_axis(name: str, dtype: str) -> None:
    if not takes(name, dtype):
        with pytest.raises(DTypeError, match=f"{name} of complex"):
            getattr(wf.fft, name)(wf.asarray(numbers((3,), dtype)))
        return
    for shape in SHAPES:
        x = numbers(shape, dtype)
        least = 2 if name in ("irfft", "hfft") else 1
        for n in (None, 1, 5, 8) if shape[-1] >= least else (1, 5, 8):
            wanted = getattr(np.fft, name)(x, n)
            agree(getattr(wf.fft, name)(wf.asarray(x), n=n), wanted)
            agree(getattr(np.fft, name)(wf.asarray(x), n), wanted)


@pytest.mark.parametrize("name", ALONG_ONE)
@pytest.mark.parametrize("dtype", ["float32", "complex128", "uint8"])
def test_compiled_code_around_transforms(name: str, dtype: str) -> None:
    if not takes(name, dtype):
        return
    with wf.config(interpret_below=0):
        for shape, n in [((7,), None), ((3, 5), 4), ((2, 3, 11), 12), ((0, 4), 3)]:
            x = numbers(shape, dtype)
            found = getattr(np.fft, name)(wf.asarray(x), n)
            agree(found, getattr(np.fft, name)(x, n))


@pytest.mark.parametrize("name", ALONG_ONE)
@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
def test_other_axes_and_norms(name: str, norm: Any) -> None:
    x = numbers((4, 5, 3))
    for axis in (0, 1, -1):
        wanted = getattr(np.fft, name)(x, 6, axis, norm)
        agree(getattr(wf.fft, name)(wf.asarray(x), n=6, axis=axis, norm=norm), wanted)


@pytest.mark.parametrize("name", ALONG_SEVERAL)
@pytest.mark.parametrize("dtype", ["float32", "complex128", "int64"])
def test_along_several_axes(name: str, dtype: str) -> None:
    if not takes(name, dtype):
        return
    for shape in [(5, 4), (2, 3, 7)]:
        x = numbers(shape, dtype)
        for s, axes in [
            (None, None), (None, (0,)), (None, (-1, 0)), ((3,), (0,)), ((4, 6), (0, 1)),
            ((2, -1), (0, -1)), (None, (1, 1)),
        ]:  # fmt: skip
            wanted = getattr(np.fft, name)(x, s, axes, "ortho")
            agree(getattr(wf.fft, name)(wf.asarray(x), s=s, axes=axes, norm="ortho"), wanted)
        wanted = getattr(np.fft, name)(x, (4, 6), (-2, -1))
        agree(getattr(wf.fft, name)(wf.asarray(x), s=(4, 6)), wanted)
        two = name[:-1] + "2"
        agree(getattr(np.fft, two)(wf.asarray(x)), getattr(np.fft, two)(x))


def test_no_axes() -> None:
    agree(wf.fft.fftn(wf.asarray(2.0)), np.fft.fftn(np.asarray(2.0)))
    with pytest.raises(ShapeError, match="rfftn along no axis"):
        wf.fft.rfftn(wf.asarray(2.0))


@pytest.mark.parametrize("n", [1, 2, 3, 8, 101])
@pytest.mark.parametrize("d", [1.0, 0.3, 2])
def test_frequencies(n: int, d: float) -> None:
    for name in ("fftfreq", "rfftfreq"):
        wanted = getattr(np.fft, name)(n, d)
        agree(getattr(wf.fft, name)(n, d=d), wanted)
        assert getattr(wf.fft, name)(n, d=d, dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize("shape", [(1,), (4,), (5,), (2, 3), (5, 4, 1), (0, 3)])
def test_shifts(shape: tuple[int, ...]) -> None:
    x = numbers(shape)
    for name in ("fftshift", "ifftshift"):
        for axes in (None, 0, (0,), -1):
            agree(getattr(np.fft, name)(wf.asarray(x), axes), getattr(np.fft, name)(x, axes))


def test_errors() -> None:
    x = wf.asarray(np.zeros((3, 4)))
    for n in (0, -2):
        with pytest.raises(ArgumentError, match=f"fft of {n} elements"):
            wf.fft.fft(x, n=n)
    with pytest.raises(ArgumentError, match="fft of 0 elements"):
        wf.fft.fft(wf.asarray(np.zeros(0)))
    with pytest.raises(ArgumentError, match="norm 'both'"):
        wf.fft.rfft(x, norm="both")
    with pytest.raises(ArgumentError, match="1 lengths of 2 axes"):
        wf.fft.fftn(x, s=(3,), axes=(0, 1))
    with pytest.raises(ShapeError, match="fft of a scalar"):
        wf.fft.fft(wf.asarray(1.0))
    with pytest.raises(OutOfBoundsError):
        wf.fft.fft(x, axis=2)
    with pytest.raises(DTypeError, match="frequencies of int64"):
        wf.fft.fftfreq(3, dtype=np.int64)
    with pytest.raises(UnsupportedError, match="fft inside a loop"):
        wf.fori_loop(0, 3, lambda i, row: wf.real(wf.fft.fft(row)), x[0])


@wf.jit
def filtered(x: Any) -> Any:
    spectrum = np.fft.rfft(2 * x, axis=0)
    weights = 1 / (1 + wf.fft.rfftfreq(x.shape[0], d=0.1) ** 2)
    return np.fft.irfft(spectrum * weights[:, None], n=x.shape[0], axis=0) + 1


def test_one_program_serves_all_lengths() -> None:
    with wf.config(interpret_below=0):
        for n in (7, 8, 9, 16):
            x = numbers((n, 3))
            weights = 1 / (1 + np.fft.rfftfreq(n, 0.1) ** 2)
            spectrum = np.fft.rfft(2 * x, axis=0) * weights[:, None]
            agree(filtered(x), np.fft.irfft(spectrum, n=n, axis=0) + 1)


def test_in_kernels() -> None:
    def centroid(x: Any) -> Any:
        spectrum = np.fft.fft(x, axis=0)
        frequencies = np.fft.fftfreq(x.shape[0])
        total = 0.0
        for i in range(x.shape[0]):
            total += abs(spectrum[i, 0]) * frequencies[i]
        return total, np.fft.fftshift(spectrum), np.fft.ifft2(spectrum)

    kernel = wf.kernel(centroid)
    for n in (5, 8):
        x = numbers((n, 3))
        for found, wanted in zip(kernel(x), centroid(x), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


PROGRAMS = {
    "columns": lambda x: np.fft.fft(2 * x, axis=0),
    "rows of reals": lambda x: np.fft.rfft(x, norm="ortho"),
    "padded": lambda x: np.fft.rfft(x, n=x.shape[1] + 3),
    "both axes": lambda x: np.fft.fftshift(np.fft.fft2(x)),
    "and back": lambda x: np.fft.irfft2(np.fft.rfft2(x) * 2),
    "to reals": lambda x: np.fft.hfft(x, axis=0, n=67),
    "powers": lambda x: (np.abs(np.fft.ihfft(x, axis=0)) ** 2).sum(axis=0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_boxes_under_a_limit(name: str, tmp_path: Path) -> None:
    x = numbers((300, 4500))
    np.save(tmp_path / "x.npy", x)
    wanted = PROGRAMS[name](x)
    with wf.config(memory_limit="30 MiB"):  # 24 of them the program's own
        wf.store(PROGRAMS[name](wf.open(tmp_path / "x.npy")), tmp_path / "y.npy")
    agree(np.load(tmp_path / "y.npy"), wanted)


def test_from_and_to_zarr(tmp_path: Path) -> None:
    x = numbers((64, 81), "float32")
    wf.store(wf.asarray(x), tmp_path / "x.zarr", chunks=(16, 27))
    wf.store(np.fft.fft2(wf.open(tmp_path / "x.zarr")), tmp_path / "y.zarr", chunks=(8, 81))
    agree(wf.open(tmp_path / "y.zarr"), np.fft.fft2(x))


def test_the_namespace_has_it() -> None:
    assert wf.asarray(1.0).__array_namespace__().fft is wf.fft
