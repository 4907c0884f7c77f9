"""Bounds of extents that vary at run time, against the largest value that they take."""

from __future__ import annotations

from itertools import product

import pytest

from weft.errors import ShapeError
from weft.fun import nodes as fun
from weft.mem.bound import Bounds
from weft.ops.dtypes import DType
from weft.sizes import ZERO, Size
from weft.sizes.poly import parse_poly

SHAPES = {
    "growing": "k + 1",
    "shrinking": "n - k - 1",
    "a square that shrinks": "n - k - 1, n - k - 1",
    "growing and shrinking": "k + 1, n - k",
    "of an inner loop": "k - l, l + 1",
    "blocks": "n - k - 1, 4, n - k - 1, 4",
    "with a factor of either sign": "n*k - k + 1",
}


def shape(text: str) -> tuple[Size, ...]:
    return tuple(map(parse_poly, text.split(",")))


@pytest.mark.parametrize("name", SHAPES)
def test_arrays_fit_their_bounds_in_every_round(name: str) -> None:
    extents = shape(SHAPES[name])
    bounds = Bounds(["n"])
    bounds.index("k", ZERO, parse_poly("n"))
    bounds.index("l", ZERO, parse_poly("k"))
    bound = bounds.elements(extents)
    assert bound.variables() <= {"n"}
    for n in range(12):
        assert bound.evaluate({"n": n}) >= 0  # where the loop does no round, too
        for k, inner in product(range(n), repeat=2):
            if inner < k:
                values = {"n": n, "k": k, "l": inner}
                count = 1
                for extent in extents:
                    count *= extent.evaluate(values)
                assert count <= bound.evaluate({"n": n})


def test_a_length_clamped_to_nothing_has_the_bound_of_what_it_was() -> None:
    bounds = Bounds(["n"])
    bounds.index("k", ZERO, parse_poly("n"))
    i64 = fun.Scalar(DType.I64)
    bounds.define("s", fun.SizeValue(parse_poly("2*k - n")))
    bounds.define("t", fun.Apply("maximum", (fun.Var("s", i64), fun.Const(0, DType.I64))))
    bound = bounds.elements((parse_poly("t"),))
    for n in range(9):
        assert bound.evaluate({"n": n}) >= max([0, *(2 * k - n for k in range(n))])


def test_an_extent_of_which_nothing_is_known_is_refused() -> None:
    with pytest.raises(ShapeError, match="no bound of the extent t"):
        Bounds(["n"]).elements(shape("t, n"))
