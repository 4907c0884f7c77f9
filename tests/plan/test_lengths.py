"""Lengths that a program computes are known before it is planned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fun.check import check
from weft.fun.parse import parse
from weft.fun.show import show
from weft.launch.lengths import part

U = np.random.default_rng(0).random(50_111)
PLATE = U[:50_000].reshape(100, 500)
SHIFTS = np.array([0, 4, -3])


def sums(u: Any, s: Any) -> Any:
    """A shift that takes all of the data."""
    return wf.roll(u, u.astype(wf.int64).sum() + 3, axis=0)


def rounds(u: Any, s: Any) -> Any:
    """A loop of one round, which is none."""
    return wf.fori_loop(0, 1, lambda k, v: 0.5 * v + 0.5 * wf.roll(v, k + s[1], axis=0), u)


def several(u: Any, s: Any) -> Any:
    """A length that an array of computed length gives."""
    first = wf.roll(u, s[1], axis=0) * 2
    return wf.roll(first, (first[:s[1]] > 5).sum() + s[2], axis=0) + u


CASES: dict[str, tuple[Callable[..., Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]] = {
    "element": (lambda u, s: wf.roll(u, s[1], axis=0) * 2, U, np.roll(U, 4) * 2),
    "nothing": (lambda u, s: wf.roll(u, s[0], axis=0) * 2, U, U * 2),
    "backwards": (lambda u, s: wf.roll(u, s[2], axis=0) * 2, U, np.roll(U, -3) * 2),
    "columns": (lambda u, s: wf.roll(u, s[1], axis=1) + u, PLATE, np.roll(PLATE, 4, 1) + PLATE),
    "sum": (sums, U, np.roll(U, 3)),
    "one round": (rounds, U, 0.5 * U + 0.5 * np.roll(U, 4)),
    "several": (several, U, np.roll(np.roll(U, 4) * 2, -3) + U),
}
WAYS: dict[str, dict[str, Any]] = {
    "two": {"devices": ["cpu:0", "cpu:1"]},
    "device": {"devices": ["opencl:0"], "memory_limit": {"opencl:0": "64 KiB"}},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
def test_arrays_in_memory(name: str, way: str) -> None:
    function, data, expected = CASES[name]
    missing = set(WAYS[way]["devices"]) - set(wf.devices())
    if missing:
        pytest.skip(f"no {', '.join(missing)}")
    compiled = wf.jit(function)
    with wf.config(interpret_below=0, **WAYS[way]):
        for _ in range(2):
            np.testing.assert_array_equal(compiled(data, SHIFTS), expected)


def test_other_lengths_have_another_plan() -> None:
    compiled = wf.jit(CASES["element"][0])
    with wf.config(**WAYS["two"]):
        for shift in (4, 0, 50_110, 7, 4):
            np.testing.assert_array_equal(compiled(U, SHIFTS * 0 + shift), np.roll(U, shift) * 2)


@pytest.mark.parametrize("name", CASES)
def test_files(name: str, tmp_path: Path) -> None:
    function, data, expected = CASES[name]
    np.save(tmp_path / "u.npy", data)
    with wf.config(interpret_below=0, memory_limit="27 MiB"):
        wf.store(
            wf.jit(function)(wf.open(tmp_path / "u.npy"), wf.asarray(SHIFTS)), tmp_path / "r.npy"
        )
    np.testing.assert_array_equal(np.load(tmp_path / "r.npy"), expected)


def test_a_kernel() -> None:
    @wf.kernel
    def turn(u: Any, v: Any, s: Any) -> None:
        for t in range(2):
            v[:] = np.roll(u, s[t])

    v = np.zeros_like(U)
    with wf.config(devices=["cpu:0", "cpu:1"]):
        turn(U, v, SHIFTS)
    np.testing.assert_array_equal(v, np.roll(U, 4))


PROGRAM = """
program p(x: i64[n], y: f64[m], z: f64[m]) sizes n, m {
  let k: i64 = x[0]
  let part: f64[k] = slice y[0 for k]
  let twice: f64[k] = kernel (i < k) { let a: f64 = part[i] let b: f64 = add(a, a) in b }
  in twice, k
}
"""


def test_what_measures_and_the_rest() -> None:
    parted = part(parse(PROGRAM))
    assert parted is not None
    assert [param.name for param in parted.measure.params] == ["x"]
    assert parted.sizes == ("any_k",)
    check(parted.measure)
    check(parted.rest)
    assert "f64[any_k]" in show(parted.rest)
    assert part(parted.rest) is None
    assert part(parted.measure) is None


def test_lengths_that_are_known_are_not_measured() -> None:
    whole = PROGRAM.replace("f64[k]", "f64[m]").replace("for k", "for m").replace("< k", "< m")
    assert part(parse(whole)) is None
