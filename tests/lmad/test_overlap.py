"""Overlap of LMADs with symbolic sizes."""

from __future__ import annotations

import itertools
import time

import pytest

from weft.lmad import Lmad
from weft.lmad.overlap import overlap
from weft.sizes import Fact, parse_poly
from weft.sizes.prove import Prover


def lmad(offset: str, *dims: tuple[str, str]) -> Lmad:
    return Lmad(parse_poly(offset), tuple((parse_poly(n), parse_poly(s)) for n, s in dims))


def prover(text: str) -> Prover:
    """A prover of facts "n = q*b + 1; q >= 2"."""
    facts = []
    for fact in text.split(";"):
        symbol = ">=" if ">=" in fact else "="
        left, right = fact.split(symbol)
        relation = "==0" if symbol == "=" else ">=0"
        facts.append(Fact(relation, parse_poly(left.strip()) - parse_poly(right.strip())))  # type: ignore[arg-type]
    return Prover(facts)


NW = prover("n = q*b + 1; q >= 2; b >= 2; i >= 1")
NW_WRITES = lmad("i*b + n + 1", ("i + 1", "n*b - b"), ("b", "n"), ("b", "1"))
NW_READS = {
    "left and above": lmad("i*b", ("i + 1", "n*b - b"), ("b + 1", "n")),
    "above": lmad("i*b + 1", ("i + 1", "n*b - b"), ("b", "1")),
}


@pytest.mark.parametrize("reads", NW_READS)
def test_needleman_wunsch_writes_no_element_that_it_reads(reads: str) -> None:
    verdict = overlap(NW_WRITES, NW_READS[reads], NW)
    assert verdict.answer == "no", verdict
    assert overlap(NW_READS[reads], NW_WRITES, NW).answer == "no"


def test_needleman_wunsch_with_one_more_column_overlaps() -> None:
    wider = lmad("i*b", ("i + 1", "n*b - b"), ("b + 1", "n"), ("2", "1"))
    assert overlap(NW_WRITES, wider, NW).answer != "no"


# Blocked LU decomposition at step k of q*b rows: blocks of b by b of a flat matrix.
LUD = prover("n = q*b; q >= k + 1; k >= 0; b >= 1")
LUD_PARTS = {
    "diagonal": lmad("k*b*n + k*b", ("b", "n"), ("b", "1")),
    "row": lmad("k*b*n + k*b + b", ("q - k - 1", "b"), ("b", "n"), ("b", "1")),
    "column": lmad("k*b*n + b*n + k*b", ("q - k - 1", "b*n"), ("b", "n"), ("b", "1")),
    "inner": lmad(
        "k*b*n + b*n + k*b + b", ("q - k - 1", "b*n"), ("q - k - 1", "b"), ("b", "n"), ("b", "1")
    ),
}


@pytest.mark.parametrize("pair", list(itertools.combinations(LUD_PARTS, 2)), ids="-".join)
def test_parts_of_a_step_of_lu_decomposition_are_disjoint(pair: tuple[str, str]) -> None:
    left, right = (LUD_PARTS[name] for name in pair)
    assert overlap(left, right, LUD).answer == "no"
    assert overlap(right, left, LUD).answer == "no"


@pytest.mark.parametrize("part", LUD_PARTS)
def test_each_part_meets_itself_where_it_is_not_empty(part: str) -> None:
    lmad_ = LUD_PARTS[part]
    assert overlap(lmad_, lmad_, LUD.assuming(Fact(">=0", parse_poly("q - k - 2")))).answer == "yes"
    assert overlap(lmad_, lmad_, LUD).answer == ("yes" if part == "diagonal" else "unknown")


def test_what_one_block_of_lu_decomposition_writes_no_other_one_uses() -> None:
    """Block (i, j) of the inner ones, against all (i, l) with l < j, and with l > j."""
    known = prover("n = q*b; b >= 1; i >= 0; j >= 0; k >= 0; q - k - 2 >= i; q - k - 2 >= j")
    at = "k*b*n + b*n + k*b + b + i*b*n"
    mine = lmad(f"{at} + j*b", ("b", "n"), ("b", "1"))
    before = lmad(at, ("j", "b"), ("b", "n"), ("b", "1"))
    after = lmad(f"{at} + j*b + b", ("q - k - 2 - j", "b"), ("b", "n"), ("b", "1"))
    rows_above = lmad("k*b*n + b*n + k*b + b", ("i*b", "n"), ("q*b - k*b - b", "1"))
    for others in (before, after, rows_above):
        assert overlap(mine, others, known).answer == "no"


@pytest.mark.parametrize("reads", NW_READS)
def test_what_one_block_of_needleman_wunsch_writes_no_other_one_reads(reads: str) -> None:
    """Block j of the anti-diagonal, against all blocks before it and all after it (listing 6.2)."""
    known = prover("n = q*b + 1; q >= 2; b >= 2; i >= j; j >= 0; q >= i + 1")
    mine = lmad("i*b + n + 1 + j*n*b - j*b", ("b", "n"), ("b", "1"))
    all_reads = NW_READS[reads]
    _, *block = all_reads.dims
    step = parse_poly("n*b - b")
    before = Lmad(all_reads.offset, ((parse_poly("j"), step), *block))
    start = all_reads.offset + parse_poly("j + 1") * step
    after = Lmad(start, ((parse_poly("i - j"), step), *block))
    assert overlap(mine, before, known).answer == "no"
    assert overlap(mine, after, known).answer == "no"


def test_the_diagonal_of_listing_6_2() -> None:
    """Element 9 + 9*i against those of the iterations before, and of those after."""
    known = prover("i >= 0; 9 >= i")
    mine = lmad("9*i + 9")
    assert overlap(mine, lmad("9", ("i", "9")), known).answer == "no"
    assert overlap(mine, lmad("9*i + 18", ("9 - i", "9")), known).answer == "no"
    assert overlap(mine, lmad("9", ("10", "9")), known).answer == "yes"


def test_proofs_take_milliseconds() -> None:
    """Each is to take less than 0.1 s; the best of a few runs, for a busy machine."""
    questions = [(NW_WRITES, reads, NW) for reads in NW_READS.values()]
    questions += [(a, b, LUD) for a, b in itertools.combinations(LUD_PARTS.values(), 2)]
    for left, right, known in questions:
        times = []
        for _ in range(5):
            fresh = known.assuming()
            start = time.perf_counter()
            overlap(left, right, fresh)
            times.append(time.perf_counter() - start)
        assert min(times) < 0.1, (left, right)


def test_the_argument_of_needleman_wunsch() -> None:
    """The differences of section 3.6.3, where n is q*b + 1."""
    lines = overlap(NW_WRITES, NW_READS["left and above"], NW).argument.splitlines()
    assert lines[1:] == [
        "b*q + 2 + [-i, i]*(b*b*q) + [-b, b - 1]*(b*q + 1) + [0, b - 1]*(1) != 0: "
        "-b*b*q + [-i, i]*(b*b*q) is a multiple of b*b*q, here -2*b*b*q or -b*b*q",
        "  -b*b*q + b*q + 2 + [-b, b - 1]*(b*q + 1) + [0, b - 1]*(1) != 0: "
        "b + 1 + [0, b - 1]*(1) is no multiple of b*q + 1",
        "  b*q + 2 + [-b, b - 1]*(b*q + 1) + [0, b - 1]*(1) != 0: "
        "1 + [0, b - 1]*(1) is no multiple of b*q + 1",
    ]


@pytest.mark.parametrize(
    ("left", "right", "facts", "answer"),
    [
        # One dimension: ranges (the last element is offset + (extent - 1) * stride), and gcd.
        (lmad("0", ("n", "2")), lmad("2*n", ("n", "2")), "n >= 1", "no"),
        (lmad("0", ("n", "2")), lmad("2*n - 2", ("n", "2")), "n >= 1", "yes"),
        (lmad("0", ("n", "2")), lmad("1", ("n", "4")), "n >= 1", "no"),
        (lmad("0", ("n", "4")), lmad("2", ("n", "6")), "n >= 1", "unknown"),
        (lmad("3", ("n", "s")), lmad("s + 4", ("n", "s")), "s >= 2; n >= 1", "no"),
        (lmad("3", ("n", "2*s")), lmad("s + 3", ("n", "4*s")), "s >= 1; n >= 1", "no"),
        # Columns: less than a stride apart, whatever that is.
        (lmad("2", ("n", "s")), lmad("0", ("m", "s")), "s >= 3", "no"),
        (lmad("k*s + 1"), lmad("0", ("m", "s")), "s >= 2; k >= 0", "no"),
        (lmad("2", ("n", "s")), lmad("0", ("m", "s")), "s >= 2; n >= 1; m >= 2", "unknown"),
        (lmad("2", ("n", "s")), lmad("0", ("m", "s")), "n >= 1; m >= 1", "unknown"),
        (lmad("2", ("n", "s")), lmad("0", ("m", "s + 1")), "s >= 3; n >= 1; m >= 3", "unknown"),
        # Negative strides, of which the first element is the greatest.
        (lmad("n - 1", ("n", "-1")), lmad("n", ("n", "1")), "n >= 1", "no"),
        (lmad("n", ("n", "-1")), lmad("0", ("1", "1")), "n >= 1", "no"),
        (lmad("n", ("n", "-1")), lmad("1", ("1", "1")), "n >= 1", "yes"),
        # Strides of unknown sign: by cases.
        (lmad("0", ("2", "s")), lmad("1", ("m", "2*s")), "m >= 1", "unknown"),
        (lmad("0", ("m", "2*s")), lmad("1", ("m", "4*s")), "m >= 1", "no"),
        # What may be empty is disjoint where it is empty, and never proved to meet.
        (lmad("0", ("n", "1")), lmad("0", ("n", "1")), "n >= 0", "unknown"),
        (lmad("0", ("n", "1")), lmad("0", ("n", "1")), "n >= 1", "yes"),
        (lmad("0", ("n - n", "1")), lmad("0", ("n", "1")), "n >= 1", "no"),
        (lmad("5", ("n", "1")), lmad("0", ("5", "1"), ("m", "0")), "n >= 0", "no"),
        # A row against a column that begins below it; a triangle against its mirror image.
        (lmad("i*n", ("n", "1")), lmad("i*n + n", ("m", "n")), "n >= 1; i >= 0", "no"),
        (lmad("i*n", ("i", "1")), lmad("i*n + i", ("n - i", "1")), "n >= i + 1; i >= 0", "no"),
        (lmad("i*n", ("i + 1", "1")), lmad("i*n + i", ("n - i", "1")), "n >= i + 1; i >= 0", "yes"),
        # Points.
        (lmad("2*i"), lmad("2*j + 1"), "i >= 0", "no"),
        (lmad("i"), lmad("j"), "i >= j + 1", "no"),
        (lmad("i"), lmad("j"), "i >= j", "unknown"),
    ],
)  # fmt: skip
def test_small_cases(left: Lmad, right: Lmad, facts: str, answer: str) -> None:
    verdict = overlap(left, right, prover(facts))
    assert verdict.answer == answer, verdict
    assert overlap(right, left, prover(facts)).answer == answer
    assert verdict.argument


PATTERNS = {
    "a column, those before": (
        lmad("i", ("m", "n")), lmad("0", ("i", "1"), ("m", "n")), "n >= i + 1; i >= 0"),
    "a column, those after": (
        lmad("i", ("m", "n")), lmad("i + 1", ("n - i - 1", "1"), ("m", "n")), "n >= i + 1; i >= 0"),
    "fields of records": (lmad("d + 19*c"), lmad("e + 19*f"), "d >= 0; e >= d + 1; 18 >= e"),
    "planes of fields": (
        lmad("c", ("19", "n")), lmad("0", ("c", "1"), ("19", "n")), "n >= c + 1; c >= 0"),
    "the interior of a box, its last columns": (
        lmad("n*m + n + 1", ("k - 2", "n*m"), ("m - 2", "n"), ("n - 2", "1")),
        lmad("n - 1", ("k", "n*m"), ("m", "n")), "n >= 3; m >= 3; k >= 3"),
    "the interior of a box, its last rows": (
        lmad("n*m + n + 1", ("k - 2", "n*m"), ("m - 2", "n"), ("n - 2", "1")),
        lmad("n*m - n", ("k", "n*m"), ("n", "1")), "n >= 3; m >= 3; k >= 3"),
    "right of the diagonal, the diagonal": (
        lmad("i*n + i + 1", ("n - i - 1", "1")), lmad("0", ("n", "n + 1")), "n >= i + 1; i >= 0"),
    "a step of a tridiagonal solve, those before it": (
        lmad("i*n + j"), lmad("0", ("m", "n"), ("j", "1")), "n >= j + 1; j >= 0; i >= 0"),
    "butterflies": (
        lmad("0", ("n", "2*m"), ("m", "1")), lmad("m", ("n", "2*m"), ("m", "1")), "m >= 1"),
    "tiles of the same rows": (
        lmad("i*t*n + j*t", ("t", "n"), ("t", "1")), lmad("i*t*n + l*t", ("t", "n"), ("t", "1")),
        "n = q*t; t >= 1; j >= 0; l >= j + 1; q >= l + 1; i >= 0"),
    "blocks of an anti-diagonal": (
        lmad("i*b + n + 1 + j*n*b - j*b", ("b", "n"), ("b", "1")),
        lmad("i*b + n + 1 + l*n*b - l*b", ("b", "n"), ("b", "1")),
        "n = q*b + 1; b >= 2; q >= 2; j >= 0; l >= j + 1; i >= l; q >= i + 1"),
    "the second half of Needleman-Wunsch": (
        lmad("n*b*k + n*b - b + n + 1", ("q - k - 1", "n*b - b"), ("b", "n"), ("b", "1")),
        lmad("n*b*k + n*b - b", ("q - k - 1", "n*b - b"), ("b + 1", "n")),
        "n = q*b + 1; q >= 2; b >= 2; k >= 0; q >= k + 2"),
    "rows of a user's stride": (
        lmad("0", ("k", "s"), ("t", "1")), lmad("t", ("k", "s"), ("u", "1")),
        "s >= t + u; t >= 1; u >= 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", PATTERNS)
def test_what_programs_access_apart(name: str) -> None:
    left, right, facts = PATTERNS[name]
    assert overlap(left, right, prover(facts)).answer == "no"
    assert overlap(right, left, prover(facts)).answer == "no"


@pytest.mark.parametrize("name", PATTERNS)
def test_one_element_further_is_not_proved(name: str) -> None:
    """Each is apart by less than its own extent: with what it lacks next to it, it meets."""
    left, right, facts = PATTERNS[name]
    wider = Lmad(left.offset, (*left.dims, (parse_poly("1 + z"), parse_poly("1"))))
    verdict = overlap(wider, right, prover(facts + "; z >= 0"))
    assert verdict.answer != "no", verdict


def test_a_divisor_that_is_known_of_a_size() -> None:
    known = Prover([Fact("divides", parse_poly("n"), 8)], sizes=("n", "m"))
    assert overlap(lmad("0", ("m", "n")), lmad("4", ("m", "8")), known).answer == "no"
    assert overlap(lmad("0", ("m", "n")), lmad("8", ("m", "8")), known).answer == "unknown"


# ---------------------------------------------------------------- multiples of unknown numbers


@pytest.mark.parametrize("rows", ["w*p", "12*p"])
def test_other_elements_of_any_two_rows_are_apart(rows: str) -> None:
    """Element (p, j) of rows of w = 12 elements, against (q, l) for all l > j: p and q are data."""
    known = prover("w = 12; j >= 0; 11 >= j" if "w" in rows else "j >= 0; 11 >= j")
    mine = lmad(f"{rows} + j")
    after = lmad(f"{rows.replace('p', 'q')} + j + 1", ("11 - j", "1"))
    assert overlap(mine, after, known).answer == "no"
    assert overlap(after, mine, known).answer == "no"


def test_rows_that_reach_into_others_may_meet() -> None:
    known = prover("j >= 0; 11 >= j")
    mine = lmad("12*p + j")
    for others in (
        lmad("12*q + j", ("12 - j", "1")),  # its own element
        lmad("12*q + j + 1", ("12", "1")),  # the next row's
        lmad("11*q + j + 1", ("11 - j", "1")),  # of other rows
    ):
        assert overlap(mine, others, known).answer != "no"
