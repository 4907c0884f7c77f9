"""Users' programs mean the same interpreted, compiled in core, streamed, and called again."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from agreement.random_users import UserProgram, arrays, programs
from agreement.ways import assert_equal_bits, compiled, interpreted, streamed
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from programs.agree import assert_agree
from slow import examples

import weft as wf

COMMON: dict[str, Any] = {
    "deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck),
    "phases": (Phase.explicit, Phase.generate),  # shrinking would compile hundreds of programs
}  # fmt: skip


@given(case=programs(), box=st.sampled_from([1, 200, 1 << 20]), small=st.sampled_from([0, 100]))
@settings(max_examples=examples(36), **COMMON)
def test_small_arrays(case: UserProgram, box: int, small: int) -> None:
    with np.errstate(all="ignore"):
        expected = interpreted(case, case.inputs)
        assert_agree(compiled(case, case.inputs), expected, scale=100)
        with tempfile.TemporaryDirectory() as folder:
            found = streamed(case, case.inputs, Path(folder), box, small)
        assert_agree(found, expected, scale=100)


@given(case=programs(large=True), box=st.sampled_from([1000, 77_777, 1 << 20]))
@settings(max_examples=examples(18), **COMMON)
def test_larger_arrays(case: UserProgram, box: int) -> None:
    """Arrays of several grains and vectors; bits do not depend on threads."""
    with np.errstate(all="ignore"):
        expected = interpreted(case, case.inputs)
        found = compiled(case, case.inputs)
        assert_agree(found, expected, scale=2000)
        assert_equal_bits(compiled(case, case.inputs, threads=1), found)
        with tempfile.TemporaryDirectory() as folder:
            boxed = streamed(case, case.inputs, Path(folder), box)
        assert_agree(boxed, expected, scale=2000)


@given(case=programs(), data=st.data())
@settings(max_examples=examples(36), **COMMON)
def test_a_trace_serves_other_sizes(case: UserProgram, data: st.DataObject) -> None:
    """What tracing decided from sizes is checked when a compiled function is called again."""
    extents = {n for array in case.inputs for n in array.shape}
    others = st.sampled_from([2, 3, 4, 5, 6, 8, 11, 12, 16, 20])
    mapped = {n: n if n < 2 else data.draw(others) for n in extents}
    second = [
        data.draw(arrays(tuple(mapped[n] for n in array.shape), array.dtype))
        for array in case.inputs
    ]
    function = wf.jit(lambda *xs: tuple(case(*xs)))
    with np.errstate(all="ignore"), wf.config(interpret_below=0):
        assert_agree(function(*case.inputs), interpreted(case, case.inputs), scale=100)
        try:
            expected = interpreted(case, second)
        except wf.WeftError as refusal:
            try:
                function(*second)
            except type(refusal):
                return
            raise
        assert_agree(function(*second), expected, scale=100)
