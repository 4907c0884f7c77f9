"""Along which axes fission cuts each operator, and that every cut there leaves its meaning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from unittest import mock

import numpy as np
import pytest
from programs.agree import assert_agree

from weft.fun import nodes as fun
from weft.fun import operators, walk
from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.fun.show import show
from weft.passes.fission import Split, fission, splits
from weft.sizes import Poly, as_poly

Golden = Callable[[str], None]
RNG = np.random.default_rng(47)

ADD = "with (x: f64, y: f64) { let z: f64 = add(x, y) in z }"

# These are associative, and 0.0 is neutral, but they do not commute.
FIRST = """with (x: f64, y: f64) {
  let c: bool = not_equal(x, 0.0)
  let z: f64 = where(c, x, y)
  in z
}"""
LAST = FIRST.replace("not_equal(x", "equal(y")


def reduce(operator: str, extents: str = "i < n, j < m") -> str:
    return f"""program p(a: f64[n, m]) sizes n, m {{
      let r: f64 = reduce (; {extents}) from 0.0 {{
        let v: f64 = a[i, j]
        in v
      }} {operator}
      in r
    }}"""


def rows(operator: str) -> str:
    return f"""program p(a: f64[n, m]) sizes n, m {{
      let r: f64[m] = reduce (k < m; i < n, j < m) from 0.0 {{
        let v: f64 = a[i, j]
        let w: f64 = a[i, k]
        let u: f64 = multiply(v, w)
        in u
      }} {operator}
      in r
    }}"""


def scatter(operator: str, extents: str = "i < n, j < m") -> str:
    return f"""program p(a: f64[n, m], d: f64[n]) sizes n, m {{
      let r: f64[n] = scatter d over ({extents}) {{
        let v: f64 = a[i, j]
        let p: i64 = size i + j
        let q: i64 = size n
        let w: i64 = remainder(p, q)
        in w, v
      }} {operator}
      in r
    }}"""


def join(arrays: str, extent: str, axis: int) -> str:
    shape = [extent, "m"] if axis == 0 else ["n", extent]
    return f"""program p(a: f64[n, m], b: f64[n, m]) sizes n, m {{
      let r: f64[{", ".join(shape)}] = concat {axis} ({arrays})
      in r
    }}"""


def reshape(shape: str, array: str = "n, m", sizes: str = "n, m") -> str:
    return f"""program p(a: f64[{array}]) sizes {sizes} {{
      let r: f64[{shape}] = reshape a ({shape})
      in r
    }}"""


FILL = """program p(a: f64[n, m]) sizes n, m {
  let r: f64[n, m] = update a[0 for n, 1 for m - 1] = 7.0
  in r
}"""

PROGRAMS: dict[str, tuple[str, set[int]]] = {
    "reduce": (reduce(ADD), {0, 1}),
    "reduce in order": (reduce(FIRST), {0}),
    "reduce in order, one row": (reduce(LAST, "i < 1, j < m"), {1}),
    "reduce rows": (rows(ADD), {0, 1, 2}),
    "reduce rows in order": (rows(LAST), {0, 1}),
    "scatter": (scatter(ADD), {0, 1}),
    "scatter in order": (scatter(FIRST), {0}),
    "scatter, last wins": (scatter(""), {0}),
    "scatter, last wins, one row": (scatter("", "i < 1, j < m"), {1}),
    "reshape": (reshape("m, n"), {0, 1}),
    "reshape with a new axis": (reshape("n, 1, m"), {0, 2}),
    "reshape of rank 3": (reshape("m, 2, h", "2*h, m", "m, h"), {0, 1, 2}),
    "concat of two": (join("a, b", "2*n", 0), {1}),
    "concat of three": (join("a, b, a", "3*n", 0), {0, 1}),
    "concat of four columns": (join("b, a, a, b", "4*m", 1), {0, 1}),
    "concat of one": (join("a, a, a", "3*n", 0), {0, 1}),
    "update by a scalar": (FILL, {0, 1}),
}
SIZES = [{"n": n, "m": m, "h": 3} for n, m in product((1, 2, 4), (1, 2, 5))]


def shared(program: fun.Program) -> fun.Program:
    """With one object for each parameter, wherever it is used, as in programs that are traced."""
    return replace(
        program, body=walk.Substitution({p.name: p for p in program.params}).body(program.body)
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_cut_along_every_axis(name: str) -> None:
    text, axes = PROGRAMS[name]
    program = shared(parse(text))
    params = {param.name for param in program.params}
    places = [split for split in splits(program) if split.target not in params]
    assert {split.axis for split in places} == axes
    for sizes in SIZES:
        known = {name: sizes[name] for name in program.sizes}
        shapes = [[s.evaluate(known) for s in walk.type_sizes(p.type)] for p in program.params]
        arguments = tuple(RNG.integers(-9, 9, shape).astype(float) for shape in shapes)
        expected = interpret(program, arguments, known)
        for split in places:
            cuts = [None, *map(as_poly, range(split.extent.evaluate(known) + 1)), split.extent]
            for at in cuts:
                parted = fission(program, split, at)
                check(parted, after="fission")
                assert_agree(interpret(parted, arguments, known), expected)


def test_joins_of_two_are_cut_where_it_is_asked() -> None:
    """They are two parts already; another cut moves where these end."""
    program = parse(PROGRAMS["concat of two"][0])
    sizes = {"n": 3, "m": 2}
    arguments = tuple(RNG.random((3, 2)) for _ in range(2))
    place = Split("r", 0, Poly.var("n") * 2)
    for at in range(7):
        parted = fission(program, place, as_poly(at))
        check(parted, after="fission")
        assert_agree(interpret(parted, arguments, sizes), interpret(program, arguments, sizes))


@pytest.mark.parametrize("name", ["reduce in order", "scatter in order"])
def test_what_does_not_commute_differs_where_it_is_exchanged(name: str) -> None:
    """The condition is one: without it, the rules give something else."""
    text, _ = PROGRAMS[name]
    program, sizes = parse(text), {"n": 3, "m": 3}
    numbers = RNG.random((3, 3))
    numbers[0, 0] = 0  # so that the first is not that of either order
    arguments = (numbers, np.zeros(3))[: len(program.params)]
    everything = {"is_commutative": lambda _: True, "is_componentwise": lambda _: True}
    with mock.patch.multiple(operators, **everything):
        (split,) = (s for s in splits(program) if s.target == "r" and s.axis == 1)
        parted = fission(program, split, as_poly(1))
    found, expected = interpret(parted, arguments, sizes), interpret(program, arguments, sizes)
    assert not np.array_equal(found[0], expected[0])


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n.startswith(("reshape", "concat"))])
def test_layouts_stay_views(name: str) -> None:
    """Nothing is computed or copied but what joins the parts."""
    program = parse(PROGRAMS[name][0])
    for split in splits(program):
        for at in (None, as_poly(1)):
            made = [let.expr for let in fission(program, split, at).body.statements]
            assert all(isinstance(expr, (*fun.LAYOUT_CHANGES, fun.Concat)) for expr in made)


GOLDENS = [
    ("reduce", 1, None), ("scatter", 1, None), ("reshape", 1, None),
    ("concat of three", 0, None), ("concat of three", 0, 1), ("update by a scalar", 1, None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "axis", "at"), GOLDENS)
def test_golden(name: str, axis: int, at: int | None, golden: Golden) -> None:
    program = parse(PROGRAMS[name][0])
    (split,) = (s for s in splits(program) if s.target == "r" and s.axis == axis)
    golden(show(fission(program, split, None if at is None else as_poly(at))))
