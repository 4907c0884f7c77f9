"""Making a plan: partition, window, schedule; other forms of a program that does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import numpy as np

from weft.errors import MemoryLimitError
from weft.fun import nodes as fun
from weft.plan.begun import begin_scans, is_worth_sharing
from weft.plan.block_rounds import Blocked, block_rounds, numbers_of_blocks
from weft.plan.code import Rates
from weft.plan.cuts import Cutter, Made
from weft.plan.footprint import pointer_params
from weft.plan.lengthen import lengthen
from weft.plan.nodes import Input, Plan, PlannedStage
from weft.plan.one_by_one import PlanPart
from weft.plan.pointers import Pointers
from weft.plan.protocols import Sink, held_by_reads, is_source
from weft.plan.read_once import decoded_often, read_once, without_address
from weft.plan.refusals import refusal_of_results
from weft.plan.results import bytes_given, place_of_results, with_owned_results
from weft.plan.setting import ALLOWANCE, Compile, Processor, Setting
from weft.plan.sorted_runs import sorted_runs

_SMALL = 4 << 20
_ROOM = ((1, 2 / 3), (1, 1 / 4), (1 / 2, 1 / 4))
"""Of the limit: what the arrays of a loop take that is done at once (workspace comes besides), and
what blocks of rounds share. The first that fits."""

_RUNS = (4, 8, 32)
"""A run that is sorted takes one part of so many of the limit."""


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
    CompileError
        Where a compiler refuses the code of a stage.
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
    cutter = Cutter(setting, small, least, constants, pointers, alone, in_one_stage)
    made, stages = _cut(program, sizes, cutter)
    _compile(stages, threads)
    peak = max([given, *(stage.peak_bytes for stage in stages)]) + allowance
    return Plan(
        program.name, tuple(stages), made.values(), inputs, results, tuple(sinks), peak, limit,
        made.constants, threads,
    )  # fmt: skip


def _cut(program: fun.Program, sizes: Mapping[str, int], cutter: Cutter) -> Made:
    """The stages of a program as it is, or of another form of it where that is better."""
    if not cutter.in_one_stage:
        begun = _with_begun_scans(program, sizes, cutter)
        if begun is not None:
            return begun
    try:
        found = cutter.cut(Blocked(program, dict(sizes)), leaning=not cutter.setting.processors)
        if cutter.alone and not cutter.in_one_stage:
            found = _reading_once(program, sizes, cutter, found)
    except MemoryLimitError as error:
        return _cut_other_forms(program, sizes, cutter, error)
    return found


def _compile(stages: Sequence[PlannedStage], threads: int) -> None:
    """Compile the code of stages: with so many threads, since compilers are processes."""
    codes = list({id(code): code for stage in stages for code in stage.codes}.values())
    if len(codes) > 1 and threads > 1:
        pool = ThreadPoolExecutor(min(len(codes), threads))
        waiting = []
        try:
            with suppress(RuntimeError):  # there are no new threads while Python ends
                waiting += [pool.submit(code.compile) for code in codes]
            for done in waiting:
                done.result()
        finally:  # where one fails, or is interrupted, nobody waits for the others
            pool.shutdown(wait=False, cancel_futures=True)
    for code in codes:  # those that are not compiled yet
        code.compile()


def _with_begun_scans(
    program: fun.Program, sizes: Mapping[str, int], cutter: Cutter
) -> Made | None:
    """The stages where devices share the boxes of scans, too; None where they had better not."""
    setting = cutter.setting
    if not setting.processors:
        return None
    begun = begin_scans(program, lambda let: is_worth_sharing(let, program, sizes, setting))
    if not begun.begins:
        return None
    form = Blocked(begun.program, dict(sizes))
    try:
        made, stages = cutter.cut(form, leaning=False, begins=begun.begins)
    except MemoryLimitError:
        return None
    alone = {name for s in stages if not s.shares for name, _, _ in s.stage.ranges}
    return None if alone & begun.begins.keys() else (made, stages)


def _reading_once(
    program: fun.Program, sizes: Mapping[str, int], cutter: Cutter, found: Made
) -> Made:
    """The stages that were found, or those that read once what they decode many times."""
    inputs = cutter.setting.inputs
    often = decoded_often(found[1], inputs)
    if not often:
        return found
    try:
        other = cutter.cut(read_once(program, sizes, often), leaning=True)
    except MemoryLimitError:
        return found
    return found if decoded_often(other[1], inputs) else other


def _cut_other_forms(
    program: fun.Program, sizes: Mapping[str, int], cutter: Cutter, error: MemoryLimitError
) -> Made:
    """The stages of a program that does not fit, as `error` says, of some other form of it."""
    setting, alone = cutter.setting, cutter.alone
    room = max(setting.limit, 0)  # of the host, which sorts in runs, whatever computes the rest
    shares = () if setting.processors else _RUNS
    runs = (sorted_runs(program, dict(sizes), room, share) for share in shares)
    blocks = _in_blocks_of_rounds(program, sizes, max(cutter.least, 0))
    once = (read_once(program, sizes, n) for n in (without_address(setting.inputs),) if alone)
    for forms in (runs, blocks, once):
        last = error
        for form in forms:
            if not form.ends:  # as it was when it did not fit
                last = _with_reasons(error, form)
                continue
            try:
                return cutter.cut(form, leaning=alone)
            except MemoryLimitError as failure:
                last = _with_reasons(failure, form)
        error = last
    if setting.plan_part is not None:  # rounds of loops may be planned alone
        try:
            return cutter.cut(Blocked(program, dict(sizes)), leaning=alone, one_by_one=True)
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
