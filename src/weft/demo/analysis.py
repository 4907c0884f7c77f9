"""Slope, hillshade, local relief and statistics of an elevation model, as one Weft program.

Beside it, the same in NumPy for small windows: what the results are checked against.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

import weft as wf
from weft.demo.terrain import CELL

Array = npt.NDArray[Any]

RADIUS = 4  # of the window of local relief: 9 x 9 cells
AZIMUTH, ALTITUDE = math.radians(315), math.radians(45)  # of the sun
LIGHT = (
    math.sin(AZIMUTH) * math.cos(ALTITUDE),  # eastwards
    math.cos(AZIMUTH) * math.cos(ALTITUDE),  # northwards
    math.sin(ALTITUDE),
)
OFFSET = 500.0  # metres; squares are summed of what is left, which loses no digits


def gradient(s: Any) -> tuple[Any, Any]:
    """Metres per metre towards the east and towards the south, after Horn (1981)."""
    east = (s[-1, 1] + 2 * s[0, 1] + s[1, 1]) - (s[-1, -1] + 2 * s[0, -1] + s[1, -1])
    south = (s[1, -1] + 2 * s[1, 0] + s[1, 1]) - (s[-1, -1] + 2 * s[-1, 0] + s[-1, 1])
    return east * (1 / (8 * CELL)), south * (1 / (8 * CELL))


def slope_at(s: Any) -> Any:
    """Degrees of the steepest descent."""
    east, south = gradient(s)
    return wf.atan(wf.sqrt(east * east + south * south)) * (180 / math.pi)


def hillshade_at(s: Any) -> Any:
    """How bright the sun lights the ground: 0 to 255."""
    east, south = gradient(s)
    facing = LIGHT[2] - LIGHT[0] * east + LIGHT[1] * south
    return wf.maximum(facing / wf.sqrt(1 + east * east + south * south), 0.0) * 255 + 0.5


def farthest(operator: Callable[[Any, Any], Any], dem: Any) -> Any:
    """The maximum (or minimum) around each cell: along columns, then along rows."""
    reach = range(-RADIUS, RADIUS + 1)
    along = wf.stencil(lambda s: reduce(operator, (s[0, j] for j in reach)), dem, boundary="edge")
    return wf.stencil(lambda s: reduce(operator, (s[i, 0] for i in reach)), along, boundary="edge")


def analyse(dem: Any) -> dict[str, Any]:
    """All results of an elevation model, lazily: maps, statistics of rows and of the whole."""
    rest = wf.astype(dem, wf.float64) - OFFSET
    return {
        "slope": wf.stencil(slope_at, dem, boundary="edge"),
        "hillshade": wf.astype(wf.stencil(hillshade_at, dem, boundary="edge"), wf.uint8),
        "relief": farthest(wf.maximum, dem) - farthest(wf.minimum, dem),
        "row_mean": wf.mean(dem, axis=1),
        "row_min": wf.min(dem, axis=1),
        "row_max": wf.max(dem, axis=1),
        "minimum": wf.min(dem),
        "maximum": wf.max(dem),
        "sum": wf.sum(rest),
        "sum_of_squares": wf.sum(rest * rest),
    }


MAPS = ("slope", "hillshade", "relief")


def reference(window: Array) -> dict[str, Array]:
    """The maps of a window of the model, whose outermost `RADIUS` cells are its surroundings."""
    z = window.astype(np.float64)
    inner = z[RADIUS:-RADIUS, RADIUS:-RADIUS]
    rows, columns = inner.shape

    class Shifted:
        def __getitem__(self, offset: tuple[int, int]) -> Array:
            i, j = RADIUS + offset[0], RADIUS + offset[1]
            return z[i : i + rows, j : j + columns]

    east, south = gradient(Shifted())
    size = 2 * RADIUS + 1
    around = np.lib.stride_tricks.sliding_window_view(z, (size, size))
    light = LIGHT[2] - LIGHT[0] * east + LIGHT[1] * south
    shade = np.maximum(light / np.sqrt(1 + east**2 + south**2), 0) * 255
    return {
        "slope": np.degrees(np.arctan(np.hypot(east, south))),
        "hillshade": shade,
        "relief": around.max((2, 3)) - around.min((2, 3)),
    }


TOLERANCE = {"slope": 5e-3, "hillshade": 1.0, "relief": 1e-3}
"""Degrees, grey levels, metres: what float32 and rounding to whole grey levels leave."""


def check(dem: Array, results: Mapping[str, Any], windows: int = 24) -> dict[str, float]:
    """The largest differences from NumPy, on random windows and rows, borders included.

    Raises
    ------
    AssertionError
        A difference is larger than rounding explains.
    """
    rng = np.random.default_rng(20)
    rows, columns = dem.shape
    worst = dict.fromkeys(MAPS, 0.0)
    corners = [(0, 0), (max(0, rows - 96), max(0, columns - 96))]
    corners += [(int(rng.integers(rows)), int(rng.integers(columns))) for _ in range(windows)]
    for top, left in corners:
        box = slice(top, min(top + 96, rows)), slice(left, min(left + 96, columns))
        expected = reference(_surrounded(dem, *box))
        for name in MAPS:
            found = np.asarray(results[name][box], np.float64)
            worst[name] = max(worst[name], float(np.abs(found - expected[name]).max()))
    for name in MAPS:
        assert worst[name] <= TOLERANCE[name], f"{name} differs from NumPy by {worst[name]}"
    worst["statistics"] = _check_statistics(dem, results, rng.integers(rows, size=windows))
    return worst


def _surrounded(dem: Array, down: slice, across: slice) -> Array:
    """A window with `RADIUS` cells around it, the border's cells repeated outside the model."""
    i = np.clip(np.arange(down.start - RADIUS, down.stop + RADIUS), 0, dem.shape[0] - 1)
    j = np.clip(np.arange(across.start - RADIUS, across.stop + RADIUS), 0, dem.shape[1] - 1)
    rows: Array = dem[i[0] : i[-1] + 1]
    return np.asarray(rows[i - i[0]][:, j])


def _check_statistics(dem: Array, results: Mapping[str, Any], rows: Array) -> float:
    """The largest difference, in metres, of the statistics of some rows and of the whole."""
    worst = 0.0
    for row in rows:
        cells = np.asarray(dem[row], np.float64)
        for name, expected in (
            ("row_mean", cells.mean()), ("row_min", cells.min()), ("row_max", cells.max()),
        ):  # fmt: skip
            worst = max(worst, abs(float(results[name][row]) - expected))
    # The rows give the whole.
    mean = float(results["sum"]) / dem.size + OFFSET
    worst = max(worst, abs(mean - float(np.mean(results["row_mean"], dtype=np.float64))))
    worst = max(worst, abs(float(results["minimum"]) - float(np.min(results["row_min"]))))
    worst = max(worst, abs(float(results["maximum"]) - float(np.max(results["row_max"]))))
    assert worst <= 1e-2, f"statistics differ from NumPy by {worst} m"
    return worst
