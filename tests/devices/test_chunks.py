"""Reductions of rows by chunks, on a device that is a processor: the bits of one item alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import assert_equal_bits
from devices.harness import compiled, device, launched, processors_only
from slow import every_second

import weft as wf
from weft.compiler import compile_segment
from weft.lower.gpu.chunks import _ENOUGH, CHUNKS
from weft.lower.reductions import ROWS

pytestmark = processors_only

BLOCK = CHUNKS * ROWS
EXTENTS = [0, 1, ROWS, ROWS + 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + ROWS + 5]


def compose(p: Any, q: Any) -> Any:
    return p[0] * q[0], p[1] * q[0] + q[1]


PROGRAMS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "sum": lambda x: (x.sum(axis=1),),
    "of what is computed": lambda x: (wf.sqrt(wf.sum(wf.exp(-x) * x[:, :1], axis=1)) + 1,),
    "place": lambda x: (wf.argmax(wf.floor(x * 4), axis=1),),
    "composed": lambda x: wf.reduce(compose, (1.0, 0.0), wf.minimum(x, 1), x),
    "of planes": lambda x: (wf.sum(wf.stack([x, x * 2, x - 1], axis=1), axis=(1, 2)),),
}


@pytest.mark.parametrize(
    ("dtype", "name"), every_second(product([np.float32, np.float64], PROGRAMS), several=True)
)
def test_chunks_and_groups_give_the_same_bits(name: str, dtype: type[np.floating]) -> None:
    on = device()
    rng = np.random.default_rng(8)
    function = wf.jit(PROGRAMS[name])
    program = function.lower(rng.random((40, 50)).astype(dtype)).program
    segment = compiled(program)
    for extent in EXTENTS[name in ("place", "of what is computed") :]:
        x = rng.random((_ENOUGH + 1, extent)).astype(dtype)
        kinds, found = launched(on, program, segment, [x], {})
        assert "chunks" in kinds
        assert kinds.isdisjoint({"several", "group", "part"})
        with mock.patch.object(on, "is_processor", False):
            kinds, expected = launched(on, program, segment, [x], {})
        assert "chunks" not in kinds
        assert_equal_bits(found, expected)


def test_few_rows_are_done_by_groups() -> None:
    on = device()
    x = np.random.default_rng(2).random((_ENOUGH, 3 * BLOCK))
    program = wf.jit(lambda a: a.sum(axis=1)).lower(x).program
    segment = compiled(program)
    for rows, expected in ((_ENOUGH, True), (_ENOUGH - 1, False)):
        kinds, _ = launched(on, program, segment, [x[:rows]], {})
        assert ("chunks" in kinds) == expected


def test_what_is_left_to_other_forms() -> None:
    x = np.zeros((40, 50))
    rows = wf.jit(lambda a: a.sum(axis=1)).lower(x).program
    assert "kernel void chunks" in compiled(rows).source
    assert "chunks" not in compile_segment(rows, {}, "", "cuda").source
    columns = wf.jit(lambda a: a.sum(axis=0)).lower(x).program
    assert "kernel void chunks" not in compiled(columns).source  # elements that lie apart
    few = wf.jit(lambda a: a[:, :4].sum(axis=1)).lower(x).program
    assert "kernel void chunks" not in compiled(few).source  # written out
    loops = wf.jit(
        lambda a: wf.map(lambda row: wf.fori_loop(0, 9, lambda _, s: s + row, row).sum(), a)
    ).lower(x).program  # fmt: skip
    assert "kernel void chunks" not in compiled(loops).source  # not straight-line code
