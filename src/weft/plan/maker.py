"""The stages of a partition, one after another, each with what is in memory at its time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from weft.errors import MemoryLimitError
from weft.fun import nodes as fun
from weft.ops.runs import MERGES
from weft.plan.device_boxes import copies_often, in_fewer_slots
from weft.plan.loops import cut_loop
from weft.plan.nodes import PlannedStage, Value, memory_sink
from weft.plan.one_by_one import Planned as PlannedRounds
from weft.plan.one_by_one import is_driven
from weft.plan.partition import Group
from weft.plan.phases import Choice as PhaseChoice
from weft.plan.refusals import refusal_of_copies
from weft.plan.schedule import Scheduler
from weft.plan.setting import Processor, Setting, form_in_memory
from weft.plan.shared_tiles import share_tiles
from weft.plan.sharing import compiled_for, in_smaller_boxes, share
from weft.plan.side_by_side import side_by_side
from weft.plan.statements import Analysis, Statement
from weft.plan.tiled import in_tiles
from weft.plan.times import HOST, on_host
from weft.plan.window import Windowed, window, window_uncut

_SPILLED = 1 << 20  # bytes of an array that is worth a scratch file,
_SPILLED_PART = 16  # or one of so many parts of the limit, where that is less
_SCALAR = 16  # bytes of the largest scalar


class DoesNotFit(Exception):  # noqa: N818 (a signal: another cut is tried)
    """A stage of which no boxes fit."""

    def __init__(self, group: Group, error: MemoryLimitError) -> None:
        self.group = group
        self.error = error


class Maker:
    """The stages of a partition, each scheduled with what is in memory at its time."""

    def __init__(
        self, analysis: Analysis, groups: list[Group], setting: Setting,
        constants: dict[str, Any], spill: bool, phases: Mapping[str, PhaseChoice],
        whole: Mapping[int, MemoryLimitError],
    ) -> None:  # fmt: skip
        """`spill`: what one stage gives to others is in scratch files, where it is large.

        `whole`: statements that are not cut, since no boxes of them fit, as these errors say.
        """
        self.whole = whole
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
                    used |= self.analysis.used(position, True) - inside
                    inside.update(statement.results)
            for name in used:
                last[name] = number
        return last

    def stages(self) -> list[PlannedStage]:
        planned: list[PlannedStage] = []
        alive: dict[str, int] = {}  # bytes of whole arrays in memory that Weft allocated
        for number, group in enumerate(self.groups):
            if group.one_by_one:
                planned.append(self._one_by_one(number, group, alive))
                continue
            needed = self._needed(number, group)
            windowed = self._windowed(group, needed)
            self.constants |= windowed.constants
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
                raise DoesNotFit(group, error) from None
            if loads and stage.code.device is None:
                seconds = stage.seconds + sum(loads.values()) / HOST.files
                stage = replace(stage, seconds=seconds)
            alive.update(loads)
            alive.update((name, size) for name, size in sizes.items() if self._is_ours(name))
            for output in windowed.stage.outputs:
                if output.carry and output.array and self._carry_bytes(output.array):
                    alive[output.array] = self._carry_bytes(output.array)
            freed = self._freed(number, alive)
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

    def _freed(self, number: int, alive: dict[str, int]) -> tuple[str, ...]:
        """The arrays in memory that no stage needs after one; they are not alive any more."""
        freed = tuple(
            name
            for name in alive
            if self.last_use.get(name, -1) <= number and not self._is_memory_result(name)
        )
        for name in freed:
            del alive[name]
        return freed

    def _one_by_one(self, number: int, group: Group, alive: dict[str, int]) -> PlannedStage:
        """A loop whose rounds are planned alone."""
        needed = self._needed(number, group)
        held = sum(alive.values())
        donated = [
            name for name in alive
            if self.last_use.get(name, -1) <= number and name not in self.setting.sinks
        ]  # fmt: skip
        assert self.setting.plan_part is not None
        try:
            planned = PlannedRounds(
                self.analysis, group.resident, self.setting.inputs, self.setting.plan_part, held,
                donated, lambda size: self.spill and size > self.least_spilled,
            )  # fmt: skip
        except MemoryLimitError as error:
            raise DoesNotFit(group, error) from None
        rounds = planned.rounds
        kept = {
            name for name in needed
            if self.last_use.get(name, -1) > number or self._is_memory_result(name)
            or memory_sink(self.setting.sinks.get(name, ())) is not None
        }  # fmt: skip
        spilled = {
            one.result for one in rounds.carried
            if one.result in kept and one.spilled and not self._is_memory_result(one.result)
            and self._is_ours(one.result)
        }  # fmt: skip
        sizes = {
            name: 0 if name in spilled or not self._is_ours(name) else self.analysis.bytes(name)
            for name in kept & self.analysis.arrays.keys()
        }
        alive.update(sizes)
        peak = max(planned.resident + rounds.peak, sum(alive.values()))
        if peak > self.setting.limit:
            raise DoesNotFit(group, planned.refusal(peak, self.setting))
        if rounds.round.replan is not None:  # no round passes the limit, whatever it is like
            peak = max(peak, self.setting.limit)
        sinks = {name: self.setting.sinks.get(name, ()) for name in needed}
        stage = planned.stage(peak, sinks, kept, spilled)
        return replace(stage, freed=self._freed(number, alive))

    def _scheduled(
        self, group: Group, windowed: Windowed, kept: frozenset[str], resident: int
    ) -> PlannedStage:
        one = self.setting.of_one()

        def scheduler(setting: Setting, form: Windowed = windowed) -> Scheduler:
            return Scheduler(self.analysis, group.draft, form, kept, resident, setting)

        def tile_scheduler(tiled: Windowed) -> Scheduler:
            return scheduler(one, tiled)

        def on(processor: Processor, form: Windowed = windowed) -> Scheduler:
            return scheduler(self.setting.of_one(processor), form)

        remarks: list[str] = []
        if group.draft is not None and self.setting.processors:
            members, remarks = compiled_for(self.setting.processors, on)
            spread = share(members) or share_tiles(members, on)
            if spread is not None:
                return replace(spread, remarks=(*spread.remarks, *remarks))
        alone = scheduler(one)
        stage: PlannedStage | None = None
        refusal: MemoryLimitError | None = None
        try:
            stage = side_by_side(alone) or alone.schedule()
        except MemoryLimitError as error:
            refusal = error
        tiles = in_tiles(alone, stage, tile_scheduler)
        if tiles is not None:
            return replace(tiles, remarks=(*tiles.remarks, *remarks))
        spared = self.setting.spared
        if stage is not None and spared is not None and copies_often(alone, stage):
            spared.update(output.array for output in stage.stage.outputs)
            raise refusal_of_copies(alone, stage)
        if refusal is not None:
            try:
                stage = in_fewer_slots(alone, refusal)
            except MemoryLimitError as error:
                if self.setting.apart is None or group.draft is not None:
                    raise
                if any(is_driven(self.analysis.statements[p].original) for p in group.resident):
                    raise  # its rounds may go there one by one
                reason = next((self.whole[p] for p in group.resident if p in self.whole), error)
                alone = scheduler(replace(one, compile=self.setting.apart(reason), rates=None))
                stage = alone.schedule()
        assert stage is not None
        if stage.code.device is None:
            stage = on_host(alone, stage)
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

    @property
    def least_spilled(self) -> int:
        """Bytes that an array has to have more of, to be in a scratch file."""
        return min(_SPILLED, max(self.setting.limit, 0) // _SPILLED_PART)

    def _spilled(self, group: Group, kept: frozenset[str]) -> frozenset[str]:
        """Those of the arrays kept that go to scratch files: made box by box, for later stages."""
        if not self.spill or group.draft is None:
            return frozenset()
        return frozenset(
            name
            for name in kept & self.analysis.arrays.keys()
            if self.analysis.bytes(name) > self.least_spilled
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


def _cut(statement: Statement, dim: int) -> str:
    """Along what a statement is cut."""
    if statement.adds_up(dim):
        return f"the sums of {statement.results[0]}, whose parts are added in memory"
    call = statement.let.expr
    merged = isinstance(call, fun.Call) and call.routine in MERGES
    return f"{statement.results[0]} along axis {dim}{', merged from runs' if merged else ''}"


def _reason(analysis: Analysis, group: Group, phases: Mapping[str, PhaseChoice]) -> str:
    """Why a stage is as it is, in words."""
    if group.draft is None:
        uncut = [p for p in group.resident if not analysis.statements[p].cuttable]
        names = [analysis.statements[p].results[0] for p in uncut if p not in analysis.free]
        if not names:
            return "small: runs whole"
        return f"{names[0]} needs all of its input"
    draft = group.draft
    cuts = ", ".join(_cut(draft.statement(p), draft.members[p]) for p in draft.targets)
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
