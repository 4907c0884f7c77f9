"""Terrain of any size: matplotlib's sample elevation model, mosaicked and refined.

A *base* map at the model's own resolution is made of two mirrored, gently warped mosaics
that a smooth mask blends, so that no seam and no repetition shows. The terrain is the base
map refined `REFINEMENT` times by cubic interpolation, with fractal detail for the wavelengths
that the model does not have. It is made and written in bands, and is a function of its shape
alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import SourceError, UnsupportedError
from weft.io.open import open_source
from weft.io.sinks import open_sink

Array = npt.NDArray[Any]

REFINEMENT = 16
CELL = 90.0 / REFINEMENT
"""The distance between neighbouring cells of the terrain, in metres."""

_TILE = 2048  # cells along a side of the periodic detail
_MARGIN = 2  # base cells beyond each border, for interpolation
_BAND = 128  # rows that are made at once


def terrain_shape(nbytes: int) -> tuple[int, int]:
    """Rows and columns, about 3 by 4, of a float32 terrain of about `nbytes` bytes."""
    cells = max(nbytes // 4, 64 * 64)
    columns = round(math.sqrt(cells * 4 / 3) / 64) * 64
    return max(1, cells // columns), columns


class Terrain:
    """A terrain that gives its rows, band by band."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self._base = _base_map(*(-(-n // REFINEMENT) + 2 * _MARGIN + 1 for n in shape))
        self._detail = _fractal_detail()
        self._columns = self._refined_columns()
        self._weights = _cubic_weights(np.arange(REFINEMENT) / REFINEMENT)

    def _refined_columns(self) -> Callable[[int], Array]:
        """A row of the base map, refined along its columns; the last few are kept."""
        weights = _cubic_weights(np.arange(REFINEMENT) / REFINEMENT)
        kept: dict[int, Array] = {}

        def refined(row: int) -> Array:
            if row not in kept:
                windows = np.lib.stride_tricks.sliding_window_view(self._base[row], 4)
                values = (windows[1:] @ weights.T).reshape(-1)[: self.shape[1]]
                kept[row] = np.ascontiguousarray(values, np.float32)
                for old in [key for key in kept if abs(key - row) > _BAND // REFINEMENT + 8]:
                    del kept[old]
            return kept[row]

        return refined

    def rows(self, start: int, stop: int) -> Array:
        """Rows `start` to `stop`: float32 metres above the sea."""
        first = start // REFINEMENT
        last = (stop - 1) // REFINEMENT
        base = np.stack([self._columns(row + 1) for row in range(first, last + 4)])
        mixing = np.zeros((stop - start, len(base)), np.float32)
        for position, row in enumerate(range(start, stop)):
            at = row // REFINEMENT - first
            mixing[position, at : at + 4] = self._weights[row % REFINEMENT]
        band: Array = mixing @ base
        numbers = np.arange(start, stop) % _TILE
        for column in range(0, self.shape[1], _TILE):
            side = slice(column, min(column + _TILE, self.shape[1]))
            band[:, side] += self._detail[numbers, : side.stop - side.start]
        return band


def write_terrain(path: str, shape: tuple[int, int]) -> bool:
    """Write a terrain as a `.npy` file; False where the very file is there already."""
    terrain = Terrain(shape)
    if _is_written(path, terrain):
        return False
    sink = open_sink(path, shape, np.float32, mode="w")
    try:
        for start in range(0, shape[0], _BAND):
            stop = min(start + _BAND, shape[0])
            sink.write((slice(start, stop), slice(0, shape[1])), terrain.rows(start, stop))
    except BaseException:
        sink.abort()
        raise
    sink.finish()
    return True


def _is_written(path: str, terrain: Terrain) -> bool:
    """Whether a file holds the terrain, judged by its shape and by three of its bands."""
    try:
        source = open_source(path)
    except SourceError:
        return False
    rows, columns = terrain.shape
    if source.shape != (rows, columns) or source.dtype != np.float32:
        return False
    for start in (0, rows // 2, max(0, rows - 8)):
        stop = min(start + 8, rows)
        found = np.empty((stop - start, columns), np.float32)
        source.read((slice(start, stop), slice(0, columns)), found)
        if not np.allclose(found, terrain.rows(start, stop), atol=1e-2):
            return False
    return True


def _elevation_model() -> Array:
    """The Jacksboro fault (Tennessee), 344 x 403 cells of 90 m, float32 metres."""
    try:
        from matplotlib.cbook import get_sample_data
    except ImportError:
        raise UnsupportedError(
            "the demonstration needs matplotlib", "matplotlib", "pip install 'weft[demo]'"
        ) from None
    file: Any = get_sample_data("jacksboro_fault_dem.npz")
    with file as data:
        return np.asarray(data["elevation"], np.float32)


def _base_map(rows: int, columns: int) -> Array:
    """A map of any size at the model's resolution, without seams or visible repetition."""
    model = _elevation_model()
    y, x = np.arange(rows, dtype=np.float32)[:, None], np.arange(columns, dtype=np.float32)
    first = _mirrored(model, y + _waves(y, x, 3) * 14, x + _waves(y, x, 5) * 14)
    # The second mosaic is turned by a quarter and shifted, so that its mirrors lie elsewhere.
    second = _mirrored(model.T, 97 + y + _waves(y, x, 7) * 14, 211 + x + _waves(y, x, 11) * 14)
    mask = 1 / (1 + np.exp(-7 * (_waves(y, x, 13) + 0.35)))
    return np.asarray(second + (first - second) * mask, np.float32)


def _mirrored(model: Array, y: Array, x: Array) -> Array:
    """The endless mirrored mosaic of a model at fractional positions, bilinearly."""
    for axis, position in ((0, y), (1, x)):
        period = 2 * (model.shape[axis] - 1)
        position = np.mod(position, period)
        folded = np.minimum(position, period - position)
        low = np.minimum(folded.astype(np.int32), model.shape[axis] - 2)
        if axis == 0:
            row, row_part = low, folded - low
        else:
            column, column_part = low, folded - low
    upper = model[row, column] * (1 - column_part) + model[row, column + 1] * column_part
    lower = model[row + 1, column] * (1 - column_part) + model[row + 1, column + 1] * column_part
    mixed: Array = upper * (1 - row_part) + lower * row_part
    return mixed


def _waves(y: Array, x: Array, seed: int) -> Array:
    """A smooth field of long waves, about -1 to 1."""
    rng = np.random.default_rng(seed)
    field = np.zeros((y.shape[0], x.shape[0]), np.float32)
    for wavelength in (310.0, 190.0, 120.0):
        angle, phase, other = rng.uniform(0, 2 * np.pi, 3)
        along = (np.cos(angle) * y + np.sin(angle) * x) / wavelength
        across = (np.cos(angle) * x - np.sin(angle) * y) / (wavelength * 1.3)
        field += np.sin(along * 2 * np.pi + phase) * np.sin(across * 2 * np.pi + other)
    return field / 2


def _fractal_detail() -> Array:
    """Periodic relief of wavelengths below twice the model's cell, float32 metres."""
    rng = np.random.default_rng(1)
    frequency = np.hypot(np.fft.fftfreq(_TILE)[:, None], np.fft.rfftfreq(_TILE)[None, :])
    lowest = 1 / (2.5 * REFINEMENT)
    amplitude = np.where(frequency > 0, np.maximum(frequency, lowest) ** -2.1, 0)
    amplitude *= 1 - np.exp(-((frequency / lowest) ** 4))
    phase = rng.uniform(0, 2 * np.pi, frequency.shape)
    detail = np.fft.irfft2(amplitude * np.exp(1j * phase), s=(_TILE, _TILE))
    return np.asarray(detail * (2.2 / detail.std()), np.float32)


def _cubic_weights(parts: Array) -> Array:
    """Weights of the four neighbours at fractional positions (cubic B-spline: no ringing)."""
    t = parts[:, None]
    weights = np.concatenate(
        [(1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3], axis=1
    )
    return np.asarray(weights / 6, np.float32)
