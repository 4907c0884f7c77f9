"""A plan told to people: what runs in which order, on what, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from weft.plan.at_once import AtOnce
from weft.plan.code import DeviceCode
from weft.plan.nodes import Plan, PlannedStage, Tiles, duration_text, memory_sink, size_text
from weft.plan.protocols import Sink, Source, held_by_reads, is_source
from weft.plan.rounds import Rounds
from weft.records import dataclass

_WHERE = {
    "direct": "read where it lies",
    "staged": "read ahead into buffers",
    "resident": "in memory",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an explanation; `depth` 0 is the heading."""

    depth: int
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A plan as text (`str`) or HTML, and its numbers.

    Attributes
    ----------
    plan : Plan or AtOnce
    peak_bytes : int
        An upper bound of what running it allocates.
    bytes_moved : int
        Read from inputs and written to results.
    seconds : float
        How long it takes, predicted: a matter of factors, without what compilers take.
    kernels : tuple of str
        Every compiled kernel, one line each, in the order in which they run. Of those on a device
        that do the same, a box launches what suits its sizes.
    passes : dict of str to float
        For each input, how often it is read in full.
    """

    plan: Plan | AtOnce

    @property
    def peak_bytes(self) -> int:
        return self.plan.peak_bytes

    @property
    def bytes_moved(self) -> int:
        return self.plan.bytes_moved

    @property
    def seconds(self) -> float:
        return self.plan.seconds

    @property
    def kernels(self) -> tuple[str, ...]:
        if isinstance(self.plan, AtOnce):
            return self.plan.kernels
        return tuple(kernel for stage in self.plan.stages for kernel in stage.kernels)

    @property
    def passes(self) -> dict[str, float]:
        return self.plan.passes if isinstance(self.plan, AtOnce) else passes(self.plan)

    def lines(self) -> list[Line]:
        """The explanation, line by line."""
        plan = self.plan
        if isinstance(plan, AtOnce):
            return [Line(depth, text) for depth, text in plan.lines()]
        return [*_heading(plan), *_inputs(plan), *_stages(plan), *_results(plan)]

    def __str__(self) -> str:
        return "\n".join("  " * line.depth + line.text for line in self.lines())

    def __repr__(self) -> str:
        return str(self)

    def html(self) -> str:
        """The same as nested lists, in HTML."""
        pieces: list[str] = ['<div class="weft-plan">']
        depth = -1
        for line in self.lines():
            while depth < line.depth:
                pieces.append("<ul>")
                depth += 1
            while depth > line.depth:
                pieces.append("</ul>")
                depth -= 1
            pieces.append(f"<li>{escape(line.text)}</li>")
        pieces.append("</ul>" * (depth + 1) + "</div>")
        return "\n".join(pieces)

    def _repr_html_(self) -> str:
        return self.html()


def explain(plan: Plan) -> Explanation:
    """The plan, as text, HTML and numbers."""
    return Explanation(plan)


def passes(plan: Plan) -> dict[str, float]:
    """For each input, how many times it is read in full."""
    read = dict.fromkeys(plan.inputs, 0)
    for stage in plan.stages:
        for name, count in stage.read.items():
            if name in read:  # else rounds carry it
                read[name] += count
    return {
        name: count / plan.values[name].bytes
        for name, count in read.items()
        if plan.values[name].shape and plan.values[name].bytes
    }


def _heading(plan: Plan) -> Iterator[Line]:
    count = len(plan.stages)
    yield Line(0, f"{plan.name}: {count} stage{'s' * (count != 1)}, {plan.threads} threads")
    arrays = max((stage.peak_bytes for stage in plan.stages), default=0)
    reads = held_by_reads(filter(is_source, plan.inputs.values()), plan.limit)
    yield Line(
        1,
        f"peak at most {size_text(plan.peak_bytes)} of a limit of {size_text(plan.limit)}; "
        f"{size_text(plan.peak_bytes - arrays - reads)} of it for the program itself"
        + (f", {size_text(reads)} to decode chunks" if reads else ""),
    )
    yield Line(
        1,
        f"moves {size_text(plan.bytes_moved)}: reads {size_text(plan.bytes_read)}, "
        f"writes {size_text(plan.bytes_written)}",
    )
    if count > 1 and all(stage.seconds for stage in plan.stages):
        yield Line(1, f"takes roughly {duration_text(plan.seconds)} in all")
    for line in plan.transfers:
        yield Line(1, line)


def _inputs(plan: Plan) -> Iterator[Line]:
    often = passes(plan)
    if often:
        yield Line(1, "inputs")
    for name, count in often.items():
        value, given = plan.values[name], plan.inputs[name]
        origin = given.describe() if isinstance(given, Source) else "memory"
        chunks = getattr(given, "chunks", None)
        text = f"{value}, {origin}"
        if chunks is not None:
            text += f", chunks {list(chunks)}"
        yield Line(2, f"{text}; read {_times(count)}")


def _times(count: float) -> str:
    return "once" if abs(count - 1) < 0.005 else f"{count:.2f} times".replace(".00", "")


def _stages(plan: Plan) -> Iterator[Line]:
    for number, stage in enumerate(plan.stages, start=1):
        yield Line(1, f"stage {number}: {stage.stage.reason}")
        if stage.rounds is not None:
            yield from _rounds(stage, stage.rounds)
            yield from _given(plan, stage)
            continue
        workspace = stage.workspace * stage.workspaces
        yield Line(2, _boxes(stage))
        yield from _shares(stage)
        yield from _prediction(stage)
        yield Line(
            2,
            f"peak {size_text(stage.peak_bytes)}: whole arrays {size_text(stage.held)}, "
            f"buffers {size_text(stage.peak_bytes - stage.held - workspace)}, "
            f"workspace {size_text(workspace)}",
        )
        for name in stage.loads:
            yield Line(2, f"reads {name} whole: {size_text(plan.values[name].bytes)}")
        yield from _windows(plan, stage)
        yield from _parts(stage)
        if 0 < stage.launches < len(stage.kernels):
            yield Line(2, f"a box launches {stage.launches} of these kernels, as its sizes suit")
        for kernel in stage.kernels:
            yield Line(2, f"kernel {kernel}")
        for remark in stage.remarks:
            yield Line(2, remark)
        yield from _given(plan, stage)


def _given(plan: Plan, stage: PlannedStage) -> Iterator[Line]:
    """What a stage leaves to others."""
    for name in stage.kept:
        if plan.values[name].shape:
            where = "a scratch file" if name in stage.spilled else "memory"
            yield Line(2, f"gives {name} in {where}: {size_text(plan.values[name].bytes)}")


def _rounds(stage: PlannedStage, rounds: Rounds) -> Iterator[Line]:
    """Rounds that are done one by one: how many, what they carry, and the stages of one."""
    stages = rounds.round.stages
    times = "as many as its condition says" if rounds.bounds is None else "as many as data say"
    if rounds.count is not None:
        times = f"{rounds.count} rounds"
    read = size_text(sum(made.bytes_read for made in stages))
    written = size_text(sum(made.bytes_written for made in stages))
    alike = "" if rounds.round.replan is None else "; the first, others are planned as they come"
    yield Line(2, f"{times}, each reads {read}, writes {written}{alike}")
    carried = [
        size_text(one.bytes) + (" in scratch files" if one.spilled else " in memory")
        for one in rounds.carried if one.shape
    ]  # fmt: skip
    peak = f"peak {size_text(stage.peak_bytes)}"
    if rounds.round.replan is not None:
        peak = f"peak of the first {size_text(stage.held + rounds.peak)}, of all at most the limit"
    yield Line(
        2,
        f"{peak}: whole arrays {size_text(stage.held)}"
        + (f"; carries {', '.join(carried)}, by arrays that take turns" if carried else ""),
    )
    for what, part in (("before", rounds.begin), ("condition", rounds.condition),
                       ("round", rounds.round)):  # fmt: skip
        if part is not None and part.plan is not None:
            for line in _stages(part.plan):
                yield Line(line.depth + 1, f"{what}, {line.text}" if line.depth == 1 else line.text)


def _boxes(stage: PlannedStage) -> str:
    boxes = stage.boxes
    moved = f"reads {size_text(stage.bytes_read)}, writes {size_text(stage.bytes_written)}"
    if boxes.count == 1:
        device = stage.code.device
        return f"one box{'' if device is None else _on_device(stage, device)}; {moved}"
    if stage.tiles is not None and stage.shares:
        shape = " x ".join(map(str, stage.tiles.shape))
        pairs = zip(stage.stage.windows, stage.tiles.parts, strict=True)
        kept = [window.name for window, parts in pairs if parts is not None]
        text = f"{boxes.count} tiles of {shape}, spread over {len(stage.shares)} devices"
        if kept:
            text += f", each of which keeps its part of {', '.join(kept)} for tiles that follow"
        return f"{text}; {moved}"
    if stage.tiles is not None:
        return f"{_tiles(stage, stage.tiles)}; {moved}"
    flight = f"{stage.depth} in flight" if stage.depth > 1 else "one after another"
    if stage.abreast:
        flight = f"{stage.abreast} at once, each computed and written by one thread"
    if stage.shares:
        flight = f"spread over {len(stage.shares)} devices"
        if boxes.count > len(stage.shares):
            flight = f"smaller towards the end, {flight}"
        return f"{boxes.count} boxes of up to {boxes.extent} along {boxes.unit}, {flight}; {moved}"
    if stage.code.device is not None:
        flight = f"{stage.slots} at once{_on_device(stage, stage.code.device)}"
    of = "of" if boxes.are_alike else "of up to"
    return f"{boxes.count} boxes {of} {boxes.extent} along {boxes.unit}, {flight}; {moved}"


def _on_device(stage: PlannedStage, device: DeviceCode) -> str:
    """Where boxes are computed, what they take there, and what they copy."""
    text = f" on {device.name} ({size_text(stage.device_bytes)} of {size_text(device.limit)} there)"
    if stage.tiles is not None:
        return text
    into, out = map(size_text, stage.copied)
    return f"{text}, copying {into} there and {out} back"


def _tiles(stage: PlannedStage, tiles: Tiles) -> str:
    """The shape of tiles, what stays from one to the next, and what boxes would move."""
    device = stage.code.device
    assert device is not None
    shape = " x ".join(map(str, tiles.shape))
    text = f"{stage.boxes.count} tiles of {shape}, {stage.slots} at once{_on_device(stage, device)}"
    text += f"; neighbours follow along axis {tiles.order[-1]}"
    windows = zip(stage.stage.windows, tiles.stays, strict=True)
    stay = [window.name for window, same in windows if same is not None]
    if stay:
        text += f", where {', '.join(stay)} {'stay' if len(stay) > 1 else 'stays'} on the device"
    copied = tiles.bytes_in + stage.bytes_written
    text += f"; copies {size_text(copied)}, boxes along one axis "
    return text + ("do not fit" if tiles.slabs is None else size_text(tiles.slabs))


def _shares(stage: PlannedStage) -> Iterator[Line]:
    """How the stage is divided, over which devices, and what a box takes there."""
    if stage.shares:
        cut = ", ".join(
            f"{o.array} along axis {' and '.join(str(axis) for axis, _, _ in o.cuts)}"
            for o in stage.stage.outputs
        )
        yield Line(2, f"by fission of {cut}: a box is a part, made where the parts are joined")
    for share in stage.shares:
        slots = "one at a time" if share.slots == 1 else f"{share.slots} at once"
        what = f"boxes of at most {share.largest}" if stage.tiles is None else "tiles"
        text = (
            f"on {share.device}: {what}, {slots}; "
            f"each has up to {size_text(share.host_bytes)} of buffers"
        )
        if share.device_bytes:
            text += f", {size_text(share.device_bytes)} there for all"
        if share.seconds:
            text += f"; does about {stage.seconds / share.seconds:.0%} of it"
        if share.serial_seconds > share.seconds:
            text += f", {1 - share.seconds / share.serial_seconds:.0%} of that beside other boxes"
        yield Line(2, text)


def _prediction(stage: PlannedStage) -> Iterator[Line]:
    """How long the stage should take, and what of it is done beside something else."""
    if not stage.seconds:
        return
    text = f"takes roughly {duration_text(stage.seconds)}"
    if stage.shares:
        text += f"; {duration_text(stage.serial_seconds)} on {stage.shares[0].device} alone"
    elif stage.serial_seconds > stage.seconds:
        saved = 1 - stage.seconds / stage.serial_seconds
        text += (
            f"; {duration_text(stage.serial_seconds)} one box after another, of which "
            f"{saved:.0%} is done beside other boxes"
        )
    yield Line(2, text)


def _windows(plan: Plan, stage: PlannedStage) -> Iterator[Line]:
    spilled = {name for made in plan.stages for name in made.spilled}
    for window, where, most in zip(
        stage.stage.windows, stage.where, stage.input_bytes, strict=True
    ):
        if not plan.values[window.array].shape:
            continue
        if window.axis is None:
            lies = "in its scratch file" if window.array in spilled else _WHERE[where]
            yield Line(2, f"window of {window.array}: whole, {lies}")
            continue
        parts = _parts_text(stage.boxes.values, window.cuts)
        yield Line(
            2, f"window of {window.array}: up to {parts} ({size_text(most)}), {_WHERE[where]}"
        )


def _parts(stage: PlannedStage) -> Iterator[Line]:
    """What a box gives of each result that boxes have parts of."""
    if stage.boxes.count < 2:
        return
    values = stage.boxes.values
    for output, most in zip(stage.stage.outputs, stage.output_bytes, strict=True):
        if output.array and output.cuts:
            parts = _parts_text(values, output.cuts)
            yield Line(2, f"part of {output.array}: up to {parts} ({size_text(most)})")


def _parts_text(values: Mapping[str, Any], cuts: Sequence[tuple[int, str, str]]) -> str:
    """The most that any box has along each axis."""
    return " and ".join(
        f"{int(np.max(values[upper] - values[lower], initial=0))} along axis {axis}"
        for axis, lower, upper in cuts
    )


def _results(plan: Plan) -> Iterator[Line]:
    yield Line(1, "results")
    sinks: dict[str, list[Sink | None]] = {}
    for name, sink in zip(plan.results, plan.sinks, strict=True):
        sinks.setdefault(name, []).append(sink)
    for name, places in sinks.items():
        given = plan.values.get(name, f"{name}: constant")
        yield Line(2, f"{given} to {', '.join(map(_place, places))}{_how(places)}")


def _place(sink: Sink | None) -> str:
    return "a new array" if sink is None else sink.describe()


def _how(places: Sequence[Sink | None]) -> str:
    if all(sink is None for sink in places):
        return ""
    return ", computed in place" if memory_sink(places) is not None else ", written behind"
