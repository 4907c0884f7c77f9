"""The preview: the whole terrain, coloured and shaded, with close-ups of each result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.demo.terrain import CELL

Array = npt.NDArray[Any]

# Metres and colours: valley green, woods, dry slopes, rock, summits.
_RAMP = [
    (200, "#4d7f62"), (320, "#7ba05b"), (430, "#b5bd72"), (560, "#d9c386"), (720, "#b98d5e"),
    (880, "#8d6e5b"), (1000, "#b9aca6"), (1120, "#f7f5f2"),
]  # fmt: skip


def downsample(array: Array, factor: int) -> Array:
    """Means of `factor` x `factor` cells, a strip of rows at a time: float32."""
    rows, columns = array.shape[0] // factor, array.shape[1] // factor
    means = np.empty((rows, columns), np.float32)
    for row in range(rows):
        strip = array[row * factor : (row + 1) * factor, : columns * factor]
        sums = strip.sum(axis=0, dtype=np.uint32 if strip.dtype.kind == "u" else np.float32)
        means[row] = sums.reshape(columns, factor).sum(axis=1) / factor**2
    return means


def draw(path: str, dem: Array, results: Mapping[str, Any], width: int = 1500) -> None:
    """Write the preview as a PNG image."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    factor = max(1, dem.shape[1] // width)
    heights = downsample(dem, factor)
    shade = downsample(results["hillshade"], factor)
    low, high = _RAMP[0][0], _RAMP[-1][0]
    ramp = [((metres - low) / (high - low), colour) for metres, colour in _RAMP]
    terrain = LinearSegmentedColormap.from_list("terrain", ramp)

    figure = Figure(figsize=(19.2, 10.8), dpi=100, facecolor="#16181d")
    FigureCanvasAgg(figure)
    whole = figure.add_axes((0.012, 0.04, 0.675, 0.915), anchor="NW")
    whole.imshow(_lit(terrain(Normalize(low, high)(heights))[..., :3], shade))
    kilometres = dem.shape[0] * CELL / 1000, dem.shape[1] * CELL / 1000
    _title(whole, f"{dem.shape[0]:,} x {dem.shape[1]:,} cells, "
                  f"{kilometres[0]:.0f} x {kilometres[1]:.0f} km")  # fmt: skip

    box = _interesting(results["relief"], (400, 560))
    corner = box[1].start / factor, box[0].start / factor
    sides = (box[1].stop - box[1].start) / factor, (box[0].stop - box[0].start) / factor
    whole.add_patch(Rectangle(corner, *sides, fill=False, color="white", linewidth=1.2))
    pictures = (
        ("hillshade", "gray", "hillshade, one pixel a cell"),
        ("slope", "magma", "slope, degrees"),
        ("relief", "viridis", "local relief (9 x 9 cells), metres"),
    )
    for number, (name, colours, title) in enumerate(pictures):
        bottom = 0.672 - number * 0.316
        axes = figure.add_axes((0.702, bottom, 0.223, 0.283), anchor="NW")
        image = axes.imshow(np.asarray(results[name][box]), cmap=colours)
        _title(axes, title)
        if name != "hillshade":
            bar = figure.colorbar(image, cax=figure.add_axes((0.934, bottom, 0.008, 0.283)))
            bar.ax.tick_params(colors="#c9ccd3", labelsize=9)
            bar.outline.set_visible(False)
    figure.savefig(path)


def _lit(colours: Array, shade: Array) -> Array:
    """Colours under light: darker in the shade, a little brighter in the sun."""
    light = np.clip(shade / 255, 0, 1)[..., None]
    flat = np.sin(np.pi / 4)
    dark = colours * (0.25 + 0.75 * np.minimum(light / flat, 1)) ** 1.6
    gain = np.clip((light - flat) / (1 - flat), 0, 1) * 0.55
    lit: Array = np.clip(dark + (1 - dark) * gain, 0, 1)
    return lit


def _interesting(relief: Array, sides: tuple[int, int]) -> tuple[slice, slice]:
    """Of some windows, the one with the most relief."""
    high, wide = (min(side, extent) for side, extent in zip(sides, relief.shape, strict=True))
    rng = np.random.default_rng(4)
    best, found = -1.0, (slice(0, high), slice(0, wide))
    for _ in range(40):
        top = int(rng.integers(relief.shape[0] - high + 1))
        left = int(rng.integers(relief.shape[1] - wide + 1))
        box = slice(top, top + high), slice(left, left + wide)
        mean = float(relief[box][::8, ::8].mean())
        if mean > best:
            best, found = mean, box
    return found


def _title(axes: Any, text: str) -> None:
    axes.set_title(text, color="#e6e8ec", fontsize=11, loc="left", pad=5)
    axes.set_axis_off()
