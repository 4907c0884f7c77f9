"""Along which dimension a reduction is vectorised: a fact that its fixed tree depends on."""

from __future__ import annotations

from typing import Literal

from weft.fun import nodes as fun
from weft.passes.reads import Reads


def vector_dimension(reduce: fun.Reduce) -> Literal["reduced", "kept"]:
    """Whether lanes are elements of the last reduced dimension, or of the last kept one.

    "kept" where there is one reduced dimension, and the last index of the reads of the
    highest rank is the last kept one and no reduced one: sums of columns, whose rows are
    added up side by side.
    """
    kept = len(reduce.space) - reduce.reduced
    if kept == 0 or reduce.reduced != 1:
        return "reduced"
    sites = Reads.of(reduce).sites
    rank = max((len(site.indices) for site in sites), default=0)
    last = [site.indices[-1] for site in sites if len(site.indices) == rank]
    column = reduce.space[kept - 1].index.name
    reduced = reduce.space[kept].index.name
    along = any(index.degree(column) for index in last)
    return "kept" if along and not any(index.degree(reduced) for index in last) else "reduced"
