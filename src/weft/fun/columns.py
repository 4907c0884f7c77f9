"""Along which index neighbours in memory lie, by the reads of a reduction's body.

The tree of a reduction depends on it, so that passes and lowering ask the same question.
"""

from __future__ import annotations

from collections.abc import Collection

from weft.fun import nodes as fun
from weft.fun import walk


def reads_columns(body: fun.Body, lane: str, reduced: Collection[str]) -> bool:
    """Whether the reads of the highest rank end in the lane, and in no reduced index.

    Of the reads that differ between lanes: for a product of matrices, those of the right one.
    """
    reads = [let.expr for let in walk.statements(body) if isinstance(let.expr, fun.Index)]
    reads = [read for read in reads if any(lane in i.variables() for i in read.indices)]
    rank = max((len(read.indices) for read in reads), default=0)
    last = {
        name
        for read in reads
        if rank and len(read.indices) == rank
        for name in read.indices[-1].variables()
    }
    return lane in last and last.isdisjoint(reduced)
