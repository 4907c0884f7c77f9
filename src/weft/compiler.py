"""From FUN to segments: the pipeline.

FUN --passes--> FUN --introduce--> FUNMEM
FUNMEM --hoist, short_circuit, choose_buffers, merge_blocks--> FUNMEM
FUNMEM --lower--> IMP --print--> C
FUNMEM --expand, lower--> IMP kernels, and steps that launch them --print--> OpenCL C, CUDA C++
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from weft.errors import UnsupportedError
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.fun.columns import reads_pairs
from weft.lower.segment import compile_segment as lower_segment
from weft.mem import nodes as mem
from weft.mem.choose_buffers import choose_buffers
from weft.mem.hoist import hoist
from weft.mem.introduce import introduce
from weft.mem.merge_blocks import merge_blocks
from weft.mem.short_circuit import versions
from weft.mem.space_blocks import space_blocks
from weft.passes import pipeline
from weft.passes.finish_sums import finish_sums
from weft.passes.nest import NestCandidate, nest_candidates
from weft.passes.pipeline import Decisions
from weft.passes.raise_contractions import Within, raise_contractions, raised
from weft.passes.read_first import replace_last
from weft.passes.reduce_ahead import ReduceAhead, reductions_ahead
from weft.passes.side_by_side import records
from weft.passes.split_reductions import unless_rows
from weft.passes.tile_time import TimeTile, time_tiles
from weft.plan.decisions import Choices, Decided, Extents
from weft.plan.launches import ON_PROCESSOR
from weft.plan.segment import Better, Dialect, Layout, Segment
from weft.printers import c
from weft.sizes import product

ENTRY = "weft_entry"


def choices(fused: fun.Program) -> Choices:
    """What there is to decide about a fused program."""
    known = {*fused.sizes, *(derived.name for derived in fused.derived)}
    contractions = {
        extents: None
        for extents in map(_row_extents, raised(fused, _whole_rounds(fused)))
        if (extents[0] * extents[1]).variables() <= known
    }
    forms: tuple[fun.Program, ...] = (fused,)
    if contractions:
        forms = fused, raise_contractions(fused, within=_whole_rounds(fused))
    nests = dict.fromkeys((c.outer, c.row_bytes) for form in forms for c in nest_candidates(form))
    reductions: dict[bool, dict[Extents, bool]] = {False: {}, True: {}}
    for let in walk.sequential(fused.body):
        if isinstance(let.expr, fun.Reduce) and let.expr.reduced < len(let.expr.space):
            extents = _row_extents(let.expr)
            if (extents[0] * extents[1]).variables() <= known:
                group = reductions[unless_rows(let.expr)]
                paired = let.expr.reduced == 1 and reads_pairs(let.expr)
                group[extents] = group.get(extents, True) and paired
    tiles = tuple((tile.rounds, tile.bytes) for tile in time_tiles(fused))
    ahead = tuple((found.rows, found.length) for found in reductions_ahead(fused))
    splits, columns = map(tuple, reductions.values())
    pairs = tuple(extents for extents, paired in reductions[True].items() if paired)
    read = dict.fromkeys((found.times, found.number) for found in records(fused))
    return Choices(
        fused.derived, tuple(nests), splits, tiles, columns, ahead, tuple(contractions),
        tuple(read), pairs,
    )  # fmt: skip


def finish(
    fused: fun.Program, given: Choices, decided: Decided, contiguous: frozenset[str] | None,
    join: bool = False,
) -> fun.Program:  # fmt: skip
    """The fused program as decided.

    `contiguous` names parameters for `collapse`. `join`: for the planner, which cuts iterated
    stencils that are kernels alone.
    """
    nested = {e for e, yes in zip(given.nests, decided.nests, strict=True) if yes}
    split = {e for e, yes in zip(given.splits, decided.splits, strict=True) if yes}

    def should_nest(candidate: NestCandidate) -> bool:
        return (candidate.outer, candidate.row_bytes) in nested

    whole = {e for e, yes in zip(given.columns, decided.columns, strict=True) if yes}
    tiled = {e for e, yes in zip(given.tiles, decided.tiles, strict=True) if yes}
    ahead = {e for e, yes in zip(given.ahead, decided.ahead, strict=True) if yes}

    def should_tile(tile: TimeTile) -> bool:
        return (tile.rounds, tile.bytes) in tiled

    def should_reduce(found: ReduceAhead) -> bool:
        return (found.rows, found.length) in ahead

    raised_ = {e for e, yes in zip(given.contractions, decided.contractions, strict=True) if yes}

    def should_raise(reduce: fun.Reduce) -> bool:
        return _row_extents(reduce) in raised_

    def should_split(reduce: fun.Reduce) -> bool:
        if unless_rows(reduce):
            return reduce.reduced == len(reduce.space) or _row_extents(reduce) not in whole
        return _row_extents(reduce) in split

    return pipeline.optimise(
        fused,
        Decisions(
            should_nest if nested else None,
            contiguous,
            should_split,
            should_tile if tiled else None,
            should_reduce if ahead else None,
            decided.contract,
            should_raise if raised_ else None,
            _whole_rounds(fused),
            decided.tile_elements,
            join,
        ),
    )


def _whole_rounds(program: fun.Program) -> Within:
    """Whether a statement's rounds, if it has some, are never done on a row at a time."""

    def within(let: fun.Let) -> bool:
        if not isinstance(let.expr, fun.Loop):
            return True
        from weft.plan.pivots import follow_rows

        return not follow_rows(let, Names.of(program))

    return within


def _row_extents(reduce: fun.Reduce) -> Extents:
    kept = len(reduce.space) - reduce.reduced
    extents = [dim.extent for dim in reduce.space]
    return product(extents[:kept]), product(extents[kept:])


def with_memory(
    program: fun.Program, layouts: Mapping[str, Layout], optimise: str = ""
) -> mem.Program:
    """The FUNMEM form of an optimised program whose array parameters lie as `layouts` says.

    `optimise` names passes to leave out, as `weft.config` does.
    """
    return with_versions(program, layouts, optimise)[0]


def with_versions(
    program: fun.Program, layouts: Mapping[str, Layout], optimise: str, dialect: Dialect = "c",
    donated: Mapping[str, int] | None = None,
) -> tuple[mem.Program, ...]:  # fmt: skip
    """With memory: first the version for all calls, then perhaps one that has conditions."""
    without = optimise.split()
    made = hoist(introduce(program, layouts, donated=donated))
    found = (made,) if "no-short-circuit" in without else versions(made)
    if dialect == "c" and "no-short-circuit" not in without:
        found = tuple(map(choose_buffers, found))  # other dialects know no pointers that change
    if dialect != "c" and "no-permute-layouts" not in without:
        from weft.mem.permute_layouts import permute_layouts

        found = tuple(map(permute_layouts, found))
    if "no-merge" not in without:
        found = tuple(map(merge_blocks, found))
    return tuple(map(space_blocks, found))


def compile_segment(
    program: fun.Program,
    layouts: Mapping[str, Layout],
    optimise: str = "",
    dialect: Dialect = "c",
    donated: Mapping[str, int] | None = None,
    private: Collection[str] = (),
) -> Segment:
    """An optimised program without library calls, as one segment.

    Parameters
    ----------
    program : fun.Program
    layouts : mapping of str to Layout
        How each array parameter lies in memory; row-major where it is not named.
    optimise : str
        Which memory passes to leave out, as in `weft.config`.
    dialect : {"c", "opencl", "cuda"}
        C is what there is for a program that has no form in the dialect; a remark says why.
    donated : mapping of str to int, optional
        In C: parameters that may be overwritten, each with the number of the result, of its
        type, that comes to lie there.
    private : collection of str, optional
        Parameters (on a device), and "result_k", that no other run has in common with a run: they
        may lie within the workspace.
    """
    if dialect == "c":
        program = replace_last(finish_sums(program, everywhere=True), donated or {})
        made = with_versions(program, layouts, optimise, donated=donated)

        def lower(version: mem.Program) -> Segment:
            if not private or len(made) > 1:  # versions of one segment are given the same buffers
                return lower_segment(version, ENTRY, c.print_program)
            from weft.mem.lay_within import lay_within

            laid, within = lay_within(version, private, launched=False)
            return lower_segment(laid, ENTRY, c.print_program, within)

        return _lowered(made, lower)
    try:
        return _kernels(program, optimise, dialect, private)
    except UnsupportedError as error:
        segment = compile_segment(program, layouts, optimise)
        return replace(segment, remarks=(f"runs on the cpu: {error.found}", *segment.remarks))


def _kernels(
    program: fun.Program, optimise: str, dialect: Dialect, private: Collection[str]
) -> Segment:
    """The segment as kernels; what makes these is imported where there is a device for them."""
    from weft.lower.gpu.program import compile_segment as lower_kernels
    from weft.mem.expand import expand
    from weft.mem.lay_within import lay_within
    from weft.printers import cuda, opencl

    printer = opencl if dialect == "opencl" else cuda
    # Every array lies row-major in the device's memory.
    made = with_versions(program, {}, optimise, dialect)

    def lower(version: mem.Program) -> Segment:
        # Versions of one segment are given the same buffers.
        laid, within = lay_within(version, private if len(made) == 1 else ())
        expanded = expand(laid, "interleaved")
        known = ON_PROCESSOR in optimise.split()
        return lower_kernels(expanded, ENTRY, dialect, printer.print_kernels, within, known)

    return _lowered(made, lower)


def _lowered(made: tuple[mem.Program, ...], lower: Callable[[mem.Program], Segment]) -> Segment:
    """The segment for all calls, with the better one where there is one."""
    plain, *others = map(lower, made)
    if not others:
        return plain
    (better,) = others
    remarks = tuple(
        remark if remark in better.remarks else f"{remark}; not for sizes that keep them apart"
        for remark in plain.remarks
    )
    return replace(plain, remarks=remarks, better=Better(made[1].conditions, better))
