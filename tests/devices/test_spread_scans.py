"""Long scans whose boxes devices share: the same bits, by totals of tiles that come first."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import assert_equal_bits
from devices.faults import failing, lost
from devices.test_several import ready, two
from devices.test_spread import KINDS, TWO, all_begin, beside_faults, small_shares
from slow import some_slow

import weft as wf
from weft.errors import DeviceError
from weft.fun.parse import parse
from weft.plan import begun
from weft.plan.code import Rates
from weft.plan.draft import SCAN_TILE
from weft.plan.setting import Processor, Setting
from weft.runtime.devices.cpu import parts
from weft.runtime.shares import Left

pytestmark = pytest.mark.skipif(len(parts()) < 2, reason="one core alone")

RNG = np.random.default_rng(29)
N = 17 * SCAN_TILE + 4321
X = RNG.normal(size=N)
INTEGERS = RNG.integers(-(2**60), 2**60, N)  # sums that wrap


def affine(p: Any, q: Any) -> Any:
    """One affine map, and then another: (a, b) is x -> a*x + b."""
    return p[0] * q[0], p[1] * q[0] + q[1]


def least(p: Any, q: Any) -> Any:
    """The smaller value and its index, the first of equal ones."""
    first = p[0] <= q[0]
    return wf.where(first, p[0], q[0]), wf.where(first, p[1], q[1])


def sum_and_greatest(p: Any, q: Any) -> Any:
    return p[0] + q[0], wf.maximum(p[1], q[1])


def scan(op: Any, *arrays: Any, **options: Any) -> Any:
    return wf.associative_scan(op, *arrays, **options)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "sums": (wf.cumulative_sum, (X,)),
    "sums of what is computed": (lambda a: wf.cumulative_sum(wf.exp(wf.sin(a)) * a), (X,)),
    "sums of 4 bytes": (wf.cumulative_sum, (X.astype(np.float32),)),
    "integers": (wf.cumulative_sum, (INTEGERS,)),
    "products of integers": (wf.cumulative_prod, (INTEGERS | 1,)),
    "greatest so far": (lambda a: scan("maximum", a), (-np.abs(X) - 1,)),
    "least so far, from one on": (lambda a: scan("minimum", a, init=-2.0), (X,)),
    "all so far": (lambda a: scan("logical_and", a > -4.2), (X,)),
    "without its own": (lambda a: scan("add", a, exclusive=True, init=3.0), (X,)),
    "integer maps": (lambda a, b: scan(affine, (a, b), init=(1, 0)), (INTEGERS, INTEGERS[::-1])),
    "recurrence": (lambda a, b: scan(affine, (a, b), init=(1.0, 0.0)), (np.cos(X), X)),
    "least, and where": (
        lambda a, i: scan(least, (a, i), init=(np.inf, -1)), (np.round(X, 2), np.arange(N)),
    ),
    "two at once": (
        lambda a: scan(sum_and_greatest, (a, a), init=(0.0, -np.inf)), (-np.abs(X) - 1,),
    ),
    "used at once": (lambda a: wf.sqrt(wf.abs(wf.cumulative_sum(a))) + a, (X,)),
    "and used whole": (lambda a: (s := wf.cumulative_sum(a)) / wf.max(wf.abs(s)), (X,)),
    "of a scan": (lambda a: wf.cumulative_sum(wf.cumulative_sum(a) * 1e-3), (X,)),
}  # fmt: skip


def computed(name: str) -> list[Any]:
    function, arguments = PROGRAMS[name]
    found = wf.jit(function)(*arguments)
    return [np.asarray(part) for part in (found if isinstance(found, tuple) else (found,))]


def expected(name: str) -> list[Any]:
    with wf.config(devices=["cpu:0"]):
        return computed(name)


@pytest.mark.parametrize("name", some_slow(PROGRAMS, [
    "sums of 4 bytes", "products of integers", "least so far, from one on", "all so far",
    "used at once",
]))  # fmt: skip
def test_devices_share_it_with_the_same_bits(name: str) -> None:
    right = expected(name)
    boxes: Counter[str] = Counter()
    done = Left.done

    def counted(self: Any, number: int, box: tuple[int, int]) -> None:
        boxes[self.devices[number].share.device] += 1
        done(self, number, box)

    with wf.config(devices=TWO):
        with all_begin(2), mock.patch.object(Left, "done", counted):
            assert_equal_bits(computed(name), right)
        function, arguments = PROGRAMS[name]
        stages = wf.explain(lambda: function(*map(wf.asarray, arguments))).plan.stages
    assert set(boxes) == set(TWO)
    assert sum(boxes.values()) > 2  # of totals, and of results
    alone = [name for s in stages if not s.shares for name, _, _ in s.stage.ranges]
    assert not alone  # what is left to one device is small


def test_the_plan_says_so() -> None:
    with wf.config(devices=TWO):
        plan = wf.explain(lambda: wf.cumulative_sum(wf.asarray(X))).plan
    totals, begins, sums = plan.stages
    assert [len(stage.shares) for stage in plan.stages] == [2, 0, 2]
    assert totals.boxes.total == N // SCAN_TILE
    assert begins.stage.reason.endswith("needs all of its input")
    assert sums.unit == SCAN_TILE
    assert not sums.stage.in_order
    twice = X.nbytes + (N // SCAN_TILE) * SCAN_TILE * X.itemsize
    assert twice <= plan.bytes_read <= 1.01 * twice  # streams of a tile are one as long as others


@pytest.mark.parametrize("n", [16 * SCAN_TILE, 16 * SCAN_TILE + 1, 17 * SCAN_TILE - 1])
def test_tiles_that_are_full_or_not(n: int) -> None:
    with wf.config(devices=["cpu:0"]):
        right = np.asarray(wf.cumulative_sum(wf.asarray(X[:n])))
    with wf.config(devices=TWO):
        assert_equal_bits([np.asarray(wf.cumulative_sum(wf.asarray(X[:n])))], [right])


# ---------------------------------------------------------------- what fails


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["sums", "greatest so far"])
def test_what_a_device_fails_at_another_does(name: str, kind: str) -> None:
    right = expected(name)
    for met, error, found, told in beside_faults(kind, lambda: computed(name)):
        assert_equal_bits(found, right)
        if kind != "compile" and isinstance(error, DeviceError):
            assert told == met


def test_one_of_two_opencl_devices_is_lost() -> None:
    right = expected("integer maps")
    with two() as both, mock.patch("weft.plan.planner.is_worth_sharing", return_value=True):
        for launch in (1, 3):
            for on in both.devices:
                ready(on)
            with warnings.catch_warnings(), failing(
                both.devices[1], "launch", launch, lost(both.devices[1])
            ):
                warnings.simplefilter("ignore", RuntimeWarning)
                assert_equal_bits(computed("integer maps"), right)


# ---------------------------------------------------------------- what is not shared


def is_shared(function: Callable[..., Any], *arguments: Any) -> bool:
    with wf.config(devices=TWO):
        stages = wf.explain(lambda: function(*arguments)).plan.stages
    return any(stage.shares and stage.unit == SCAN_TILE for stage in stages)


def test_short_ones_are_left_to_one_device() -> None:
    with small_shares(), mock.patch.object(begun, "SMALL_WORK", 1024):
        assert is_shared(wf.cumulative_sum, wf.asarray(X[: 4 * SCAN_TILE]))
        assert not is_shared(wf.cumulative_sum, wf.asarray(X[: 4 * SCAN_TILE - 1]))


ROOTS = """program roots(x: DT[n]) sizes n {
  let y: DT[n] = scan (i < n) from 0_DT {
    let v: DT = x[i]
    let w: DT = loop (u: DT = v) for k from 0 to 9 { let h: DT = multiply(u, u) in h }
    in w
  } with (l: DT, r: DT) { let t: DT = OP(l, r) in t }
  in y
}"""


@pytest.mark.parametrize(("operation", "dtype", "count"), [
    ("add", "f64", 0), ("maximum", "f64", 1), ("add", "i64", 1),
])  # fmt: skip
def test_where_each_element_is_combined_in_turn(operation: str, dtype: str, count: int) -> None:
    """Elements that take a loop of their own are in streams where it cannot be told alone."""
    program = parse(ROOTS.replace("DT", dtype).replace("OP", operation))
    assert len(begun.begin_scans(program, lambda let: True).begins) == count


@pytest.mark.skipif(find_spec("zarr") is None, reason="no zarr")
def test_what_would_be_decoded_twice(tmp_path: Path) -> None:
    wf.store(wf.asarray(X), tmp_path / "x.zarr", chunks=(1 << 17,))
    np.save(tmp_path / "x.npy", X)
    assert not is_shared(wf.cumulative_sum, wf.open(tmp_path / "x.zarr"))
    assert is_shared(wf.cumulative_sum, wf.open(tmp_path / "x.npy"))


def test_a_slow_device_helps_nobody() -> None:
    """Totals take a pass more: it is worth it where others do more than that."""

    def worth(*rates: tuple[Any, ...] | None) -> bool:
        processors = [
            Processor(f"{k}", "", not rate, 1, mock.Mock(), rates=rate and partial(Rates, *rate))
            for k, rate in enumerate(rates)
        ]
        program = wf.jit(wf.cumulative_sum).lower(X).program
        inputs = {program.params[0].name: X}
        setting = Setting(inputs, {}, 1 << 40, 1, mock.Mock(), processors=tuple(processors))
        sizes = dict.fromkeys(program.sizes, N)
        return begun.is_worth_sharing(program.body.statements[-1], program, sizes, setting)

    quick = (2e10, 2e10, 1e12, 1e-5, 1e-4, 2, True, 1e13)
    slow = (1e9, 1e9, 1e12, 1e-5, 1e-4, 2, True, 1e13)
    assert worth(None, None)
    assert worth(quick, quick)
    assert worth(slow, quick)
    assert not worth(quick, slow)
    assert not worth(None, slow)
