"""The prover is never wrong, and proves what lowering and planning need."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.sizes import Derived, Fact, Poly, parse_poly
from weft.sizes.prove import Prover

OPERATIONS = ("floordiv", "mod", "min", "max", "pow2floor")
NAMES = ("n", "m", "i", "box.lo")


def prover(text: str = "", ranges: str = "", derived: tuple[Derived, ...] = ()) -> Prover:
    """A prover of facts "p >= 0; q == 0" and index ranges "i < n; j < m" over sizes n, m, k."""
    facts = []
    for fact in filter(None, map(str.strip, text.split(";"))):
        for symbol in (">=", "==", "!="):
            if symbol in fact:
                facts.append(Fact(f"{symbol}0", parse_poly(fact.split(symbol)[0])))  # type: ignore[arg-type]
    found = Prover(facts, sizes=("n", "m", "k", "box0.lo"), derived=derived)
    for index in filter(None, map(str.strip, ranges.split(";"))):
        name, extent = index.split("<")
        found = found.index(name.strip(), parse_poly(extent))
    return found


@pytest.mark.parametrize(
    ("poly", "facts", "ranges"),
    [
        ("n - 2", "", ""),
        ("n*m - 4", "", ""),
        ("n*m - n", "", ""),
        ("box0.lo", "", ""),
        ("n - 1 - i", "", "i < n"),
        ("n*m - 1 - m*i - j", "", "i < n; j < m"),  # a flattened index
        ("n*m*k - 1 - m*k*i - k*j - l", "", "i < n; j < m; l < k"),
        ("n - 2 - i", "", "i < n - 1"),
        ("m - n", "m - n >= 0", ""),
        ("m - i - 1", "m - n >= 0", "i < n"),
        ("k - n", "m - n >= 0; k - m >= 0", ""),
        ("2*m - n", "2*m - n == 0", ""),
        ("i - j", "", "i < n; j < i + 1"),
        ("n - 1 - j", "", "i < n; j < i + 1"),  # a triangle
        ("n - 1 - 2*i", "n - 2*m == 0", "i < m"),
        ("box0.lo - n + 2 + n", "", ""),
        ("n*n - n", "", ""),
    ],
)
def test_proves(poly: str, facts: str, ranges: str) -> None:
    assert prover(facts, ranges).nonnegative(parse_poly(poly))


@pytest.mark.parametrize(
    ("poly", "facts", "ranges"),
    [
        ("n - 3", "", ""),
        ("n - m", "", ""),
        ("x", "", ""),
        ("x*x", "", ""),  # true, but of an unknown integer nothing is proved
        ("box0.lo - 1", "", ""),
        ("n - 2 - i", "", "i < n"),
        ("i - 1", "", "i < n"),
        ("n*m - m*i - j - 2", "", "i < n; j < m"),
    ],
)
def test_does_not_prove(poly: str, facts: str, ranges: str) -> None:
    assert not prover(facts, ranges).nonnegative(parse_poly(poly))


TILES = (
    Derived("t", "max", Poly.var("k") - 3, parse_poly("1")),
    Derived("tiles", "floordiv", parse_poly("n + t - 1"), Poly.var("t")),
)


def test_quotients_by_sizes() -> None:
    """The last of the tiles that cover an extent begins inside it."""
    known = prover("tiles - box0.lo - 1 >= 0", derived=TILES)
    assert known.nonnegative(parse_poly("n - t*tiles + t - 1"))
    assert known.nonnegative(parse_poly("n - t*box0.lo - 1"))
    assert not known.nonnegative(parse_poly("n - t*box0.lo - 2"))
    assert not known.nonnegative(parse_poly("n - t*box0.lo - t"))
    maybe_zero = Derived("t", "mod", parse_poly("n"), parse_poly("2"))
    unknown = prover("tiles - box0.lo - 1 >= 0", derived=(maybe_zero, TILES[1]))
    assert not unknown.nonnegative(parse_poly("n - t*box0.lo - 1"))


def test_relations() -> None:
    known = prover("n - m == 0; k - n - 1 >= 0")
    n, m, k = map(Poly.var, "nmk")
    assert known.equal(n, m)
    assert known.equal(n * k, m * k)
    assert not known.equal(n, k)
    assert known.less(m, k)
    assert known.less_equal(m + 1, k)
    assert not known.less_equal(k, m)
    assert known.nonzero(n)
    assert not known.nonzero(n - 2)
    assert known.positive(n)
    assert known.zero(n - m)


def test_equality_by_two_inequalities() -> None:
    assert prover("n - m >= 0; m - n >= 0").equal(Poly.var("n"), Poly.var("m"))


def test_divides() -> None:
    n, m = Poly.var("n"), Poly.var("m")
    known = Prover([Fact("divides", n, 8), Fact("==0", m - 2 * n)], sizes=("n", "m"))
    assert known.divides(4, n)
    assert known.divides(4, n + 4)
    assert known.divides(2, m)
    assert not known.divides(3, n)
    assert not known.divides(16, n)


def test_integers_between() -> None:
    """Bounds are rounded to integers, and factors that a constant lacks exclude 0."""
    known = prover("2*i - 1 >= 0; 3*j + 2 == 0; x + y != 0")
    assert known.positive(Poly.var("i"))
    assert not known.positive(Poly.var("i") - 1)
    assert known.nonzero(parse_poly("2*x - 4*y + 1"))
    assert not known.nonzero(parse_poly("2*x - 4*y + 2"))
    assert known.nonzero(parse_poly("x + y"))
    assert known.nonzero(parse_poly("-x - y"))
    assert not known.nonzero(parse_poly("x - y"))
    assert prover("2*i - 2*n == 0").equal(Poly.var("i"), Poly.var("n"))


def test_products_with_symbolic_bounds() -> None:
    """What disjointness of blocks asks about."""
    known = prover("n - q*b - 1 == 0; q - 2 >= 0; b - 2 >= 0; q - i - 1 >= 0; i >= 0")
    assert known.positive(parse_poly("n*b - b - b*b - b"))
    assert known.positive(parse_poly("n - 2*b"))
    assert known.nonnegative(parse_poly("q*b - i*b - b"))
    assert known.nonnegative(parse_poly("q*b*n - i*b*n - b*n"))
    assert not known.nonnegative(parse_poly("q*b - i*b - b - 1"))
    assert known.equal(parse_poly("n*n - n"), parse_poly("n*q*b"))


def test_derived_sizes_round_as_python_does() -> None:
    n = Poly.var("n")
    half = Derived("half", "floordiv", n + 1, Poly.const(2))
    rest = Derived("rest", "mod", n, Poly.const(8))
    known = prover(derived=(half, rest))
    assert known.nonnegative(parse_poly("half - 1"))
    assert known.nonnegative(parse_poly("half*m"))
    assert known.nonnegative(parse_poly("n - half"))
    assert known.nonnegative(parse_poly("2*half - n"))
    assert known.nonnegative(parse_poly("7 - rest"))
    assert not known.nonnegative(parse_poly("half - 2"))
    small = Derived("small", "min", n, Poly.var("m"))
    assert prover(derived=(small,)).nonnegative(parse_poly("m - small"))


def test_assuming_leaves_the_old_prover_alone() -> None:
    known = prover()
    more = known.assuming(Fact(">=0", parse_poly("n - m")))
    assert more.nonnegative(parse_poly("n - m"))
    assert not known.nonnegative(parse_poly("n - m"))


def test_what_was_found_within_a_range_is_kept() -> None:
    known, i, n = Prover(sizes=("n",)), Poly.var("i"), Poly.var("n")
    inside = known.within("i", 0, n - 1)
    assert inside.less(i, n)
    assert known.within("i", Poly.const(0), n - 1) is inside
    assert known.index("i", n) is inside
    assert known.within("i", 0, n) is not inside
    assert not known.within("i", 0, n).less(i, n)
    assert not known.less(i, n)


monomials = st.lists(st.sampled_from(NAMES), max_size=2).map(lambda names: tuple(sorted(names)))
polys = st.dictionaries(monomials, st.integers(-3, 3), max_size=4).map(Poly)
linear = st.dictionaries(
    st.sampled_from([(), *((name,) for name in NAMES)]), st.integers(-3, 3), max_size=3
).map(Poly)
facts = st.lists(st.builds(Fact, st.sampled_from([">=0", "==0", "!=0"]), linear), max_size=3)
ALL = [
    dict(zip(NAMES, values, strict=True))
    for values in itertools.product(range(2, 7), range(2, 7), range(-3, 8), range(5))
]


@settings(max_examples=400, deadline=None, derandomize=True)
@given(polys, facts, linear)
def test_never_wrong(poly: Poly, known: list[Fact], extent: Poly) -> None:
    """What is proved holds at every point of a box where the facts hold."""
    extent = extent.substitute({"i": 2})
    asked = Prover(known, sizes=("n", "m", "box.lo")).index("i", extent)
    nonnegative, zero, nonzero = asked.nonnegative(poly), asked.zero(poly), asked.nonzero(poly)
    if not (nonnegative or zero or nonzero):
        return
    for values in ALL:
        if not 0 <= values["i"] < extent.evaluate(values):
            continue
        if all(fact.holds(values) for fact in known):
            value = poly.evaluate(values)
            assert not nonnegative or value >= 0, values
            assert not zero or value == 0, values
            assert not nonzero or value != 0, values


multiples = st.builds(Fact, st.just("divides"), linear, st.integers(2, 6))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(polys, st.integers(2, 6), st.lists(multiples, max_size=2), facts)
def test_never_wrong_of_divisibility(
    poly: Poly, divisor: int, divides: list[Fact], known: list[Fact]
) -> None:
    asked = Prover([*divides, *known], sizes=("n", "m", "box.lo"))
    if asked.divides(divisor, poly):
        for values in ALL:
            if all(fact.holds(values) for fact in (*divides, *known)):
                assert poly.evaluate(values) % divisor == 0, values


@settings(max_examples=200, deadline=None, derandomize=True)
@given(polys, polys, polys)
def test_never_wrong_of_products_with_symbolic_bounds(
    poly: Poly, extent: Poly, factor: Poly
) -> None:
    """An index below a product, times a polynomial."""
    extent = extent.substitute({"i": 3, "box.lo": 1})
    asked = Prover(sizes=("n", "m", "box.lo")).index("i", extent)
    question = poly * factor
    nonnegative, nonzero = asked.nonnegative(question), asked.nonzero(question)
    for values in ALL:
        if 0 <= values["i"] < extent.evaluate(values):
            assert not nonnegative or question.evaluate(values) >= 0, values
            assert not nonzero or question.evaluate(values) != 0, values


@settings(max_examples=200, deadline=None, derandomize=True)
@given(polys, st.integers(0, 30), st.integers(1, 4), st.sampled_from(OPERATIONS))
def test_never_wrong_of_derived_sizes(poly: Poly, n: int, divisor: int, operation: str) -> None:
    poly = poly.substitute({"i": Poly.var("d")})
    right = Poly.const(divisor) if operation in ("floordiv", "mod") else Poly.var("m")
    size = Derived("d", operation, Poly.var("n") - 5, right)  # type: ignore[arg-type]
    if Prover(sizes=("n", "m", "box.lo"), derived=(size,)).nonnegative(poly):
        for m, low in itertools.product(range(2, 6), range(3)):
            values = {"n": n + 2, "m": m, "box.lo": low}
            assert poly.evaluate({**values, "d": size.evaluate(values)}) >= 0
