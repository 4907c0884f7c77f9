"""Whether two LMADs have an element in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from weft.lmad import exact
from weft.lmad.interval_sum import Interval, ZeroFree, interval_sum
from weft.lmad.lmad import Lmad
from weft.records import dataclass
from weft.sizes import Fact, Poly
from weft.sizes.division import divide
from weft.sizes.poly import Monomial
from weft.sizes.prove import Prover

Answer: TypeAlias = Literal["no", "yes", "unknown"]
UNKNOWN_SIGNS = 2  # strides whose signs are told apart by cases
WITNESSES = 40  # sums tried to find a common element


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether two LMADs have an element in common, and why.

    Attributes
    ----------
    answer : {"no", "yes", "unknown"}
        "no": proved to be disjoint; "yes": proved to have a common element.
    argument : str
        The proof, or what was not proved, in lines.
    """

    answer: Answer
    argument: str

    def __str__(self) -> str:
        return f"{self.answer}: {self.argument}"


def overlap(left: Lmad, right: Lmad, prover: Prover) -> Verdict:
    """Whether two LMADs have an element in common, for all sizes that the prover admits.

    An LMAD with an extent of 0 or less is empty. See `interval_sum` for the method, which
    extends procedure 3.5 of P. Munksgaard's thesis (2023).
    """
    left, right = _normal(left, prover), _normal(right, prover)
    between = _between(left, right, prover)
    if between:
        return Verdict("no", between)
    pair = f"{left} and {right}"
    for lmad in (left, right):
        for extent in lmad.shape:
            if prover.less_equal(extent, 0):
                return Verdict("no", f"{lmad} is empty: {extent} <= 0")
    if _known(left) and _known(right):
        element = exact.common(left, right)
        if element is None:
            return Verdict("no", f"{pair} have no common element (all cases were tried)")
        return Verdict("yes", f"{pair} have the element {element} in common")
    lines = disjoint(left, right, prover)
    if lines is not None:
        return Verdict("no", "\n".join([f"{pair} are disjoint:", *lines]))
    element_of_both = _common(left, right, prover)
    if element_of_both is not None:
        return Verdict("yes", f"{pair} have the element {element_of_both} in common")
    return Verdict("unknown", f"not proved: {pair} are disjoint")


def _normal(lmad: Lmad, prover: Prover) -> Lmad:
    dims = tuple((prover.normal(n), prover.normal(stride)) for n, stride in lmad.dims)
    return Lmad(prover.normal(lmad.offset), dims)


def _between(left: Lmad, right: Lmad, prover: Prover) -> str | None:
    """Why no steps of one stride take from the one to the other; None where that is not proved.

    The columns of a matrix, for example: no sums of intervals are needed for them.
    """
    strides = {*left.strides, *right.strides}
    if len(strides) != 1:
        return None
    (stride,) = strides
    apart = left.offset - right.offset
    _, rest = divide(apart, stride)
    if not rest.is_constant or not rest.terms or not prover.less(abs(rest.constant), stride):
        return None
    return f"{left} and {right} are disjoint: {apart} is no multiple of {stride}"


def _known(lmad: Lmad) -> bool:
    return all(size.is_constant for size in (lmad.offset, *lmad.shape, *lmad.strides))


# ---------------------------------------------------------------- disjoint


def disjoint(left: Lmad, right: Lmad, prover: Prover) -> list[str] | None:
    """Why two LMADs are disjoint, in lines, by sums of intervals; None where not proved."""
    return _disjoint(left, right, _nonempty(left, right, prover), UNKNOWN_SIGNS)


def _nonempty(left: Lmad, right: Lmad, prover: Prover) -> Prover:
    """A prover that knows that no extent is 0: where one is, the LMADs are disjoint."""
    extents = dict.fromkeys((*left.shape, *right.shape))
    unknown = [Fact(">=0", extent - 1) for extent in extents if not prover.positive(extent)]
    return prover.assuming(*unknown) if unknown else prover


def _disjoint(left: Lmad, right: Lmad, prover: Prover, unknown_signs: int) -> list[str] | None:
    """Why no element is common, in lines; None where that is not proved."""
    left, right = _normal(left, prover), _normal(right, prover)
    for stride in (*left.strides, *right.strides):
        if stride.is_constant or prover.positive(stride) or prover.positive(-stride):
            continue
        if unknown_signs == 0:
            return None
        return _by_sign(left, right, prover, stride, unknown_signs)
    intervals = [*_intervals(left, prover, 1), *_intervals(right, prover, -1)]
    total = interval_sum(left.offset - right.offset, intervals)
    found = ZeroFree(prover).argument(total)
    if found is None and total.intervals and any(map(_scaled, total.offset.terms.items())):
        return ZeroFree(prover, terms=True).argument(total)
    return found


def _scaled(term: tuple[Monomial, int]) -> bool:
    """Whether a term of a polynomial is a multiple of something, whatever a variable is."""
    monomial, factor = term
    return len(monomial) > 1 or (len(monomial) == 1 and abs(factor) > 1)


def _by_sign(
    left: Lmad, right: Lmad, prover: Prover, stride: Poly, unknown_signs: int
) -> list[str] | None:
    """The same for a positive stride, for 0, and for a negative one."""
    cases = (
        (f"{stride} > 0", prover.nonnegative(-stride), Fact(">=0", stride - 1)),
        (f"{stride} = 0", prover.nonzero(stride), Fact("==0", stride)),
        (f"{stride} < 0", prover.nonnegative(stride), Fact(">=0", -stride - 1)),
    )
    lines = []
    for case, impossible, fact in cases:
        if impossible:
            continue
        pair = left, right
        if fact.relation == "==0":
            pair = _without(left, stride), _without(right, stride)
        found = _disjoint(*pair, prover.assuming(fact), unknown_signs - 1)
        if found is None:
            return None
        lines += [f"where {case}:", *(f"  {line}" for line in found)]
    return lines


def _without(lmad: Lmad, stride: Poly) -> Lmad:
    """The same set where the stride is 0."""
    dims = tuple(dim for dim in lmad.dims if dim[1] not in (stride, -stride))
    return Lmad(lmad.offset, dims)


def _intervals(lmad: Lmad, prover: Prover, sign: int) -> Iterator[Interval]:
    """The dimensions, or their negatives, with positive strides."""
    for extent, stride in lmad.dims:
        if not stride.terms:
            continue
        step = stride * sign
        last = extent - 1
        if prover.positive(step):
            yield Interval(last * 0, last, step)
        else:
            yield Interval(-last, last * 0, -step)


# ---------------------------------------------------------------- common elements


def _common(left: Lmad, right: Lmad, prover: Prover) -> Poly | None:
    """An element of both, where one is found."""
    if not all(prover.positive(extent) for extent in (*left.shape, *right.shape)):
        return None
    dims = [(extent - 1, stride, stride) for extent, stride in left.dims]
    dims += [(extent - 1, -stride, stride * 0) for extent, stride in right.dims]
    left_over = [WITNESSES]

    def search(position: int, target: Poly, element: Poly) -> Poly | None:
        """The element when the dimensions from a position on can add up to the target."""
        left_over[0] -= 1
        if position == len(dims):
            return element if prover.zero(target) else None
        last, step, moved = dims[position]
        inside = divide(target, step)[0]
        for index in dict.fromkeys((inside, inside * 0, last)):
            if left_over[0] <= 0:
                return None
            if prover.nonnegative(index) and prover.less_equal(index, last):
                found = search(position + 1, target - index * step, element + index * moved)
                if found is not None:
                    return found
        return None

    return search(0, right.offset - left.offset, left.offset)
