"""How many boxes go through a device: predicted from its rates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement.ways import small_boxes
from devices import pretended_cuda
from hypothesis import given
from hypothesis import strategies as st

import weft as wf
from weft.launch.stage import DeviceStage
from weft.plan import launch_counts, launches
from weft.plan.code import Rates
from weft.plan.derived import evaluator
from weft.plan.device_boxes import (
    Work,
    counts,
    extent_of,
    lines,
    seconds,
    slots_to_try,
)
from weft.sizes import Derived, Poly, as_poly

GPU = Rates(1e9, 1e9, 100e9, 1e-5, 1e-4, 2, True)
CPU = replace(GPU, beside=False)
MIB = 1 << 20


def best(rates: Rates, work: Work, slots: int) -> int:
    """The number of boxes that is predicted quickest."""
    return min(
        counts(1 << 20, 1, 1), key=lambda n: seconds(replace(work, boxes=n), rates, slots)
    )


def test_copies_are_beside_each_other() -> None:
    work = Work(64, 512 * MIB, 512 * MIB, 1)
    alone, two = seconds(work, GPU, 1), seconds(work, GPU, 2)
    assert alone > 1.0  # both ways, one after the other
    assert two == pytest.approx(alone / 2, rel=0.1)
    assert seconds(work, GPU, 3) <= two


def test_copies_take_processors_where_the_device_is_the_host() -> None:
    work = Work(64, 512 * MIB, 512 * MIB, 200)
    assert seconds(work, CPU, 3) > seconds(work, GPU, 3)


def test_launches_that_each_box_repeats_make_boxes_fewer() -> None:
    work = Work(1, 256 * MIB, 256 * MIB, 1)
    few, many = best(GPU, replace(work, launches=4000), 3), best(GPU, work, 3)
    assert 1 <= few < many < 10_000
    assert best(GPU, replace(work, bytes_in=1000, bytes_out=1000), 3) == 1  # nothing to hide


def test_kernels_that_compute_much_take_as_long_as_that() -> None:
    """However little they move; what they move counts where that takes longer."""
    work = Work(8, 8 * MIB, 8 * MIB, 2, 4e12)
    for rates in (GPU, CPU):
        able = replace(rates, operations=1e12)
        for slots in (1, 3):
            assert 4.0 <= seconds(work, able, slots) < 4.6
            moving = replace(work, operations=1e6)
            assert seconds(moving, able, slots) == seconds(moving, rates, slots) < 0.1
    assert best(replace(CPU, operations=1e12), work, 3) == best(CPU, work, 3)


def test_numbers_of_boxes_that_are_tried() -> None:
    assert list(counts(10, 1, 1)) == [1, 2, 3, 4, 5, 6, 7, 8, 10]
    assert list(counts(100, 50, 1)) == [1, 2]
    assert list(counts(5, 1, 4)) == [4, 5]
    assert list(counts(0, 1, 1)) == [1]
    assert slots_to_try(None, 2, False) == [1, 2]
    assert slots_to_try(None, 9, False) == [1, 2, 3, 4]
    assert slots_to_try(None, 9, True) == [3, 4, 1, 2]
    assert slots_to_try(128, 40, True) == [40]


def test_what_takes_longest_has_the_rest_of_one_box_before_and_behind_it() -> None:
    work = Work(10, 100_000_000, 50_000_000, 0)
    rates = replace(GPU, memory=1e15, box=0.0)
    assert seconds(work, rates, 3) == pytest.approx(0.1 + 0.05 / 10)
    assert seconds(replace(work, operations=1e12), replace(rates, operations=4e12), 3) == (
        pytest.approx(0.25 + (0.1 + 0.05) / 10)
    )


def test_copies_both_ways_slow_each_other_down() -> None:
    work, rates = Work(1000, 10**8, 10**8, 0), replace(GPU, memory=1e15, box=0.0)
    both = [seconds(work, replace(rates, duplex=part), 3) for part in (1.0, 0.8)]
    assert both[1] - both[0] == pytest.approx(0.1 * (1 / 0.8 - 1))
    one_way = replace(work, bytes_out=0)
    assert seconds(one_way, replace(rates, duplex=0.8), 3) == seconds(one_way, rates, 3)


def test_a_stage_of_no_coordinates_takes_no_time() -> None:
    assert slots_to_try(None, 0, True) == [1]
    assert seconds(Work(0, 0, 0, 1), GPU, 1) == 0


def test_launches_are_counted() -> None:
    one = launches.Launch("k", as_poly(1), 1, (), ())
    n = Poly.var("n")
    steps: launches.Steps = (
        one,
        launches.Define("m", n),
        launches.Repeat("k", as_poly(1), n, (one, launches.Branch("c", (one, one), ()))),
    )
    assert launch_counts.count(steps, {"n": 5}) == 1 + 4 * 3
    unknown = launch_counts.count((launches.Repeat("k", as_poly(0), Poly.var("read"), (one,)),), {})
    assert unknown > 1
    assert launch_counts.count((launches.While((one,), "c", (one,)),), {}) == 2 * unknown


def test_a_branch_makes_the_launches_of_the_side_that_most_boxes_take() -> None:
    one = launches.Launch("k", as_poly(1), 1, (), ())
    many: launches.Steps = (launches.Repeat("k", as_poly(0), as_poly(9), (one,)),)
    steps: launches.Steps = (
        launches.Define("tiles", Poly.var("m") - 1), launches.Branch("tiles", (one,), many),
    )  # fmt: skip
    for tiles, expected in ((1, 9), (2, 1), ([2, 2, 1], 1), ([2, 1, 1], 9), ([], 9)):
        assert launch_counts.count(steps, {"m": np.array(tiles)}) == expected
    assert launch_counts.count(steps, {"n": 2}) == 9


def test_launches_are_listed_as_steps_make_them() -> None:
    n, m, k = map(Poly.var, "nmk")
    first = launches.Launch("first", n, 64, (0,), ("n",))
    inner = launches.Launch("inner", m - k, 64, (0, 1), ("m",))
    steps: launches.Steps = (
        first,
        launches.Define("m", n + 1),
        launches.Repeat("k", as_poly(0), n, (inner, launches.Branch("c", (), (first,)))),
    )
    values = {"n": 2, "c": 0}
    found = launches.listed(steps, values, 100)
    one, both = (first, 2, (2,)), [(inner, 3, (3,)), (inner, 2, (3,))]
    assert found == [one, both[0], one, both[1], one]
    assert values["m"] == 3
    assert launches.listed(steps, {"n": 2, "c": 1}, 100) == [one, *both]
    assert launches.listed(steps, {"n": 0, "c": 0}, 100) == []  # kernels of no items
    assert launches.listed(steps, {"n": 2, "c": 0}, 5) == found
    assert launches.listed(steps, {"n": 2, "c": 0}, 4) is None
    for waits in (launches.Read("r", "int64", 0, n), launches.While((), "c", ())):
        assert launches.listed((waits,), {"n": 2, "c": 0}, 100) is None


def test_long_boxes_are_whole_lines() -> None:
    """Short ones are what was asked for, as is one box for all."""
    assert extent_of(1_000_000, 1, 7) == 142_912  # 142 858 and a part of a line
    assert extent_of(1_000_000, 10, 7) == 143_360
    assert extent_of(1_000_000, 1, 1) == 1_000_000
    assert extent_of(5000, 1, 7) == 715
    assert extent_of(0, 1, 3) == 1


def test_parts_of_rows_are_whole_lines_where_they_are_no_longer_than_half_of_one() -> None:
    """A device does neighbours together: narrower boxes would leave most of it idle."""
    assert extent_of(768, 1, 12, True) == 64
    assert extent_of(768, 1, 17, True) == 64  # 46
    assert extent_of(768, 1, 24, True) == 32  # not twice as long as asked for, and more
    assert extent_of(100, 1, 2, True) == 64
    assert extent_of(50, 1, 1, True) == 50
    assert extent_of(768, 1, 17) == 46  # rows are any number
    assert [lines(0), lines(1), lines(64), lines(65)] == [1, 1, 1, 2]


def test_what_the_host_does_takes_time_from_kernels_on_its_processors() -> None:
    """Many launches: boxes cost on a processor, and hide behind kernels elsewhere."""
    work = Work(32, MIB, MIB, 40, 1e12)
    for rates, hidden in ((GPU, True), (CPU, False)):
        able = replace(rates, operations=1e12)
        slow = replace(able, launch=10 * able.launch)
        assert (seconds(work, slow, 2) == seconds(work, able, 2)) == hidden


@given(
    st.sampled_from(["floordiv", "mod", "min", "max", "pow2floor"]),
    st.lists(st.tuples(st.integers(-(2**40), 2**40), st.integers(1, 2**20)), min_size=1),
    st.integers(-9, 9),
)
def test_derived_sizes_of_all_boxes_are_those_of_each(
    operation: Any, boxes: list[tuple[int, int]], shared: int
) -> None:
    entry = Derived("d", operation, Poly.var("a") * 3 + Poly.var("s"), Poly.var("b") + 1)
    left, right = np.array(boxes, np.int64).T
    half = Derived("half", "floordiv", Poly.var("d") - 5, Poly.const(2))
    evaluate = evaluator((entry, half))
    found = evaluate({"a": left, "b": right, "s": shared})
    of_each = [evaluate({"a": a, "b": b, "s": shared}) for a, b in boxes]
    expected = [entry.evaluate({"a": a, "b": b, "s": shared}) for a, b in boxes]
    assert found["d"].tolist() == [sizes["d"] for sizes in of_each] == expected
    assert found["half"].tolist() == [(value - 5) // 2 for value in expected]


def test_each_kernel_takes_the_device_a_while() -> None:
    """Where launches hide behind kernels, too."""
    slow = replace(GPU, start=1e-5)
    work = Work(32, MIB, MIB, 40, 1e12)
    able, starting = (seconds(work, replace(r, operations=1e12), 2) for r in (GPU, slow))
    assert starting - able == pytest.approx(32 * 40 * 1e-5, rel=0.1)


def test_each_copy_takes_a_while() -> None:
    """However small: many boxes with several arrays each take longer than what they move."""
    rates = replace(GPU, copy=1e-4)
    one, three = (seconds(Work(100, 10 * MIB, 0, 1, 0.0, 0, n), rates, 2) for n in (1, 3))
    assert three - one == pytest.approx(100 * 2 * 1e-4, rel=0.05)


def test_groups_of_which_some_processors_have_none() -> None:
    """As long as the processor that has the most of them takes."""
    rates = replace(GPU, processors=4)
    assert list(map(rates.idle, [1, 3, 4, 5, 8, 9])) == [4, 4 / 3, 1, 8 / 5, 1, 12 / 9]
    work, able = Work(8, MIB, MIB, 2, 1e12), replace(rates, operations=1e12)
    one, two = (seconds(replace(work, idle=idle), able, 3) for idle in (1.0, 2.0))
    assert two - one == pytest.approx(1.0)


def test_what_boxes_hold_is_there_before_them() -> None:
    """Nothing is beside its copy."""
    work = Work(64, 512 * MIB, 256 * MIB, 1)
    held = replace(work, held=256 * MIB)
    for slots in (1, 2, 3):
        before = seconds(held, GPU, slots) - seconds(replace(work, bytes_in=256 * MIB), GPU, slots)
        assert before == pytest.approx(256 * MIB / 1e9, rel=0.02)
    assert seconds(held, GPU, 1) == seconds(work, GPU, 1)


def test_boxes_near_the_best_may_leave_fewer_processors_idle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The numbers of them that are tried first are apart; none has more data than boxes may."""
    x = np.zeros(1 << 20, np.float32)
    first = set(counts(x.size, 1, 4))
    least = 64

    def averages(x: Any) -> Any:
        def step(_: Any, v: Any) -> Any:
            return wf.stencil(lambda s: (s[-1] + s[1]) * 0.5, v, boundary="edge")

        return wf.fori_loop(0, 300, step, x)

    def idle(_: Any, values: Any) -> float:
        number = max(np.size(value) for value in values.values())
        return 1.5 if number in first else 1.0

    def idle_if_many(_: Any, values: Any) -> float:
        number = max(np.size(value) for value in values.values())
        return 1.5 if number >= least else 1.0

    monkeypatch.setattr(DeviceStage, "idle", idle)
    with pretended_cuda.only_gpu(monkeypatch, tmp_path) as on:
        monkeypatch.setattr(on, "_rates", replace(GPU, operations=1e9))
        with wf.config(devices=[on.name], memory_limit={on.name: x.nbytes // 2}):
            (stage,) = wf.explain(wf.jit(averages), x).plan.stages
            monkeypatch.setattr(DeviceStage, "idle", idle_if_many)
            with small_boxes(2 * x.nbytes // least):
                (small,) = wf.explain(wf.jit(averages), x[1:]).plan.stages
    assert stage.slots
    assert stage.boxes.count not in first
    assert small.boxes.count >= least
