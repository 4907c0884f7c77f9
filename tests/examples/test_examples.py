"""The examples run, and give what NumPy gives."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_normalise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = np.load(load("normalise").main(tmp_path, rows=20_000))
    table = np.load(tmp_path / "table.npy").astype("f8")
    np.testing.assert_allclose(result, (table - table.mean(0)) / table.std(0), atol=1e-4)
    assert "table.npy" in capsys.readouterr().out


def test_heat() -> None:
    plate = np.zeros((40, 40))
    plate[0] = 100
    for _ in range(50):
        inner = plate[1:-1, 1:-1]
        around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
        plate[1:-1, 1:-1] = inner + 0.2 * (around - 4 * inner)
    np.testing.assert_allclose(load("heat").main(40, 50), plate, rtol=1e-12)


def test_mandelbrot() -> None:
    rows, columns, most = 30, 40, 50
    c = (-2.2 + 3.2 * np.arange(columns) / columns) + 1j * (-1.2 + 2.4 * np.arange(rows) / rows)[
        :, None
    ]
    z, counts = c.copy(), np.zeros(c.shape, int)
    for _ in range(most):
        inside = (z.real**2 + z.imag**2) <= 4
        z[inside] = z[inside] ** 2 + c[inside]
        counts += inside
    found = load("mandelbrot").main(rows, columns, most)
    assert (found != counts).mean() < 0.01  # a rounding may let a point escape a round later


def test_histogram(tmp_path: Path) -> None:
    counts = load("histogram").main(tmp_path, 50_000)
    values = np.load(tmp_path / "values.npy")
    expected = np.bincount(np.clip(np.floor((values + 4) * 12.5), 0, 99).astype(int), minlength=100)
    np.testing.assert_array_equal(counts, expected)


def test_moments() -> None:
    mean, variance = load("moments").main(10_000)
    x = np.random.default_rng(2).normal(1e9, 1.0, 10_000)
    assert mean == pytest.approx(x.mean(), rel=1e-14)
    assert variance == pytest.approx(x.var(), rel=1e-6)


def test_days(tmp_path: Path) -> None:
    mean, hottest = load("days").main(tmp_path, days=5)
    days = np.stack([np.load(tmp_path / f"day-{day:02}.npy") for day in range(5)])
    np.testing.assert_allclose(mean, days.mean(0), rtol=1e-5)
    np.testing.assert_array_equal(hottest, days.argmax(0))


def test_hotspot() -> None:
    plate = load("hotspot").main(steps=3)
    assert plate.shape == (512, 512)
    data = np.load(EXAMPLES / "data" / "hotspot_512.npz")
    pieces = load("hotspot").simulate_pieces(data["temperature"], data["power"], 3)
    np.testing.assert_allclose(plate, pieces, rtol=1e-6)


def test_lattice_boltzmann() -> None:
    speed = load("lattice_boltzmann").main(steps=5)
    assert speed.shape == (150, 120)
    assert 0.005 < speed.max() < 0.02  # the lid's own speed is 0.0054


def test_srad() -> None:
    image = load("srad").main(rounds=10)
    assert image.shape == (502, 458)
    noisy = np.load(EXAMPLES / "data" / "srad_image.npz")["image"].astype(np.float32)
    assert np.abs(np.diff(image)).mean() < 0.8 * np.abs(np.diff(noisy)).mean()


def test_backprop() -> None:
    outputs = load("backprop").main(steps=50)
    assert all(before > after > 0.1 for before, after in pairwise(outputs))


def test_option_pricing() -> None:
    assert load("option_pricing").main(paths=1 << 14) == pytest.approx(937.39, rel=5e-3)


def test_locvolcalib() -> None:
    prices = load("locvolcalib").main(strikes=4, prices=16, volatilities=8, times=5)
    np.testing.assert_allclose(prices, 0.03 - 0.001 * np.arange(4), rtol=1e-9)


def test_nn() -> None:
    indices, distances = load("nn").main()
    assert indices.tolist()[:3] == [12688, 17647, 41210]
    assert (np.diff(distances) >= 0).all()


def test_lavamd() -> None:
    weight, *force = load("lavamd").main(2, 30)
    assert (weight > 0).all()
    assert abs(np.sum(force[0] * load("lavamd").scatter_particles(2, 30)[2])) < 1e-9 * weight.sum()


def test_lud() -> None:
    matrix, both = load("lud").main(96)
    lower, upper = np.tril(both, -1) + np.eye(96), np.triu(both)
    np.testing.assert_allclose(lower @ upper, matrix, atol=1e-4)


def test_pathfinder() -> None:
    wall = np.random.default_rng(7).integers(0, 10, (9, 50), dtype=np.int32)
    costs = wall[0]
    for row in wall[1:]:
        wide = np.pad(costs, 1, mode="edge")
        costs = row + np.minimum(np.minimum(wide[:-2], wide[2:]), costs)
    np.testing.assert_array_equal(load("pathfinder").main(9, 50), costs)


def test_nw() -> None:
    upper, lower, score = load("nw").main(64)
    assert len(upper) == len(lower) < 128
    pairs = zip(upper, lower, strict=True)
    assert sum(-6 if "-" in pair else 5 if len(set(pair)) == 1 else -4 for pair in pairs) == score


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_matrix_product(dtype: str) -> None:
    module = load("matrix_product")
    assert module.main(60, dtype) < 10 * np.finfo(dtype).eps
    a = np.arange(6, dtype=dtype).reshape(2, 3)
    found = np.empty((2, 2), dtype)
    module.product(a, a.T.copy(), found)
    np.testing.assert_array_equal(found, a @ a.T)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_n_body(dtype: str) -> None:
    random = np.random.default_rng(1)
    p = (1000 * random.random((30, 3))).astype(dtype)
    v, mass = np.zeros_like(p), random.random(30).astype(dtype)
    for _ in range(3):
        apart = p[None] - p[:, None]
        pull = mass / ((apart**2).sum(-1) + 2500) ** 1.5
        p, v = p + v, v + (apart * pull[..., None]).sum(1)
    np.testing.assert_allclose(load("n_body").main(30, 3, dtype), p, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_coulombic_potential(dtype: str) -> None:
    module = load("coulombic_potential")
    atoms = np.random.default_rng(2).random((9, 4)).astype(dtype) + np.asarray(0.5, dtype)
    found = np.empty((6, 7), dtype)
    module.potential(atoms, atoms.dtype.type(0.1), found)
    j, i = np.mgrid[:6, :7]
    x, y, z, q = atoms.T[:, :, None, None]
    expected = (q / np.sqrt((0.1 * i - x) ** 2 + (0.1 * j - y) ** 2 + z**2)).sum(0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert module.main(16, 20, dtype).dtype == dtype


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rank_updates(dtype: str) -> None:
    assert max(load("rank_updates").main(40, 30, dtype)) < 100 * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_five_point(dtype: str) -> None:
    a = np.random.default_rng(1).random((20, 20)).astype(dtype)
    expected = a.copy()
    expected[1:-1, 1:-1] += a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]
    expected[1:-1, 1:-1] *= np.asarray(0.2, dtype)
    np.testing.assert_allclose(load("five_point").main(20, dtype), expected, rtol=1e-5)


def test_gauss_jordan(tmp_path: Path) -> None:
    for pivoting in (False, True):
        found, most = load("gauss_jordan").main(tmp_path, 800, 3, "28 MiB", pivoting)
        assert most <= 28 << 20
        system = np.load(tmp_path / "system.npy")
        assert system.nbytes > 4 << 20  # what the limit leaves for arrays
        np.testing.assert_allclose(system[:, :800] @ found, system[:, 800:], atol=1e-8)
