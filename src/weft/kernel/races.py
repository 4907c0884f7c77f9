"""What the user is told of a `prange` whose rounds are not independent."""

from __future__ import annotations

import warnings

from weft.errors import RaceError, RaceWarning
from weft.passes.dependence import Access
from weft.passes.other_uses import Otherwise
from weft.passes.remarks import Remark

_ADVICE = "one operator for all updates of an array, and another array for what else rounds do"


def tell(remark: Remark, index: str, function: str) -> None:
    """Warn that a loop runs in order, or refuse it where two rounds certainly meet.

    Raises
    ------
    RaceError
    """
    if remark.race is None:
        place = remark.place
        warnings.warn_explicit(_warning(remark, function), RaceWarning, place.file, place.line)
        return
    race = remark.race
    assert remark.left is not None
    assert remark.right is not None
    element, why = ", ".join(map(str, race.element)), ""
    advice = "range instead of prange, a result in another array, or x += ... for a sum over rounds"
    if remark.otherwise is not None:
        why, advice = f"; {_explained(remark.otherwise)}", _ADVICE
    raise RaceError(
        f"rounds {index} = {race.first} and {index} = {race.second} of a prange access one "
        f"element, [{element}]: {_described(remark.left)}, {_described(remark.right)}{why}",
        "rounds that touch nothing that another one writes, or combine something with it by one "
        "operator",
        advice,
        place=remark.place,
    )


def _explained(otherwise: Otherwise) -> str:
    return f"{otherwise.reason}: {_described(otherwise.access)}"


def _warning(remark: Remark, function: str) -> str:
    reason, left, right = remark.reason, remark.left, remark.right
    if remark.otherwise is not None:
        reason = remark.otherwise.reason
        left, right = remark.otherwise.access, remark.otherwise.update
    lines = [f"a prange of {function} runs in order: {reason}"]
    lines += [f"  {_described(access)}" for access in (left, right) if access]
    lines.append(f"  at {remark.place}: {remark.place.excerpt()}")
    if remark.otherwise is not None:
        lines.append(f"  try: {_ADVICE}")
    return "\n".join(lines)


def _described(access: Access) -> str:
    verb = "written" if access.written else "read"
    if access.place is None:
        return f"it is {verb}"
    return f"{verb} at {access.place}: {access.place.excerpt()}"
