"""Which reads of an array share a window: those that move in step, near one another."""

from __future__ import annotations

import numpy as np

from weft.plan.draft import Draft, ReadKey


def clusters(draft: Draft) -> list[tuple[str, int, list[ReadKey]]]:
    """The reads of each array by the windows that they share.

    Reads that move in step and near one another share a window; `x[:n/2] + x[n/2:]` has
    two windows of x.
    """
    total = draft.total
    unit = max(1, min(draft.unit(), total))
    starts = np.array([0, total // 3 // unit * unit, total // 2 // unit * unit])
    ranges = draft.evaluate(starts, np.minimum(starts + unit, total))
    groups: dict[tuple[str, int, int], list[tuple[int, int, ReadKey]]] = {}
    for key, (lower, upper) in ranges.reads.items():
        if draft.analysis.producer.get(key[1]) in draft.members:
            continue
        seen = upper > lower
        # Where all that are read inside are: in the first box not what lies before it.
        at = next((box for box in (1, 2) if seen[box]), 0)
        moved = int(lower[2] - lower[1]) if seen[1] and seen[2] else 0
        groups.setdefault((key[1], draft.axes[key], moved), []).append(
            (int(lower[at]), int(upper[at]), key)
        )
    found: list[tuple[str, int, list[ReadKey]]] = []
    for (array, axis, _), members in groups.items():
        near = max(64, draft.analysis.shapes[array][axis] // 64)
        members.sort(key=lambda member: member[:2])
        reach: int | None = None
        for lower_bound, upper_bound, key in members:
            if reach is None or lower_bound > reach + near:
                found.append((array, axis, []))
                reach = upper_bound
            found[-1][2].append(key)
            reach = max(reach, upper_bound)
    return found
