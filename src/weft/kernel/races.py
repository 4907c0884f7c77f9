"""What the user is told of a `prange` whose rounds are not independent."""

from __future__ import annotations

import warnings

from weft.errors import RaceError, RaceWarning
from weft.passes.dependence import Access
from weft.passes.parallelise import Remark


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
    element = ", ".join(map(str, race.element))
    raise RaceError(
        f"rounds {index} = {race.first} and {index} = {race.second} of a prange access one "
        f"element, [{element}]: {_described(remark.left)}, {_described(remark.right)}",
        "rounds that touch nothing that another one writes",
        "range instead of prange, a result in another array, or x += ... for a sum over rounds",
        place=remark.place,
    )


def _warning(remark: Remark, function: str) -> str:
    lines = [f"a prange of {function} runs in order: {remark.reason}"]
    lines += [f"  {_described(access)}" for access in (remark.left, remark.right) if access]
    lines.append(f"  at {remark.place}: {remark.place.excerpt()}")
    return "\n".join(lines)


def _described(access: Access) -> str:
    verb = "written" if access.written else "read"
    if access.place is None:
        return f"it is {verb}"
    return f"{verb} at {access.place}: {access.place.excerpt()}"
