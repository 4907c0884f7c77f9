"""Operations that keep an LMAD's set of elements, and aggregation over loops."""

from __future__ import annotations

from lmad.oracle import elements
from lmad.test_overlap import lmad, prover

from weft.lmad import Lmad
from weft.lmad.sets import (
    contains,
    cover,
    expand,
    is_injective,
    join,
    normalise,
    size,
    split,
)
from weft.sizes import ONE, Poly, as_poly, parse_poly
from weft.sizes.prove import Prover

N = Poly.var("n")


def test_normalisation_of_the_thesis() -> None:
    """The example of section 3.5.1; its procedure 3.3 has another offset, which is a slip."""
    assert normalise(lmad("16", ("4", "-1"), ("8", "4")), Prover()) == lmad(
        "13", ("8", "4"), ("4", "1")
    )


def test_normalisation_of_symbolic_strides() -> None:
    known = prover("n >= m + 1; m >= 1")
    found = normalise(lmad("0", ("m", "-m"), ("1", "k"), ("n", "n")), known)
    assert found == lmad("m - m*m", ("n", "n"), ("m", "m"))
    assert normalise(lmad("0", ("m", "m"), ("n", "k")), known) is None  # of unknown sign
    assert normalise(lmad("0", ("m", "k"), ("n", "m")), prover("m >= 1; k >= 1")) is None
    assert normalise(lmad("3", ("m", "0")), known) == lmad("3")
    assert normalise(lmad("3", ("k", "0")), known) is None  # perhaps empty


def test_join_and_split_undo_each_other() -> None:
    wide = lmad("3", ("20", "10"), ("10", "1"))
    assert join(wide, 0) == lmad("3", ("200", "1"))
    assert split(lmad("3", ("200", "1")), 0, as_poly(10)) == wide
    assert join(lmad("0", ("n", "m*k"), ("m", "k")), 0) == lmad("0", ("n*m", "k"))
    assert split(lmad("0", ("n*m", "k")), 0, parse_poly("m")) == lmad("0", ("n", "m*k"), ("m", "k"))
    assert join(lmad("0", ("n", "m"), ("n", "1")), 0) is None
    assert split(lmad("0", ("n + 1", "1")), 0, as_poly(2)) is None


def test_expansion() -> None:
    row = lmad("i*n + 2", ("n", "1"))
    assert expand(row, "i", as_poly(3), Poly.var("q")) == lmad("3*n + 2", ("q", "n"), ("n", "1"))
    assert expand(lmad("0", ("i", "1")), "i", as_poly(0), N) is None
    assert expand(lmad("0", ("n", "i")), "i", as_poly(0), N) is None
    assert expand(lmad("i*i"), "i", as_poly(0), N) is None
    # Of no iterations the union is empty.
    none = expand(lmad("7"), "i", as_poly(0), N)
    assert none is not None
    assert elements(none, {"n": 0}) == 0


def test_covers() -> None:
    known = prover("n >= 1; q >= 1; s >= 1")
    assert cover(lmad("0", ("i + 1", "s")), "i", as_poly(0), Poly.var("q"), known) == lmad(
        "0", ("q", "0"), ("q", "s")
    )
    ends = cover(lmad("i", ("n - i", "1")), "i", as_poly(0), N, known)
    assert ends == lmad("n - 1", ("n", "0"), ("n", "-1"))
    assert cover(lmad("0", ("n", "i")), "i", as_poly(0), N, known) is None  # strides
    assert cover(lmad("0", ("i*i", "1")), "i", as_poly(0), N, known) is None


def test_questions() -> None:
    known = prover("n >= 1; m >= 1")
    rows = Lmad.row_major((N, Poly.var("m")))
    assert size(rows) == parse_poly("n*m")
    assert contains(rows, parse_poly("n*m - 1"), known).answer == "yes"
    assert contains(rows, parse_poly("n*m"), known).answer == "no"
    assert contains(rows, parse_poly("m"), known).answer == "unknown"
    assert is_injective(rows, known)
    assert is_injective(Lmad.column_major((N, Poly.var("m"))), known)
    assert not is_injective(lmad("0", ("n", "1"), ("m", "1")), known)
    assert not is_injective(lmad("0", ("n", "0")), known)
    assert is_injective(Lmad(N, ((ONE, N * 0),)), known)


def test_the_blocks_of_needleman_wunsch_meet_no_element_twice() -> None:
    known = prover("n = q*b + 1; q >= 2; b >= 2; q >= i + 1; i >= 0")
    assert is_injective(lmad("i*b + n + 1", ("i + 1", "n*b - b"), ("b", "n"), ("b", "1")), known)
