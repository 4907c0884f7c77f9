"""Users' programs mean the same interpreted, compiled in core, and streamed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from agreement.random_users import UserProgram, programs
from agreement.ways import compiled, interpreted, streamed
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from programs.agree import assert_agree


@given(case=programs(), box_bytes=st.sampled_from([1, 200, 1 << 20]), small=st.sampled_from([0, 100]))
@settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck),
    phases=(Phase.generate, Phase.shrink),
)
def test_three_ways_agree(case: UserProgram, box_bytes: int, small: int) -> None:
    with np.errstate(all="ignore"):
        expected = interpreted(case, case.inputs)
        assert_agree(compiled(case, case.inputs), expected, scale=100)
        with tempfile.TemporaryDirectory() as folder:
            found = streamed(case, case.inputs, Path(folder), box_bytes, small)
        assert_agree(found, expected, scale=100)
