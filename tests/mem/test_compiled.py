"""The hand-built programs compiled, with blocks reused: what `If`, `Loop`, updates and
arrays inside kernels become in C agrees with the interpreter."""

from __future__ import annotations

import pytest
from lower.harness import agree
from mem.programs import CASES
from mem.test_introduce import sizes_of


@pytest.mark.parametrize("name", CASES)
def test_compiled(name: str) -> None:
    program, arguments = CASES[name]()
    agree(program, arguments, rtol=1e-12, **sizes_of(name))
