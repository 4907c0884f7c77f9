"""Making a plan: partition, window, schedule; other cuts where the best do not fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from weft.errors import MemoryLimitError
from weft.fun import nodes as fun
from weft.fun import walk
from weft.plan.begun import begin_scans, is_worth_sharing
from weft.plan.block_rounds import Blocked, block_rounds, numbers_of_blocks
from weft.plan.code import Rates
from weft.plan.footprint import pointer_params
from weft.plan.lengthen import lengthen
from weft.plan.maker import DoesNotFit, Maker
from weft.plan.nodes import Input, Plan, PlannedStage, SeveralStages
from weft.plan.one_by_one import PlanPart, is_driven
from weft.plan.partition import Choice, Group, Preferences, Tried, partition
from weft.plan.phases import Choice as PhaseChoice
from weft.plan.phases import in_phases, machine_of
from weft.plan.pointers import Pointers
from weft.plan.protocols import Sink, decoded_chunks, held_by_reads, is_source
from weft.plan.read_once import decoded_often, read_once, without_address
from weft.plan.refusals import refusal_of_results
from weft.plan.results import bytes_given, place_of_results, with_owned_results
from weft.plan.setting import ALLOWANCE, Compile, Processor, Setting, form_in_memory
from weft.plan.sharing import SMALL_WORK
from weft.plan.sorted_runs import sorted_runs
from weft.plan.statements import Analysis

_SMALL = 4 << 20
_ROOM = ((1, 2 / 3), (1, 1 / 4), (1 / 2, 1 / 4))
"""Of the limit: what the arrays of a loop take that is done at once (workspace comes besides), and
what blocks of rounds share. The first that fits."""

_RUNS = (4, 8, 32)
"""A run that is sorted takes one part of so many of the limit."""

Made: TypeAlias = tuple[Maker, list[PlannedStage]]


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
    in_one_stage: bool = False,
    spared: set[str] | None = None,
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
    in_one_stage : bool
        Whether another plan than of one stage is of no use, and not made.
    spared : set of str, optional
        Where it is given, boxes that copy all there is to a device many times over are refused, and
        what they compute is added to it.

    Returns
    -------
    Plan

    Raises
    ------
    MemoryLimitError
        When the program does not fit, however it is cut.
    SeveralStages
        Where one is not enough, though it was asked for.
    """
    plan_part: PlanPart | None = None
    if not in_one_stage:
        plan_part = partial(_plan_part, partial(
            plan_program, threads=threads, compile=compile, allowance=allowance,
            box_bytes=box_bytes, small=small, device_limit=device_limit, rates=rates,
            processors=processors, apart=apart, spared=spared,
        ), limit)  # fmt: skip
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
        tuple(processors), apart, rates, reads, plan_part, spared,
    )  # fmt: skip
    alone = device_limit is None and not processors
    known = ((name, inputs[name]) for name in pointer_params(program))
    pointers = {name: Pointers(array) for name, array in known if isinstance(array, np.ndarray)}
    make = partial(
        _make, setting=setting, small=small, constants=constants, least=least, alone=alone,
        in_one_stage=in_one_stage, pointers=pointers,
    )  # fmt: skip
    found = _with_begun_scans(program, sizes, setting, make) if not in_one_stage else None
    if found is None:
        try:
            found = make(Blocked(program, dict(sizes)), leaning=not processors)
            if alone and not in_one_stage:
                found = _reading_once(program, sizes, inputs, make, found)
        except MemoryLimitError as error:
            found = _make_other_forms(
                program, sizes, inputs, least, alone, make, error, plan_part is not None,
                None if processors else max(limit - allowance, 0),
            )
    made, stages = found
    peak = max([given, *(stage.peak_bytes for stage in stages)]) + allowance
    return Plan(
        program.name, tuple(stages), made.values(), inputs, results, tuple(sinks), peak, limit,
        made.constants, threads,
    )  # fmt: skip


def _with_begun_scans(
    program: fun.Program, sizes: Mapping[str, int], setting: Setting, make: Callable[..., Made]
) -> Made | None:
    """The stages where devices share the boxes of scans, too; None where they had better not."""
    if not setting.processors:
        return None
    begun = begin_scans(program, lambda let: is_worth_sharing(let, program, sizes, setting))
    if not begun.begins:
        return None
    try:
        made, stages = make(Blocked(begun.program, dict(sizes)), leaning=False, begins=begun.begins)
    except MemoryLimitError:
        return None
    alone = {name for s in stages if not s.shares for name, _, _ in s.stage.ranges}
    return None if alone & begun.begins.keys() else (made, stages)


def _reading_once(
    program: fun.Program, sizes: Mapping[str, int], inputs: Mapping[str, Input],
    make: Callable[..., Made], found: Made,
) -> Made:  # fmt: skip
    """The stages that were found, or those that read once what they decode many times."""
    often = decoded_often(found[1], inputs)
    if not often:
        return found
    try:
        other = make(read_once(program, sizes, often), leaning=True)
    except MemoryLimitError:
        return found
    return found if decoded_often(other[1], inputs) else other


def _make_other_forms(
    program: fun.Program,
    sizes: Mapping[str, int],
    inputs: Mapping[str, Input],
    least: int,
    alone: bool,
    make: Callable[..., Made],
    error: MemoryLimitError,
    one_by_one: bool,
    sorting: int | None,
) -> Made:
    """The stages of a program that does not fit, as `error` says, of some other form of it.

    `one_by_one`: rounds of loops may be planned alone, where nothing else fits. `sorting`: bytes of
    the host, which sorts in runs, whatever device computes the rest; None where it does not.
    """
    room = max(least, 0)
    shares = () if sorting is None else _RUNS
    runs = (sorted_runs(program, dict(sizes), sorting or 0, share) for share in shares)
    once = (read_once(program, sizes, names) for names in (without_address(inputs),) if alone)
    for forms in (runs, _in_blocks_of_rounds(program, sizes, room), once):
        last = error
        for form in forms:
            if not form.ends:  # as it was when it did not fit
                last = _with_reasons(error, form)
                continue
            try:
                return make(form, leaning=alone)
            except MemoryLimitError as failure:
                last = _with_reasons(failure, form)
        error = last
    if one_by_one:
        try:
            return make(Blocked(program, dict(sizes)), leaning=alone, one_by_one=True)
        except MemoryLimitError as failure:
            if failure.found != error.found:  # there are such loops
                reason, *_ = failure.found.split(";")
                error = _also(error, f"; nor do rounds alone fit: {reason}", failure)
    raise error from None


def _in_blocks_of_rounds(
    program: fun.Program, sizes: Mapping[str, int], room: int
) -> Iterator[Blocked]:
    """The forms with blocks of rounds, each once."""
    known = set()
    for whole, part in _ROOM if room else ():
        most = int(whole * room), int(part * room)
        numbers = numbers_of_blocks(program, sizes, *most)
        if numbers not in known:
            known.add(numbers)
            yield block_rounds(program, sizes, *most)


def _plan_part(
    plan: Callable[..., Plan], limit: int, program: fun.Program, sizes: Mapping[str, int],
    inputs: Mapping[str, Input], sinks: Sequence[Sink | None], taken: int,
) -> Plan:  # fmt: skip
    """The plan of a part of a program, where so many bytes of the limit are taken."""
    return plan(program, sizes, inputs, sinks, limit - taken)


def _with_reasons(error: MemoryLimitError, blocked: Blocked) -> MemoryLimitError:
    """What did not fit, and why loops cannot be done a part of their rows after another."""
    for reason, place in blocked.reasons:
        where = f" at {place}" if place else ""
        error = _also(error, f"; nor can the rounds of the loop{where}: {reason}")
    return error


def _also(
    error: MemoryLimitError, reason: str, other: MemoryLimitError | None = None
) -> MemoryLimitError:
    """The error with one more reason why there is no other way.

    `other`: what is said of that way. The advice is that of the one which needs less.
    """
    least = other if other is not None and 0 < other.needed < error.needed else error
    found = MemoryLimitError(error.found + reason, error.expected, least.advice, error.place)
    found.needed = least.needed
    return found


def _make(
    blocked: Blocked,
    setting: Setting,
    small: int,
    constants: dict[str, Any],
    least: int,
    alone: bool,
    leaning: bool,
    in_one_stage: bool,
    pointers: Mapping[str, Pointers],
    begins: Mapping[str, tuple[fun.Var, ...]] | None = None,
    one_by_one: bool = False,
) -> Made:
    """The stages, by the best cuts that fit.

    `alone`: no device takes part. `leaning`: boxes of iterated stencils may lean.
    `in_one_stage`: several are of no use. `pointers`: parameters whose elements are known.
    `begins`: of tiles of scans. `one_by_one`: rounds of loops may be planned alone.
    """
    sizes = blocked.sizes
    machine = machine_of(setting.threads, setting.rates)
    program, phases = in_phases(blocked.program, sizes, least, machine, leaning)
    leans = {name for name, choice in phases.items() if choice.way.leans}

    def addressable(name: str) -> bool:
        return form_in_memory(setting.inputs[name]) is not None

    def decoded(name: str) -> tuple[int, ...] | None:
        return decoded_chunks(setting.inputs.get(name))

    staged = [p.name for p in program.params if setting.on_device or not addressable(p.name)]
    along_rows = {
        (position, dim)
        for position, let in enumerate(program.body.statements)
        for var in let.pattern if var.name in blocked.axes
        for dim in range(len(walk.type_sizes(var.type))) if dim != blocked.axes[var.name]
    }  # fmt: skip
    refused: set[Choice] = set(along_rows)
    apart: set[int] = set()
    whole: set[int] = set()
    alone_in_rounds: set[int] = set()
    # Each block of rounds gives the next a whole array: two, which do not fit, or there were none.
    spill = alone and bool(blocked.ends)
    ends = dict(blocked.ends)
    cheapest: dict[int, MemoryLimitError] = {}

    def analysed() -> tuple[Analysis, Tried]:
        analysis = Analysis(program, sizes, staged, leans, ends, pointers, begins, alone)
        return analysis, Tried()

    analysis, tried = analysed()
    while True:
        analysis.begin_again()
        small_work = SMALL_WORK if setting.processors else math.inf
        preferences = Preferences(
            small, addressable, refused, apart, small_work, whole, decoded, setting.on_device,
            alone_in_rounds, len(setting.processors),
        )  # fmt: skip
        groups = partition(analysis, preferences, tried)
        if in_one_stage and len(groups) > 1:
            raise SeveralStages
        made = Maker(analysis, groups, setting, constants, spill, phases)
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
            if leans and (spill or not alone):  # what files do not help needs no flanks
                return _make(
                    blocked, setting, small, constants, least, alone, False, in_one_stage,
                    pointers, one_by_one=one_by_one,
                )  # fmt: skip
            if setting.apart is not None and failure.group.draft is not None:
                whole.update(failure.group.targets)
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
