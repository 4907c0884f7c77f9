"""The printed FUNMEM of a few programs: where arrays lie, and what is copied."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mem.programs import CASES

from weft.mem.introduce import introduce
from weft.mem.merge_blocks import merge_blocks
from weft.mem.short_circuit import short_circuit
from weft.mem.show import show

NAMES = ["softmax", "transposed_result", "stencil_loop", "cumulative", "updates", "chain", "maps"]


@pytest.mark.parametrize("name", NAMES)
def test_funmem(name: str, golden: Callable[[str], None]) -> None:
    golden(show(merge_blocks(short_circuit(introduce(CASES[name]()[0])))))
