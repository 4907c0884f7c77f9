"""Overlap of LMADs with symbolic sizes."""

from __future__ import annotations

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
