"""Division of polynomials."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.sizes import Poly, parse_poly
from weft.sizes.division import content, divide, exact_quotient, factors

monomials = st.lists(st.sampled_from("nmb"), max_size=3).map(lambda names: tuple(sorted(names)))
polys = st.dictionaries(monomials, st.integers(-4, 4), max_size=4).map(Poly)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(polys, polys)
def test_quotient_and_remainder_make_the_dividend(dividend: Poly, divisor: Poly) -> None:
    quotient, rest = divide(dividend, divisor)
    assert quotient * divisor + rest == dividend


@settings(max_examples=300, deadline=None, derandomize=True)
@given(polys, polys)
def test_factors_divide(left: Poly, right: Poly) -> None:
    poly = left * right
    for factor in factors(poly):
        quotient = exact_quotient(poly, factor)
        assert not poly.terms or quotient is not None
        assert quotient is None or quotient * factor == poly


@pytest.mark.parametrize(
    ("dividend", "divisor", "quotient", "rest"),
    [
        ("n*b", "n*b - b", "1", "b"),  # section 3.6.2 of the thesis
        ("b*q + 2", "b*q + 1", "1", "1"),
        ("n + 1", "n*b - b", "0", "n + 1"),
        ("i*b + n*b - b", "b", "i + n - 1", "0"),
        ("7", "3", "2", "1"),
        ("n", "n - b", "1", "b"),
        ("n", "0", "0", "n"),
    ],
)
def test_what_is_divided(dividend: str, divisor: str, quotient: str, rest: str) -> None:
    found = divide(parse_poly(dividend), parse_poly(divisor))
    assert found == (parse_poly(quotient), parse_poly(rest))


def test_contents() -> None:
    assert content(parse_poly("4*n - 6*m")) == 2
    assert content(parse_poly("0")) == 0
    assert factors(parse_poly("6*n*b - 3*b*b")) == [Poly.const(3), Poly.var("b"), parse_poly("3*b")]
