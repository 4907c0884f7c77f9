"""The demonstration, small."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

import numpy as np
import pytest

from weft.demo import analysis
from weft.demo.measure import PeakMemory, read_seconds, write_seconds
from weft.demo.picture import downsample
from weft.demo.run import demo
from weft.demo.terrain import Terrain, terrain_shape, write_terrain


@pytest.mark.parametrize("gib", [0.001, 0.3, 2, 22])
def test_terrain_size(gib: float) -> None:
    rows, columns = terrain_shape(int(gib * 2**30))
    assert abs(rows * columns * 4 / (gib * 2**30) - 1) < 0.01
    assert 1.2 < columns / rows < 1.5


def test_terrain_does_not_depend_on_bands(tmp_path: Path) -> None:
    shape = (300, 500)
    assert write_terrain(str(tmp_path / "a.npy"), shape)
    whole = np.load(tmp_path / "a.npy")
    assert whole.shape == shape
    assert whole.dtype == np.float32
    terrain = Terrain(shape)
    pieces = [terrain.rows(start, min(start + 37, 300)) for start in range(0, 300, 37)]
    np.testing.assert_allclose(whole, np.concatenate(pieces), atol=1e-3)
    assert 150 < whole.min() < whole.max() < 1200


def test_terrain_is_smooth_and_rough() -> None:
    """No seams, and no flat ground either."""
    rows = Terrain((400, 3000)).rows(0, 400)
    for axis in (0, 1):
        steps = np.abs(np.diff(rows, axis=axis))
        assert steps.max() < 15  # metres in 5.6 metres
        assert (steps.mean(axis=axis) > 0.05).all()


def test_terrain_is_made_once(tmp_path: Path) -> None:
    path = str(tmp_path / "a.npy")
    assert write_terrain(path, (100, 256))
    written = os.stat(path).st_mtime_ns
    assert not write_terrain(path, (100, 256))
    assert os.stat(path).st_mtime_ns == written
    damaged = np.load(path, mmap_mode="r+")
    damaged[50] += 1
    damaged.flush()
    assert write_terrain(path, (100, 256))
    assert write_terrain(path, (90, 256))


def numpy_results(dem: np.ndarray) -> dict[str, np.ndarray]:
    around = np.pad(dem, analysis.RADIUS, mode="edge")
    rest = dem.astype("f8") - analysis.OFFSET
    maps = analysis.reference(around)
    return {
        **maps,
        "hillshade": (maps["hillshade"] + 0.5).astype("u1"),
        "row_mean": dem.mean(axis=1),
        "row_min": dem.min(axis=1),
        "row_max": dem.max(axis=1),
        "minimum": dem.min(),
        "maximum": dem.max(),
        "sum": rest.sum(),
        "sum_of_squares": (rest * rest).sum(),
    }


def test_check_accepts_what_is_right() -> None:
    dem = Terrain((200, 320)).rows(0, 200)
    analysis.check(dem, numpy_results(dem))


@pytest.mark.parametrize("name", ["slope", "hillshade", "relief", "row_mean", "row_max", "sum"])
def test_check_refuses_what_is_wrong(name: str) -> None:
    dem = Terrain((200, 320)).rows(0, 200)
    results = numpy_results(dem)
    results[name] = np.asarray(results[name], "f8") + 30000
    with pytest.raises(AssertionError, match=r"differs? from NumPy"):
        analysis.check(dem, results)


def test_program_agrees_with_numpy() -> None:
    import weft as wf

    dem = Terrain((150, 192)).rows(0, 150)
    lazy = analysis.analyse(wf.asarray(dem))
    found = dict(zip(lazy, wf.compute(*lazy.values()), strict=True))
    expected = numpy_results(dem)
    assert found["hillshade"].dtype == np.uint8
    for name, values in expected.items():
        tolerance = analysis.TOLERANCE.get(name, 1e-3)
        tolerance *= dem.size if name.startswith("sum") else 1
        difference = np.abs(np.asarray(found[name], "f8") - np.asarray(values, "f8"))
        assert difference.max() <= tolerance, name


def test_downsample() -> None:
    shade = np.arange(6 * 9, dtype="u1").reshape(6, 9)
    expected = shade[:6, :8].reshape(3, 2, 4, 2).mean(axis=(1, 3))
    np.testing.assert_allclose(downsample(shade, 2), expected)


def test_measurements(tmp_path: Path) -> None:
    with PeakMemory() as watched:
        held = mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE)
        held.write(b"x" * (32 << 20))
        time.sleep(0.05)
        held.close()
    if watched.peak is not None:
        assert 31 << 20 < watched.peak < 80 << 20
    (tmp_path / "a").write_bytes(bytes(10 << 20))
    assert 0 < read_seconds(str(tmp_path / "a")) < 10
    assert 0 < write_seconds(str(tmp_path), 10 << 20) < 10
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_demo(tmp_path: Path) -> None:
    lines: list[str] = []
    demo(0.05, "40 MiB", str(tmp_path), lines.append)
    report = "\n".join(lines)
    for word in ("The plan", "GiB/s", "Statistics", "differences from NumPy", "hillshade.png"):
        assert word in report
    assert "copied to no other memory" in report
    assert "analysis.py:" in report  # the program that a plan is of
    assert "test_demo.py" not in report
    assert (tmp_path / "hillshade.png").stat().st_size > 100_000
    for name in analysis.MAPS:
        assert np.load(tmp_path / f"{name}.npy", mmap_mode="r").shape[1] > 4000
    demo(0.05, "40 MiB", str(tmp_path), lines.append)  # again, over what is there
