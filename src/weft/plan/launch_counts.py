"""What steps launch, as far as it is known before they run: which kernels, how often, how large."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

from weft.plan.launches import Branch, Define, Launch, Read, Repeat, Step, Steps, While
from weft.sizes import Size

_UNKNOWN = 16  # rounds of a loop whose number only running it tells


def launched(steps: Sequence[Step], values: Mapping[str, Any]) -> set[str]:
    """The kernels that steps may launch, as far as integers tell that are known before."""
    known, found = dict(values), set[str]()
    for step in steps:
        match step:
            case Launch(kernel, items):
                if _has(items, known):
                    found.add(kernel)
            case Define(name, size):
                _define(known, name, size)
            case Read(name):
                known.pop(name, None)
            case Repeat(index, lower, upper, inner):
                if _rounds(lower, upper, known):
                    known = _without(known, {index} | _changed(inner))
                    found |= launched(inner, known)
            case While(before, _, inner):
                rounds = (*before, *inner)
                known = _without(known, _changed(rounds))
                found |= launched(rounds, known)
            case Branch(condition, then, otherwise):
                if known.get(condition, True):
                    found |= launched(then, known)
                if not known.get(condition, False):
                    found |= launched(otherwise, known)
                known = _without(known, _changed((*then, *otherwise)))
    return found


def _without(known: Mapping[str, Any], names: Set[str]) -> dict[str, Any]:
    return {name: value for name, value in known.items() if name not in names}


def _changed(steps: Sequence[Step]) -> set[str]:
    """The integers that steps define: another round, or a branch, gives them other values."""
    found: set[str] = set()
    for step in steps:
        match step:
            case Define(name) | Read(name):
                found.add(name)
            case Repeat(index, _, _, inner):
                found |= {index} | _changed(inner)
            case While(before, _, inner):
                found |= _changed((*before, *inner))
            case Branch(_, then, otherwise):
                found |= _changed((*then, *otherwise))
    return found


def count(steps: Steps, values: Mapping[str, Any]) -> int:
    """How many launches the steps make, about, where values are of one box, or of each.

    A kernel whose items are known to be none is not launched. A branch makes the launches of the
    side that most boxes take, or of its longer side where that is not known.
    """
    return sum(times for items, times, _ in _expected(steps, values) if items is None or items)


def most_groups(steps: Steps, values: Mapping[str, Any]) -> float:
    """The groups of the largest launch, on average over boxes; 0 where none is known.

    Of launches that differ from round to round, in the middle one.
    """
    found = _expected(steps, values, midway=True)
    return max((items / launch.group for items, _, launch in found if items), default=0.0)


def _expected(
    steps: Steps, values: Mapping[str, Any], midway: bool = False
) -> Iterator[tuple[float | None, int, Launch]]:
    """Launches: their items on average, whole groups of them, or None; how often; and which.

    `midway`: those of a loop in its middle round, so that its index is known.
    """
    known = dict(values)
    for step in steps:
        match step:
            case Launch():
                yield _items(step, known), 1, step
            case Define(name, size):
                _define(known, name, size)
            case Repeat(index, lower, upper, inner):
                rounds = _rounds(lower, upper, known)
                if midway:
                    _define(known, index, lower + rounds // 2)
                yield from _often(rounds, _expected(inner, known, midway))
            case While(before, _, inner):
                yield from _often(_UNKNOWN, _expected((*before, *inner), known, midway))
            case Branch(condition, then, otherwise):
                taken = np.asarray(known.get(condition, ()))
                most = bool(2 * np.count_nonzero(taken) > taken.size)
                if not taken.size:
                    most = count(then, known) > count(otherwise, known)
                yield from _expected(then if most else otherwise, known, midway)
            case Read(name):
                known.pop(name, None)


def _often(
    times: int, found: Iterator[tuple[float | None, int, Launch]]
) -> Iterator[tuple[float | None, int, Launch]]:
    return ((items, times * each, launch) for items, each, launch in found)


def _items(launch: Launch, values: Mapping[str, Any]) -> float | None:
    """Those of a launch, in whole groups; None where a number tells that is read meanwhile."""
    try:
        items = np.asarray(launch.items.evaluate(values))
    except KeyError:
        return None
    groups = -(-items // launch.group) * launch.group
    return float(np.mean(np.maximum(groups, 0))) if groups.size else 0.0


def _define(known: dict[str, Any], name: str, size: Size) -> None:
    try:
        known[name] = size.evaluate(known)
    except KeyError:  # it follows from a number that is read while it runs
        known.pop(name, None)


def _has(items: Size, values: Mapping[str, Any]) -> bool:
    """Whether any box has items: there may be no boxes, in the round of a loop that has nothing."""
    try:
        return bool(np.any(items.evaluate(values) > 0))
    except KeyError:  # a number that is read while it runs
        return True


def _rounds(lower: Size, upper: Size, values: Mapping[str, Any]) -> int:
    try:
        return int(np.max(upper.evaluate(values) - lower.evaluate(values), initial=0))
    except KeyError:  # a number that is read while it runs
        return _UNKNOWN
