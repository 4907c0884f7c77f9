"""Why loops that the user calls parallel are not: what is told, and what not twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.errors import Place
from weft.passes.dependence import Access
from weft.passes.other_uses import Otherwise
from weft.passes.races import Race
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Remark:
    """Why a loop that the user calls parallel is not: two accesses, or a variable.

    Attributes
    ----------
    place : Place
        Of the loop.
    reason : str
    left, right : Access or None
    race : Race or None
        Two rounds that access one element, where that is certain.
    otherwise : Otherwise or None
        Why rounds do not combine something with an array, where they seem to.
    """

    place: Place
    reason: str
    left: Access | None = None
    right: Access | None = None
    race: Race | None = None
    otherwise: Otherwise | None = None


def of_nest(remarks: Sequence[Remark], place: Place | None) -> list[Remark]:
    """What is told of a loop and those inside of it: one remark, where the loop has one.

    A certain race comes before others, the innermost; then what names two accesses; then the
    loop's own.
    """
    if all(remark.place != place for remark in remarks):
        return list(remarks)
    certain = [remark for remark in remarks if remark.race is not None]
    own_last = min(remarks, key=lambda one: (one.right is None, one.place != place))
    return [*certain, own_last][:1]


def once_each(remarks: Iterable[Remark]) -> list[Remark]:
    """Remarks without those on copies of a loop, as of rounds that are done one by one."""
    found: dict[object, Remark] = {}
    for remark in remarks:
        places = [access and access.place for access in (remark.left, remark.right)]
        found.setdefault((remark.place, remark.reason, remark.race is None, *places), remark)
    return list(found.values())
