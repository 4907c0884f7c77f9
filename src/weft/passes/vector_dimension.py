"""Along which dimension a reduction is vectorised: a fact that its fixed tree depends on."""

from __future__ import annotations

from typing import Literal

from weft.fun import nodes as fun
from weft.passes.reads import Reads


def vector_dimension(reduce: fun.Reduce) -> Literal["reduced", "kept"]:
    """Whether lanes are elements of the last reduced dimension, or of the last kept one.

    "kept" where the last index of the reads of the highest rank is the last kept one and no
    reduced one: sums of columns, whose rows are added up side by side.
    """
    kept = len(reduce.space) - reduce.reduced
    if kept == 0:
        return "reduced"
    sites = Reads.of(reduce).sites
    rank = max((len(site.indices) for site in sites), default=0)
    last: set[str] = set()
    for site in sites:
        if len(site.indices) == rank and rank:
            last |= site.indices[-1].variables()
    columns = reduce.space[kept - 1].index.name
    rows = {r.index.name for r in reduce.space[kept:]}
    return "kept" if columns in last and not rows & last else "reduced"
