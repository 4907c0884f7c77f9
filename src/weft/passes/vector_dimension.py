"""Along which dimension a reduction is vectorised: a fact that its fixed tree depends on."""

from __future__ import annotations

from typing import Literal

from weft.fun import nodes as fun
from weft.fun.columns import reads_columns


def vector_dimension(reduce: fun.Reduce) -> Literal["reduced", "kept"]:
    """Whether lanes are elements of the last reduced dimension, or of the last kept one.

    "kept" where the last index of the reads of the highest rank is the last kept one and no
    reduced one: sums of columns, whose rows are added up side by side.
    """
    kept = len(reduce.space) - reduce.reduced
    if kept == 0:
        return "reduced"
    rows = {r.index.name for r in reduce.space[kept:]}
    columns = reads_columns(reduce.body, reduce.space[kept - 1].index.name, rows)
    return "kept" if columns else "reduced"
