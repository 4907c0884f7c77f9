"""Along which index neighbours in memory lie, by the reads of a reduction's or a scan's body.

The order in which they combine depends on it, so that passes, plans and lowering ask the same
question.
"""

from __future__ import annotations

from collections.abc import Collection

from weft.fun import nodes as fun
from weft.fun import walk


def reads_columns(body: fun.Body, lane: str, reduced: Collection[str]) -> bool:
    """Whether the reads of the highest rank end in the lane, and in no reduced index.

    Of the reads that differ between lanes: for a product of matrices, those of the right one. Or
    whether they are windows that slide with the lane, as those of convolutions do, x[i + k]:
    windows are short, and a lane for each of them needs no sum across lanes.
    """
    reads = [let.expr for let in walk.statements(body) if isinstance(let.expr, fun.Index)]
    reads = [read for read in reads if any(lane in i.variables() for i in read.indices)]
    rank = max((len(read.indices) for read in reads), default=0)
    reads = [read for read in reads if rank and len(read.indices) == rank]
    last = {name for read in reads for name in read.indices[-1].variables()}
    if lane not in last:
        return False
    return last.isdisjoint(reduced) or all(_slides(read, lane) for read in reads)


def reads_pairs(reduce: fun.Reduce) -> bool:
    """Whether what it reduces is computed of pairs: no array is read by kept and reduced indices.

    As of forces between bodies, and distances between points: there is little to read, however
    much there is to do. Nor may it be read where other data say.
    """
    kept = len(reduce.space) - reduce.reduced
    columns, rows = ({r.index.name for r in part} for part in (
        reduce.space[:kept], reduce.space[kept:]
    ))  # fmt: skip
    lets = list(walk.statements(reduce.body))
    computed = {var.name for let in lets for var in let.pattern}
    for read in (let.expr for let in lets if isinstance(let.expr, fun.Index)):
        used = {name for index in read.indices for name in index.variables()}
        if used & computed or (used & columns and used & rows):
            return False
    return True


def scans_columns(scan: fun.Scan) -> bool:
    """Whether neighbours in memory belong to different scans, which then go on row by row."""
    if len(scan.space) < 2:
        return False
    lane, along = (dimension.index.name for dimension in scan.space[-2:])
    return reads_columns(scan.body, lane, (along,))


def _slides(read: fun.Index, lane: str) -> bool:
    """Whether neighbouring lanes read neighbours."""
    *before, last = read.indices
    return last.coefficient(lane) == 1 and not any(lane in i.variables() for i in before)
