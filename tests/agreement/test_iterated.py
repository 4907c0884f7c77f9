"""Iterated stencils streamed: all rounds on one box after another, with the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement.ways import assert_equal_bits, streamed
from slow import every_second

import weft as wf
from weft.errors import SinkError
from weft.plan import phases

RNG = np.random.default_rng(1)
RULES = ["keep", "edge", "reflect", "symmetric", -1.0, ("edge", "wrap"), "wrap"]


def five_points(rule: Any) -> Any:
    return lambda x: wf.stencil(
        lambda t: (t[-1, 0] + t[1, 0] + t[0, -1] + t[0, 1] - t[0, 0]) / 3, x, boundary=rule
    )


def in_core(program: Any, inputs: list[Any]) -> list[Any]:
    with wf.config(interpret_below=0, optimise="no-time-tiles"):
        return [np.asarray(r) for r in program(*map(wf.asarray, inputs))]


BOXES = [((61, 7), 500), ((61, 7), 2000), ((4, 300), 4000), ((17, 1), 60)]


@pytest.mark.parametrize(("rule", "shape", "box_bytes"), every_second(
    [(rule, *boxes) for boxes in BOXES for rule in RULES], several=True
))  # fmt: skip
def test_boxes(rule: Any, shape: tuple[int, int], box_bytes: int, tmp_path: Path) -> None:
    def program(x: Any) -> list[Any]:
        return [wf.iterate(five_points(rule), x, 5)]

    inputs = [RNG.random(shape)]
    assert_equal_bits(streamed(program, inputs, tmp_path, box_bytes), in_core(program, inputs))


def test_between_other_statements(tmp_path: Path) -> None:
    """What comes before is computed on the margin too; what comes after on the box."""

    def program(x: Any, y: Any) -> list[Any]:
        smooth = wf.iterate(five_points("edge"), wf.sqrt(x) + y, 4)
        return [smooth[1:] - smooth[:-1], wf.sum(smooth)]

    inputs = [RNG.random((53, 11)), RNG.random((53, 11))]
    found, expected = streamed(program, inputs, tmp_path, 900), in_core(program, inputs)
    assert_equal_bits(found[:1], expected[:1])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-14)


def test_a_library_call_on_what_rounds_give(tmp_path: Path) -> None:
    """Of two loops that differ in names alone, the later one's box has a call behind it."""

    def program(x: Any) -> list[Any]:
        def rounds(v: Any) -> Any:
            return wf.iterate(five_points("reflect"), v, 17)

        return [wf.sort(rounds(rounds(x))[1:], axis=1)]

    inputs = [RNG.random((11, 60))]
    assert_equal_bits(streamed(program, inputs, tmp_path, 1000), in_core(program, inputs))


def test_several_arrays_and_some_from_outside(tmp_path: Path) -> None:
    def program(x: Any, power: Any, weights: Any) -> list[Any]:
        def step(k: Any, pair: Any) -> Any:
            hot, cold = pair
            new = wf.stencil(lambda a, p: a[-2] + p[1] - a[1], hot, power, boundary="edge")
            return new * weights[3], cold + hot + k

        return list(wf.fori_loop(0, 6, step, (x, x * 2)))

    inputs = [RNG.random(71), RNG.random(71), RNG.random(5)]
    assert_equal_bits(streamed(program, inputs, tmp_path, 300), in_core(program, inputs))


def test_larger_than_the_limit(tmp_path: Path) -> None:
    x = RNG.random((9000, 1024)).astype("f4")
    np.save(tmp_path / "x.npy", x)
    with wf.config(memory_limit="32 MiB"):
        lazy = wf.iterate(five_points("keep"), wf.open(tmp_path / "x.npy"), 12)
        plan = wf.explain(lazy)
        assert plan.peak_bytes <= 32 << 20
        assert "12 rounds on each box, " in str(plan)
        assert plan.passes[next(iter(plan.passes))] <= 1.125
        wf.store(lazy, tmp_path / "y.npy")
    (expected,) = in_core(lambda x: [wf.iterate(five_points("keep"), x, 12)], [x])
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)


def test_of_every_other_row(tmp_path: Path) -> None:
    """Extents that are computed from sizes."""
    x = RNG.random((9000, 1024)).astype("f4")
    np.save(tmp_path / "x.npy", x)

    def program(x: Any) -> list[Any]:
        return [wf.iterate(five_points("edge"), x[::2], 5)]

    with wf.config(memory_limit="28 MiB"):
        wf.store(program(wf.open(tmp_path / "x.npy"))[0], tmp_path / "y.npy")
    (expected,) = in_core(program, [x])
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)


@pytest.mark.parametrize(("rounds", "leans"), [
    (300, True), pytest.param(1500, True, marks=pytest.mark.slow), (310, False),
])  # fmt: skip
def test_more_rounds_than_a_margin_allows(
    rounds: int, leans: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some rounds over all boxes, into a scratch file where they are not all; then the next."""
    if not leans:
        monkeypatch.setattr(phases, "turns_of", lambda _: None)
    x = RNG.random((20000, 512)).astype("f4")
    np.save(tmp_path / "x.npy", x)
    with wf.config(memory_limit="36 MiB"):
        lazy = wf.iterate(five_points("edge"), wf.open(tmp_path / "x.npy"), rounds)
        plan = wf.explain(lazy)
        assert plan.peak_bytes <= 36 << 20
        assert ("leaning: nothing is computed twice" in str(plan)) == leans
        assert ("in a scratch file: 39.1 MiB" in str(plan)) == (rounds != 300)
        wf.store(lazy, tmp_path / "y.npy")
    (expected,) = in_core(lambda x: [wf.iterate(five_points("edge"), x, rounds)], [x])
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)


def test_intermediates_larger_than_the_limit(tmp_path: Path) -> None:
    """Sorts along both axes: what the first gives is needed along the other axis."""
    x = RNG.random((3000, 2000))
    np.save(tmp_path / "x.npy", x)
    with wf.config(memory_limit="40 MiB"):
        lazy = wf.sort(wf.sort(wf.open(tmp_path / "x.npy"), axis=0), axis=1)
        assert "in a scratch file" in str(wf.explain(lazy))
        wf.store(lazy, tmp_path / "y.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.sort(np.sort(x, 0), 1))


def test_scans_along_both_axes_are_one_pass(tmp_path: Path) -> None:
    x = RNG.random((3000, 2000))
    np.save(tmp_path / "x.npy", x)
    with wf.config(memory_limit="40 MiB"):
        lazy = wf.cumulative_sum(
            wf.cumulative_sum(wf.open(tmp_path / "x.npy"), axis=0), axis=1
        )
        assert wf.explain(lazy).bytes_moved == 2 * x.nbytes
        wf.store(lazy, tmp_path / "y.npy")
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), x.cumsum(0).cumsum(1), rtol=1e-12)


def test_no_room_for_intermediates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_SCRATCH_DIR", str(tmp_path / "nowhere"))
    np.save(tmp_path / "x.npy", RNG.random((3000, 2000)))
    lazy = wf.sort(wf.sort(wf.open(tmp_path / "x.npy"), axis=0), axis=1)
    with wf.config(memory_limit="40 MiB"), pytest.raises(SinkError, match="nowhere") as caught:
        wf.store(lazy, tmp_path / "y.npy")
    assert "WEFT_SCRATCH_DIR" in str(caught.value)
    assert not (tmp_path / "y.npy").exists()


ONE_SIDED = {
    "one row": lambda t: (t[0, 0] + t[-2, 0]) / 2,
    "both sides": lambda t: (t[2, 0] + t[-2, 0]) / 2,
    "more to the front": lambda t: (t[0, 0] + t[1, 0] + t[-2, 1]) / 3,
}


@pytest.mark.parametrize("name", ONE_SIDED)
def test_boxes_whose_rows_become_more(name: str, tmp_path: Path) -> None:
    """A last box that leans has fewer rows before its first round than in it."""

    def program(x: Any) -> list[Any]:
        return [wf.iterate(lambda v: wf.stencil(ONE_SIDED[name], v, boundary="edge"), x, 7)]

    path = tmp_path / "x.npy"
    for rows in range(300, 420, 3):
        x = RNG.random((rows, 256))
        np.save(path, x)
        with wf.config(memory_limit=25_600_000, threads=1):
            (lazy,) = program(wf.open(path))
            assert rows > 300 or "leaning" in str(wf.explain(wf.store, lazy, tmp_path / "y.npy"))
            wf.store(lazy, tmp_path / "y.npy", mode="w")
        assert_equal_bits([np.load(tmp_path / "y.npy")], in_core(program, [x]))
