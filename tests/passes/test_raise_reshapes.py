"""Reshapes move before the kernels whose results they reshape."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from passes.programs import agree
from passes.unfused import Unfused, top

from weft.fun.check import check
from weft.fun.show import show
from weft.passes.pipeline import optimise
from weft.passes.raise_reshapes import raise_reshapes

Golden = Callable[[str], None]
RNG = np.random.default_rng(0)


def test_ravel_of_a_chain(golden: Golden) -> None:
    u = Unfused("n", "m")
    x, y = u.param("x", "n", "m"), u.param("y", "n", "m")
    n, m = u.size("n"), u.size("m")
    flat = u.reshape(u.map("exp", u.map("multiply", x, y)), n * m)
    before = u.program(u.reduce("add", flat, [0]))
    after = optimise(before)
    check(after)
    assert top(after) == ["Reshape", "Reshape", "Reduce"]
    agree(before, after, [RNG.random((3, 4)), RNG.random((3, 4))])
    golden(show(after))


def test_scalar_operands_stay() -> None:
    u = Unfused("n", "m")
    x, s = u.param("x", "n", "m"), u.param("s")
    flat = u.reshape(u.map("multiply", x, s), u.size("n") * u.size("m"))
    before = u.program(u.scan("add", flat))
    after = optimise(before)
    check(after)
    assert top(after) == ["Reshape", "Scan"]
    agree(before, after, [RNG.random((3, 4)), np.float64(3)])


def test_broadcast_operands_prevent_it() -> None:
    u = Unfused("n", "m")
    x, y = u.param("x", "n", "m"), u.param("y", "m")
    before = u.program(u.reshape(u.map("add", x, y), u.size("n") * u.size("m")))
    assert raise_reshapes(before) is before


def test_a_second_use_prevents_it() -> None:
    u = Unfused("n", "m")
    x = u.param("x", "n", "m")
    e = u.map("exp", x)
    before = u.program(u.reshape(e, u.size("n") * u.size("m")), e)
    assert raise_reshapes(before) is before
