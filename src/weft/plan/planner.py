"""Making a plan: partition, window, schedule; other cuts where the best do not fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from weft.errors import MemoryLimitError
from weft.fun import nodes as fun
from weft.fun import walk
from weft.plan.block_rounds import Blocked, block_rounds
from weft.plan.code import Rates
from weft.plan.device_boxes import in_fewer_slots
from weft.plan.lengthen import lengthen
from weft.plan.loops import cut_loop
from weft.plan.nodes import Input, Plan, PlannedStage, Value, memory_sink
from weft.plan.partition import Choice, Group, Preferences, partition
from weft.plan.phases import Choice as PhaseChoice
from weft.plan.phases import in_phases, machine_of
from weft.plan.protocols import Sink, decoded_chunks, held_by_reads, is_source
from weft.plan.refusals import refusal_of_results
from weft.plan.results import bytes_given, place_of_results, with_owned_results
from weft.plan.schedule import Scheduler
from weft.plan.setting import ALLOWANCE, Compile, Processor, Setting, form_in_memory
from weft.plan.sharing import SMALL_WORK, compiled_for, in_smaller_boxes, share
from weft.plan.side_by_side import side_by_side
from weft.plan.statements import Analysis
from weft.plan.tiled import in_tiles
from weft.plan.window import Windowed, window, window_uncut

_SMALL = 4 << 20
_ROOM = ((1, 2 / 3), (1, 1 / 4), (1 / 2, 1 / 4))
"""Of the limit: what the arrays of a loop take that is done at once (workspace comes besides), and
what blocks of rounds share. The first that fits."""
_SPILLED = 1 << 20  # bytes of an array that is worth a scratch file
_SCALAR = 16  # bytes of the largest scalar


def plan_program(
    program: fun.Program,
    sizes: Mapping[str, int],
    inputs: Mapping[str, Input],
    sinks: Sequence[Sink | None],
    limit: int,
    threads: int,
    compile: Compile,
    *,
    allowance: int = ALLOWANCE,
    box_bytes: int | None = None,
    small: int | None = None,
    device_limit: int | None = None,
    rates: Rates | None = None,
    processors: Sequence[Processor] = (),
    apart: Callable[[MemoryLimitError], Compile] | None = None,
) -> Plan:
    """Decide how a program runs on data of these sizes.

    Parameters
    ----------
    program : fun.Program
        Optimised; large reductions split.
    sizes : mapping of str to int
        The values of `program.sizes`.
    inputs : mapping of str to Input
        For each parameter a source, an array, or a scalar.
    sinks : sequence of (Sink or None)
        For each result where it goes; None for a new array in memory.
    limit : int
        Bytes that running the plan may allocate.
    threads : int
        How many threads compute a box.
    compile : callable
        (stage program, layouts of its parameters) -> StageCode.
    allowance : int
        What of the limit is not for arrays.
    box_bytes : int, optional
        The most data that a box should touch; see `weft.plan.setting.Setting`.
    small : int, optional
        Statements that touch no more bytes run whole; by default 4 MiB, or less where the limit
        is low.
    device_limit : int, optional
        Bytes that boxes may take on a device, where they are computed on one.
    rates : Rates, optional
        Of that device.
    processors : sequence of Processor
        The devices that boxes are spread over, where they are several.
    apart : callable, optional
        What compiles a stage that does not fit a device, given the error that says so; such
        stages run on the host. Without it they are refused.

    Returns
    -------
    Plan

    Raises
    ------
    MemoryLimitError
        When the program does not fit, however it is cut.
    """
    reads = held_by_reads(filter(is_source, inputs.values()), limit)
    allowance += reads
    least = limit - allowance if device_limit is None else min(limit - allowance, device_limit)
    sizes = dict(sizes)
    for entry in program.derived:  # extents of loops are made of these, too
        sizes[entry.name] = entry.evaluate(sizes)
    program = lengthen(program, sizes, least)
    program, constants = with_owned_results(program)
    results = tuple(
        atom.name if isinstance(atom, fun.Var) else f"constant {number}"
        for number, atom in enumerate(program.body.results)
    )
    destinations: dict[str, list[Sink | None]] = {}
    for name, sink in zip(results, sinks, strict=True):
        destinations.setdefault(name, []).append(sink)
    given = bytes_given(program, sizes, destinations)
    if given and given + allowance > limit:  # no cut helps
        raise refusal_of_results(given, allowance, reads, limit, place_of_results(program))
    if small is None:
        small = min(_SMALL, max(least, 0) // 8)
    setting = Setting(
        inputs, destinations, limit - allowance, threads, compile, box_bytes, allowance,
        tuple(processors), apart, rates, reads,
    )  # fmt: skip
    alone = device_limit is None and not processors
    try:
        blocked = Blocked(program, dict(sizes))
        leaning = not processors
        made, stages = _make(blocked, setting, small, constants, least, alone, leaning)
    except MemoryLimitError as error:
        made, stages = _make_blocked(
            program, sizes, setting, small, constants, least, alone, error
        )
    peak = max([given, *(stage.peak_bytes for stage in stages)]) + allowance
    return Plan(
        program.name, tuple(stages), made.values(), inputs, results, tuple(sinks), peak, limit,
        made.constants, threads,
    )  # fmt: skip


def _make_blocked(
    program: fun.Program,
    sizes: Mapping[str, int],
    setting: Setting,
    small: int,
    constants: dict[str, Any],
    least: int,
    alone: bool,
    error: MemoryLimitError,
) -> tuple[_Maker, list[PlannedStage]]:
    """The stages of a program that does not fit, as `error` says, as its loops stand."""
    last, tried, room = error, not alone, max(least, 0)
    for whole, part in _ROOM if room else ():
        blocked = block_rounds(program, sizes, int(whole * room), int(part * room))
        if not blocked.ends and tried:
            last = _with_reasons(error, blocked)
            continue
        tried |= not blocked.ends
        try:
            spills = alone and bool(blocked.ends)
            return _make(blocked, setting, small, constants, least, spills, spills)
        except MemoryLimitError as failure:
            last = _with_reasons(failure, blocked)
    raise last from None


def _with_reasons(error: MemoryLimitError, blocked: Blocked) -> MemoryLimitError:
    """What did not fit, and why loops cannot be done a part of their rows after another."""
    found = error.found
    for reason, place in blocked.reasons:
        found += f"; nor can the rounds of the loop{f' at {place}' if place else ''}: {reason}"
    return MemoryLimitError(found, error.expected, error.advice, error.place)


def _make(
    blocked: Blocked,
    setting: Setting,
    small: int,
    constants: dict[str, Any],
    least: int,
    alone: bool,
    leaning: bool,
) -> tuple[_Maker, list[PlannedStage]]:
    """The stages, by the best cuts that fit.

    `alone`: no device takes part. `leaning`: boxes of iterated stencils may lean.
    """
    sizes = blocked.sizes
    machine = machine_of(setting.threads, setting.rates)
    program, phases = in_phases(blocked.program, sizes, least, machine, leaning)
    leans = {name for name, choice in phases.items() if choice.way.leans}

    def addressable(name: str) -> bool:
        return form_in_memory(setting.inputs[name]) is not None

    def decoded(name: str) -> tuple[int, ...] | None:
        return decoded_chunks(setting.inputs.get(name))

    on_device = setting.rates is not None or any(not p.is_host for p in setting.processors)
    staged = [p.name for p in program.params if on_device or not addressable(p.name)]
    along_rows = {
        (position, dim)
        for position, let in enumerate(program.body.statements)
        for var in let.pattern if var.name in blocked.axes
        for dim in range(len(walk.type_sizes(var.type))) if dim != blocked.axes[var.name]
    }  # fmt: skip
    refused: set[Choice] = set(along_rows)
    apart: set[int] = set()
    whole: set[int] = set()
    # Each block of rounds gives the next a whole array: two, which do not fit, or there were none.
    spill = alone and bool(blocked.ends)
    while True:
        analysis = Analysis(program, sizes, staged, leans, blocked.ends)
        small_work = SMALL_WORK if setting.processors else math.inf
        preferences = Preferences(
            small, addressable, refused, apart, small_work, whole, decoded
        )
        groups = partition(analysis, preferences)
        made = _Maker(analysis, groups, setting, constants, spill, phases)
        try:
            return made, made.stages()
        except _DoesNotFit as failure:
            if _another_way(analysis, groups, failure.group, refused, apart):
                continue
            if leans and (spill or not alone):  # what files do not help needs no flanks
                return _make(blocked, setting, small, constants, least, alone, False)
            if setting.apart is not None and failure.group.draft is not None:
                whole.update(failure.group.targets)
                continue
            if spill:
                raise failure.error from None
            spill = True  # with every cut possible again, now that memory is not what it costs
            refused = set(along_rows)
            apart.clear()


class _DoesNotFit(Exception):  # noqa: N818 (a signal: another cut is tried)
    def __init__(self, group: Group, error: MemoryLimitError) -> None:
        self.group = group
        self.error = error


def _another_way(
    analysis: Analysis, groups: list[Group], group: Group, refused: set[Choice], apart: set[int]
) -> bool:
    """Forbid what did not fit, if something else is left to try.

    Where a target fits along no dimension, so are the cuts of what needs it whole: cut
    along another dimension, those may need no more than its pieces.
    """
    draft = group.draft
    if draft is None:
        return False
    if len(draft.targets) > 1:
        apart.update(draft.targets)
        return True
    (target,) = draft.targets
    refused.add((target, draft.members[target]))
    if _is_left(analysis, target, refused):
        return True
    results = set(analysis.statements[target].results)
    found = False
    for other in groups:
        if other.draft is None or not results & other.draft.earlier:
            continue
        for position in other.draft.targets:
            refused.add((position, other.draft.members[position]))
            found |= _is_left(analysis, position, refused)
    return found


def _is_left(analysis: Analysis, target: int, refused: set[Choice]) -> bool:
    """Whether a target has a dimension along which no cut was refused."""
    tried = {dim for position, dim in refused if position == target}
    return len(tried) < len(analysis.statements[target].dims)


class _Maker:
    """The stages of a partition, each scheduled with what is in memory at its time."""

    def __init__(
        self, analysis: Analysis, groups: list[Group], setting: Setting,
        constants: dict[str, Any], spill: bool, phases: Mapping[str, PhaseChoice],
    ) -> None:  # fmt: skip
        """`spill`: what one stage gives to others is in scratch files, where it is large."""
        self.spill = spill
        self.phases = phases
        self.analysis = analysis
        self.groups = groups
        self.setting = setting
        self.constants = dict(constants)
        self.extra: dict[str, Value] = {}
        self.last_use = self._last_uses()

    def _last_uses(self) -> dict[str, int]:
        """The last stage that needs each array or scalar whole; -1 is never."""
        last: dict[str, int] = {}
        for number, group in enumerate(self.groups):
            if group.draft is not None:
                used = group.draft.whole.keys() | group.draft.earlier
                for position in group.draft.members:
                    expr = group.draft.statement(position).let.expr
                    if isinstance(expr, fun.Scatter):
                        used.update(destination.name for destination in expr.destinations)
                    if isinstance(expr, fun.Scan):
                        used.update(a.name for a in expr.initial if isinstance(a, fun.Var))
            else:
                used = set()
                inside: set[str] = set()
                for position in group.resident:
                    statement = self.analysis.statements[position]
                    used |= walk.used_names(statement.original.expr) - inside
                    inside.update(statement.results)
            for name in used:
                last[name] = number
        return last

    def stages(self) -> list[PlannedStage]:
        planned: list[PlannedStage] = []
        alive: dict[str, int] = {}  # bytes of whole arrays in memory that Weft allocated
        for number, group in enumerate(self.groups):
            needed = self._needed(number, group)
            windowed = self._windowed(group, needed)
            for name, constant in windowed.constants.items():
                self.constants[name] = constant.dtype.numpy.type(constant.value)
            kept = self._kept(number, windowed)
            spilled = self._spilled(group, kept)
            sizes = {n: 0 if n in spilled else self.analysis.bytes(n) for n in kept}
            held = sum(size for name, size in sizes.items() if self._is_ours(name))
            for output in windowed.stage.outputs:
                if output.carry and output.array:  # where it works, besides what it began with
                    held += self._carry_bytes(output.array)
            loads = {
                w.array: self.analysis.bytes(w.array)
                for w in windowed.stage.windows
                if w.axis is None and w.array not in alive and self._must_load(w.array)
            }
            resident = sum(alive.values()) + held + sum(loads.values())
            try:
                stage = self._scheduled(group, windowed, kept, resident)
            except MemoryLimitError as error:
                raise _DoesNotFit(group, error) from None
            alive.update(loads)
            alive.update((name, size) for name, size in sizes.items() if self._is_ours(name))
            for output in windowed.stage.outputs:
                if output.carry and output.array and self._carry_bytes(output.array):
                    alive[output.array] = self._carry_bytes(output.array)
            freed = tuple(
                name
                for name in alive
                if self.last_use.get(name, -1) <= number and not self._is_memory_result(name)
            )
            for name in freed:
                del alive[name]
            planned.append(
                replace(
                    stage,
                    freed=freed,
                    spilled=tuple(sorted(spilled)),
                    loads=tuple(n for n in stage.loads if n in loads),
                    read={**loads, **{n: c + loads.get(n, 0) for n, c in stage.read.items()}},
                )
            )
        return planned

    def _scheduled(
        self, group: Group, windowed: Windowed, kept: frozenset[str], resident: int
    ) -> PlannedStage:
        def scheduler(setting: Setting) -> Scheduler:
            return Scheduler(self.analysis, group.draft, windowed, kept, resident, setting)

        def tile_scheduler(tiled: Windowed) -> Scheduler:
            return Scheduler(self.analysis, group.draft, tiled, kept, resident, self.setting)

        def on(processor: Processor) -> Scheduler:
            compile, threads = processor.compile, processor.threads
            return scheduler(replace(self.setting, compile=compile, threads=threads))

        remarks: list[str] = []
        if group.draft is not None and self.setting.processors:
            members, remarks = compiled_for(self.setting.processors, on)
            spread = share(members)
            if spread is not None:
                return replace(spread, remarks=(*spread.remarks, *remarks))
        alone = scheduler(self.setting)
        stage: PlannedStage | None = None
        refusal: MemoryLimitError | None = None
        try:
            stage = side_by_side(alone) or alone.schedule()
        except MemoryLimitError as error:
            refusal = error
        tiles = in_tiles(alone, stage, tile_scheduler)
        if tiles is not None:
            return replace(tiles, remarks=(*tiles.remarks, *remarks))
        if refusal is not None:
            try:
                stage = in_fewer_slots(alone, refusal)
            except MemoryLimitError as error:
                if self.setting.apart is None or group.draft is not None:
                    raise
                alone = scheduler(replace(self.setting, compile=self.setting.apart(error)))
                stage = alone.schedule()
        assert stage is not None
        return replace(
            stage, remarks=(*stage.remarks, *remarks), smaller=in_smaller_boxes(alone, stage)
        )

    def _windowed(self, group: Group, needed: set[str]) -> Windowed:
        if group.draft is not None:
            return window(group.draft, needed, _reason(self.analysis, group, self.phases))
        return window_uncut(
            self.analysis, group.resident, needed, _reason(self.analysis, group, self.phases)
        )

    def _needed(self, number: int, group: Group) -> set[str]:
        """What of the stage's results others need: later stages, the program's results."""
        names = {
            name
            for position in group.targets
            for name in self.analysis.statements[position].results
        }
        return {
            name
            for name in names
            if self.last_use.get(name, -1) > number or name in self.setting.sinks
        }

    def _kept(self, number: int, windowed: Windowed) -> frozenset[str]:
        """Results that need an array in memory (or scalars), whole."""
        kept = set()
        for output in windowed.stage.outputs:
            if output.carry:
                continue
            name = output.array
            later = self.last_use.get(name, -1) > number or self._is_memory_result(name)
            if later or memory_sink(self.setting.sinks[name]) is not None:
                kept.add(name)
        return frozenset(kept)

    def _spilled(self, group: Group, kept: frozenset[str]) -> frozenset[str]:
        """Those of the arrays kept that go to scratch files: made box by box, for later stages."""
        if not self.spill or group.draft is None:
            return frozenset()
        return frozenset(
            name
            for name in kept & self.analysis.arrays.keys()
            if self.analysis.bytes(name) > _SPILLED
            and self._is_ours(name)
            and not self._is_memory_result(name)
        )

    def _is_memory_result(self, name: str) -> bool:
        return any(sink is None for sink in self.setting.sinks.get(name, ()))

    def _is_ours(self, name: str) -> bool:
        """Whether a kept result is in memory that Weft allocates."""
        return memory_sink(self.setting.sinks.get(name, ())) is None

    def _must_load(self, name: str) -> bool:
        return name in self.setting.inputs and form_in_memory(self.setting.inputs[name]) is None

    def _carry_bytes(self, name: str) -> int:
        return self.analysis.bytes(name) if name in self.analysis.arrays else 2 * _SCALAR

    def values(self) -> dict[str, Value]:
        """Every parameter and result of a statement, with its dtype and actual shape."""
        return {
            name: Value(name, type_.dtype.numpy, self.analysis.shapes[name])
            for name, type_ in self.analysis.types.items()
        }


def _reason(analysis: Analysis, group: Group, phases: Mapping[str, PhaseChoice]) -> str:
    """Why a stage is as it is, in words."""
    if group.draft is None:
        uncut = [p for p in group.resident if not analysis.statements[p].dims]
        names = [analysis.statements[p].results[0] for p in uncut if p not in analysis.free]
        if not names:
            return "small: runs whole"
        return f"{names[0]} needs all of its input"
    draft = group.draft
    cuts = ", ".join(
        f"{draft.statement(p).results[0]} along axis {draft.members[p]}" for p in draft.targets
    )
    for p in sorted(draft.members):
        loop = cut_loop(draft.statement(p).let, draft.statement(p).leans)
        if loop is not None:
            rounds = int(loop.stencil.rounds.evaluate(analysis.sizes))
            margin = int(loop.margins[draft.members[p]].evaluate(analysis.sizes))
            choice = phases[draft.statement(p).results[0]]
            cuts += f", {choice.describe(rounds, margin)}"
        cuts += "".join(f", {analysis.ends[n]}" for n in draft.statement(p).results[:1]
                        if n in analysis.ends)
    waits = sorted(draft.earlier)
    return f"cut {cuts}" + (f"; after all of {', '.join(waits)}" if waits else "")
