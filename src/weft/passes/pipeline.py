"""The passes, in order, each with why it stands where it does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.passes import nest as nesting
from weft.passes import raise_contractions as raising
from weft.passes import reduce_ahead as ahead
from weft.passes import split_reductions as splitting
from weft.passes import tile_time as tiling
from weft.passes.carry_elements import carry_elements
from weft.passes.chain_rows import chain_rows
from weft.passes.collapse import collapse
from weft.passes.defer import defer
from weft.passes.finish_sums import finish_sums
from weft.passes.flatten import flatten
from weft.passes.fold_within import fold_within
from weft.passes.fuse import fuse
from weft.passes.merge_updates import merge_updates
from weft.passes.raise_reshapes import raise_reshapes
from weft.passes.read_first import read_first
from weft.passes.refill import refill
from weft.passes.remove_dead import remove_dead
from weft.passes.share import share
from weft.passes.shrink import shrink
from weft.passes.simplify import simplify
from weft.passes.sink import sink
from weft.passes.store_scalars import store_scalars
from weft.passes.write_out_columns import write_out_columns
from weft.passes.write_twice import write_twice
from weft.records import dataclass

Pass: TypeAlias = Callable[[fun.Program], fun.Program]


@dataclass(frozen=True, slots=True)
class Decisions:
    """What is decided outside of the passes: from layouts, and from sizes at launch.

    Attributes
    ----------
    nest : callable or None
        Which groups of `nest_candidates` become kernels over rows; None for no group.
    contiguous : frozenset of str
        The array parameters that are contiguous, for `collapse`; None leaves it out.
    split : callable or None
        Which reductions are split into tiles (`unless_rows`, `always`); None for none.
    tile : callable or None
        Which loops of `time_tiles` are tiled in time; None for none.
    ahead : callable or None
        Which of `reductions_ahead` the round before does; None for none.
    contract : bool
        Whether products that are added are rounded with the sum.
    raise_ : callable or None
        Which of `raise_contractions.raised` become contractions; None for none.
    within : callable
        In which loops.
    tile_elements : int, optional
        Of a tile of a reduction, unless the smallest has more.
    join : bool
        Whether rounds that put arrays together from pieces become kernels, where these are
        iterated stencils.
    """

    nest: nesting.When | None = None
    contiguous: frozenset[str] | None = None
    split: splitting.When | None = None
    tile: tiling.When | None = None
    ahead: ahead.When | None = None
    contract: bool = False
    raise_: raising.When | None = None
    within: raising.Within = raising.no_loops
    tile_elements: int | None = None
    join: bool = False


FUSION: list[tuple[Pass, str]] = [
    (simplify, "first, so that reads go through views straight to what they read"),
    (finish_sums, "before flattening, for kernels that hold a sum and what becomes of it"),
    (flatten, "before fusion, which has no producers with rows for elements"),
    (share, "before fusion, which must not see one producer as two"),
    (remove_dead, "before fusion, which counts the uses of a producer"),
    (raise_reshapes, "after that, since it asks for a kernel's only use; before fusion"),
    (merge_updates, "before fusion, which makes one kernel of what both wrote"),
    (fuse, "once every statement is in its simplest form"),
    (write_out_columns, "after fusion, which leaves what all columns read as one producer"),
    (fold_within, "after fusion, which brings a total to the one reduction that reads it"),
    (sink, "after fusion, which has inlined what is used as elements"),
    (shrink, "after sinking, which keeps slices that are rows of a kernel's own"),
    (read_first, "after fusion, which joins reads with what stands later"),
]


def passes(decisions: Decisions) -> list[tuple[Pass, str]]:
    """The pipeline for these decisions: each pass, and why it stands there."""
    steps = list(FUSION)
    if decisions.contract:
        from weft.passes.contract import contract

        steps.append((contract, "on fused bodies, before all that depends on sizes or boxes"))
    if decisions.raise_ is not None:
        raise_ = partial(
            raising.raise_contractions, when=decisions.raise_, within=decisions.within
        )
        steps.append((raise_, "before nesting, which would make rows of what has a tree of tiles"))
    if decisions.join:
        from weft.passes.join_rounds import join_rounds

        steps.append((join_rounds, "on fused steps, before nesting, which makes pieces of rows"))
    if decisions.tile is not None:
        tile = partial(tiling.tile_time, when=decisions.tile)
        steps.append((tile, "on fused steps, whose reads still have their boundary rules"))
    if decisions.nest is not None:
        nest = partial(nesting.nest, when=decisions.nest)
        steps.append((nest, "after fusion, which leaves few statements to group"))
    if decisions.contiguous is not None:
        merge = partial(collapse, contiguous=decisions.contiguous)
        steps.append((merge, "after nesting, which needs rows apart"))
    if decisions.ahead is not None:
        reduce = partial(ahead.reduce_ahead, when=decisions.ahead)
        steps.append((reduce, "after nesting, which takes what is not in loops"))
    if decisions.split is not None:
        most = decisions.tile_elements
        split = partial(splitting.split_reductions, when=decisions.split, most=most)
        steps.append((split, "last, since a reduction in two steps is hard to fuse"))
    if len(steps) > len(FUSION):
        steps += [
            (refill, "before deferring, which fills nothing that the same body overwrites"),
            (defer, "when no pass is left that would take reads for those of a whole array"),
            (finish_sums, "after fusion, which leaves one kernel of what uses a reduction"),
            (store_scalars, "after fusion, which joins what computes one element"),
            (chain_rows, "which knows by arrays that are empty that loops fill them"),
            (carry_elements, "after storing scalars, which makes updates of elements"),
            (simplify, "what the last passes left: views of views, sizes written out"),
            (share, "reshapes and sizes that several of their statements made"),
            (refill, "after sharing, which would put one fill in place of several"),
            (remove_dead, "and what that made unused"),
            (write_twice, "after sharing, which gives nothing twice"),
        ]
    return steps


def optimise(program: fun.Program, decisions: Decisions | None = None) -> fun.Program:
    """The program after all passes (without decisions: simplified and fused)."""
    for pass_, _ in passes(decisions or Decisions()):
        program = pass_(program)
    return program
