"""Merging neighbouring dimensions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from passes.programs import agree
from passes.unfused import Unfused, expressions, top

from weft.fun import nodes as fun
from weft.fun.check import check
from weft.fun.show import show
from weft.passes.collapse import collapse
from weft.passes.pipeline import Decisions, optimise

Golden = Callable[[str], None]
RNG = np.random.default_rng(0)


def spaces(program: fun.Program) -> list[int]:
    """The number of dimensions of each index space."""
    return [len(let.expr.space) for let in program.body.statements if hasattr(let.expr, "space")]


def test_elementwise(golden: Golden) -> None:
    u = Unfused("n", "m")
    x, y = u.param("x", "n", "m", 3), u.param("y", "n", "m", 3)
    before = optimise(u.program(u.map("exp", u.map("add", x, y))))
    after = collapse(before, {"x", "y"})
    check(after)
    assert spaces(after) == [1]
    agree(before, after, [RNG.random((4, 5, 3)), RNG.random((4, 5, 3))])
    golden(show(after))


def test_strided_parameter_stays() -> None:
    u = Unfused("n", "m")
    x, y = u.param("x", "n", "m"), u.param("y", "n", "m")
    before = optimise(u.program(u.map("add", x, y)))
    assert collapse(before, {"x"}) is before


def test_broadcast_stays() -> None:
    u = Unfused("n", "m")
    x, y = u.param("x", "n", "m"), u.param("y", "m")
    before = optimise(u.program(u.map("add", x, y)))
    assert collapse(before, {"x", "y"}) is before


def test_part_of_the_dimensions() -> None:
    u = Unfused("n", "m", "k")
    x, y = u.param("x", "k", "n", "m"), u.param("y", "n", "m")
    before = optimise(u.program(u.map("add", x, y)))
    after = collapse(before, {"x", "y"})
    check(after)
    assert spaces(after) == [2]
    agree(before, after, [RNG.random((2, 4, 5)), RNG.random((4, 5))])


def test_intermediates_stay_flat() -> None:
    u = Unfused("n", "m")
    x = u.param("x", "n", "m")
    e = u.map("exp", x)
    program = u.program(u.reduce("add", e, [0]), u.map("subtract", e, u.reduce("add", e, [0, 1])))
    after = optimise(program, Decisions(contiguous=frozenset({"x"})))
    check(after)
    kernels = expressions(after, fun.Kernel)
    assert [len(kernel.space) for kernel in kernels] == [1, 1]
    agree(program, after, [RNG.random((4, 5))])


def test_reduced_dimensions_only_when_asked() -> None:
    u = Unfused("n", "m")
    x = u.param("x", "n", "m")
    before = optimise(u.program(u.reduce("add", x, [0, 1])))
    assert collapse(before, {"x"}) is before
    after = collapse(before, {"x"}, reduced=True)
    check(after)
    assert spaces(after) == [1]
    agree(before, after, [RNG.random((4, 5))])


def test_kept_dimensions_of_a_reduction() -> None:
    u = Unfused("n", "m", "k")
    x = u.param("x", "n", "m", "k")
    before = optimise(u.program(u.reduce("add", x, [2])))
    after = collapse(before, {"x"})
    check(after)
    assert spaces(after) == [2]
    assert top(after) == ["Reshape", "Reduce", "Reshape"]
    agree(before, after, [RNG.random((2, 4, 5))])


def test_an_index_used_otherwise_stays() -> None:
    u = Unfused("n", "m")
    x = u.param("x", "n", "m")
    before = optimise(u.program(u.map("multiply", x, u.cast(x.type.dtype, u.arange(u.size("m"))))))
    assert collapse(before, {"x"}) is before
