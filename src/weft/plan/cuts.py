"""Cuts: the stages of one form of a program, by the best cuts that fit.

What does not fit is cut along another dimension, or its results apart, or with fewer arrays in
memory; a partition is made anew for each of these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from weft.errors import MemoryLimitError
from weft.fun import nodes as fun
from weft.fun import walk
from weft.plan.block_rounds import Blocked
from weft.plan.maker import DoesNotFit, Maker
from weft.plan.nodes import PlannedStage, SeveralStages
from weft.plan.one_by_one import is_driven
from weft.plan.partition import Choice, Group, Preferences, Tried, partition
from weft.plan.phases import Choice as PhaseChoice
from weft.plan.phases import in_phases, machine_of
from weft.plan.pointers import Pointers
from weft.plan.protocols import decoded_chunks
from weft.plan.setting import Setting, form_in_memory
from weft.plan.sharing import SMALL_WORK
from weft.plan.statements import Analysis
from weft.records import dataclass

Made: TypeAlias = tuple[Maker, list[PlannedStage]]


@dataclass(frozen=True, slots=True)
class Cutter:
    """What cuts a program into stages, whatever form of it is tried.

    Attributes
    ----------
    setting : Setting
    small : int
        Statements that touch no more bytes run whole.
    least : int
        Bytes that arrays may take where they may take least: of the host, or of a device.
    constants : dict of str to array or scalar
        Results that are known before anything runs.
    pointers : mapping of str to Pointers
        Parameters whose elements are known.
    alone : bool
        Whether no device takes part.
    in_one_stage : bool
        Whether several stages are of no use.
    """

    setting: Setting
    small: int
    least: int
    constants: dict[str, Any]
    pointers: Mapping[str, Pointers]
    alone: bool
    in_one_stage: bool

    def cut(
        self,
        form: Blocked,
        *,
        leaning: bool,
        begins: Mapping[str, tuple[fun.Var, ...]] | None = None,
        one_by_one: bool = False,
    ) -> Made:
        """The stages of a form of the program, and what made them.

        Parameters
        ----------
        form : Blocked
        leaning : bool
            Whether boxes of iterated stencils may lean.
        begins : mapping of str to tuple of Var, optional
            For scans, by their first results, what tiles begin with (`weft.plan.begun`).
        one_by_one : bool
            Whether rounds of loops may be planned alone.

        Raises
        ------
        MemoryLimitError
            Where nothing fits, however it is cut.
        SeveralStages
            Where one is not enough, though it was asked for.
        """
        sizes, setting = form.sizes, self.setting
        machine = machine_of(setting.threads, setting.rates)
        program, phases = in_phases(form.program, sizes, self.least, machine, leaning)
        leans = {name for name, choice in phases.items() if choice.way.leans}
        staged = [
            p.name for p in program.params if setting.on_device or not self.addressable(p.name)
        ]
        along_rows = _along_rows(form, program)
        refused: set[Choice] = set(along_rows)
        apart: set[int] = set()
        whole: dict[int, MemoryLimitError] = {}  # and why no boxes of it fit
        alone_in_rounds: set[int] = set()
        # Each block of rounds gives the next a whole array: two, which do not fit, or there were
        # none.
        spill = self.alone and bool(form.ends)
        ends = dict(form.ends)
        cheapest: dict[int, MemoryLimitError] = {}

        def analysed() -> tuple[Analysis, Tried]:
            analysis = Analysis(
                program, sizes, staged, leans, ends, self.pointers, begins, self.alone
            )
            return analysis, Tried()

        analysis, tried = analysed()
        while True:
            analysis.begin_again()
            small_work = SMALL_WORK if setting.processors else math.inf
            preferences = Preferences(
                self.small, self.addressable, refused, apart, small_work, whole.keys(),
                self.decoded, setting.on_device, alone_in_rounds, len(setting.processors),
            )  # fmt: skip
            groups = partition(analysis, preferences, tried)
            if self.in_one_stage and len(groups) > 1:
                raise SeveralStages
            made = Maker(analysis, groups, setting, self.constants, spill, phases, whole)
            try:
                return made, made.stages()
            except DoesNotFit as failure:
                error = _cheapest(failure, cheapest)
                if one_by_one or setting.apart is not None:
                    loops = _loops(analysis, failure.group) - alone_in_rounds
                    alone_in_rounds |= loops
                    if loops:
                        continue
                if _another_way(analysis, groups, failure.group, refused, apart, phases):
                    continue
                if leans and (spill or not self.alone):
                    # What files do not help needs no flanks.
                    return self.cut(form, leaning=False, one_by_one=one_by_one)
                if setting.apart is not None and failure.group.draft is not None:
                    whole.update(dict.fromkeys(failure.group.targets, error))
                    continue
                if spill:
                    inside = _read_inside(analysis, failure.group)
                    if not inside:
                        raise error from None
                    ends.update(dict.fromkeys(inside, "for what is cut otherwise"))
                    analysis, tried = analysed()
                spill = True  # with every cut possible again, now that memory is not what it costs
                refused = set(along_rows)
                apart.clear()

    def addressable(self, name: str) -> bool:
        """Whether kernels on the host may read a parameter where it is."""
        return form_in_memory(self.setting.inputs[name]) is not None

    def decoded(self, name: str) -> tuple[int, ...] | None:
        """The chunks of a parameter that are decoded to be read; None of one that has none."""
        return decoded_chunks(self.setting.inputs.get(name))


def _along_rows(form: Blocked, program: fun.Program) -> set[Choice]:
    """The cuts of what blocks of rounds share other than along the axis that they are made of."""
    return {
        (position, dim)
        for position, let in enumerate(program.body.statements)
        for var in let.pattern if var.name in form.axes
        for dim in range(len(walk.type_sizes(var.type))) if dim != form.axes[var.name]
    }  # fmt: skip


def _loops(analysis: Analysis, group: Group) -> set[int]:
    """The loops of a stage that runs whole whose rounds are worth stages of their own."""
    if group.draft is not None:
        return set()
    return {p for p in group.resident if is_driven(analysis.statements[p].original)}


def _cheapest(failure: DoesNotFit, known: dict[int, MemoryLimitError]) -> MemoryLimitError:
    """What is said of the best cut of what did not fit; `known`: that of each target so far."""
    error, targets = failure.error, failure.group.targets
    for target in targets:
        before = known.get(target)
        if before is None or 0 < error.needed < before.needed:
            known[target] = error
    return known[targets[0]] if len(targets) == 1 else error


def _read_inside(analysis: Analysis, group: Group) -> set[str]:
    """The arrays that the targets of a stage read and that it makes for them.

    Made in full by stages before, they are cut as suits what makes them, such as a library call.
    """
    draft = group.draft
    if draft is None:
        return set()
    read = {key[1] for key in draft.axes if key[0] in draft.targets}
    return {
        name
        for name in read - analysis.ends.keys()
        if analysis.producer.get(name, -1) in draft.members.keys() - draft.targets.keys()
    }


def _another_way(
    analysis: Analysis, groups: list[Group], group: Group, refused: set[Choice], apart: set[int],
    phases: Mapping[str, PhaseChoice],
) -> bool:  # fmt: skip
    """Forbid what did not fit, if something else is left to try.

    What does not fit in one pass of a loop fits in no other. Where a target fits along no
    dimension, so are the cuts of what needs it whole: cut along another dimension, those may need
    no more than its pieces.
    """
    draft = group.draft
    if draft is None:
        return False
    if len(draft.targets) > 1:
        apart.update(draft.targets)
        return True
    (target,) = draft.targets
    refused.update((p, draft.members[target]) for p in _passes_like(analysis, target, phases))
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


def _passes_like(
    analysis: Analysis, target: int, phases: Mapping[str, PhaseChoice]
) -> list[int]:
    """All passes of the loop of which a target is one; the target itself, where it is none."""
    choices = [phases.get(s.results[0]) if s.results else None for s in analysis.statements]
    own = choices[target]
    return [target] if own is None else [p for p, choice in enumerate(choices) if choice is own]


def _is_left(analysis: Analysis, target: int, refused: set[Choice]) -> bool:
    """Whether a target has a dimension along which no cut was refused."""
    tried = {dim for position, dim in refused if position == target}
    return not tried.issuperset(analysis.statements[target].cuttable)
