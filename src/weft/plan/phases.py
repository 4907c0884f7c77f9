"""How many rounds of an iterated stencil each pass over its data does, and in which boxes.

Boxes that overlap compute their margins again; boxes that lean (`plan.leaning`) compute nothing
again, but keep flanks in memory and copy them. Both do the more the more rounds a pass has, and
passes move all data. What is predicted to take the least time is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun.builder import Names
from weft.fun.leaning import turns_of
from weft.fun.stencils import Stencil
from weft.plan.code import Rates
from weft.plan.loops import CutLoop, cut_loop, in_passes, is_counted, lean_of, rows_that_fit
from weft.plan.nodes import size_text
from weft.plan.times import HOST
from weft.records import dataclass

_TOGETHER = (128, 6)  # rounds of a launch of a GPU, by rank, where boxes overlap
_PIECES = 0.75  # of the time along the first axis, that one along another has to take less than
_MARGINS = 4  # a box is so many times as long as its margins, or longer


@dataclass(frozen=True, slots=True)
class Machine:
    """What ways are compared by: the seconds that work takes where boxes are computed.

    Attributes
    ----------
    operation, copied, moved : float
        For an operation, and for a byte that is copied in its memory, and to it or from it.
    touched : float
        For a byte that a round reads or writes, where rounds do not stay in a cache.
    buffers : int
        Of a box's input and output, so that it is read, or written, beside another.
    """

    operation: float
    copied: float
    moved: float
    touched: float
    buffers: int


def machine_of(threads: int, rates: Rates | None) -> Machine:
    """The host, of so many threads; or a device, by its rates."""
    if rates is None:
        moved = 1 / HOST.files + 2 / HOST.memory  # into buffers, or out of them
        return Machine(1 / (HOST.operations * threads), 1 / HOST.memory, moved, 0.0, 2)
    moved = (1 / rates.copy_in + 1 / rates.copy_out) / 2
    touched = 1 / rates.memory if rates.beside else 0.0  # processors do rounds in trapezoids
    return Machine(1 / rates.operations, 1 / rates.memory, moved, touched, 1)


@dataclass(frozen=True, slots=True)
class Way:
    """A way to do all rounds.

    Attributes
    ----------
    leans : bool
    passes : int
        Over all data.
    seconds : float
        Predicted, for comparison with other ways.
    again : float
        What is computed again, as a part of what is computed once.
    kept : int
        Bytes of flanks.
    """

    leans: bool
    passes: int
    seconds: float
    again: float = 0.0
    kept: int = 0

    def describe(self, rounds: int, margin: int) -> str:
        """One phrase for `explain`; of a pass."""
        if not self.leans:
            return (
                f"{rounds} rounds on each box, overlapped: up to {margin} indices beyond either "
                "end are computed again, so that no flanks need be kept"
            )
        return (
            f"{rounds} rounds on each box, leaning: nothing is computed twice; flanks of "
            f"{size_text(self.kept)} are kept from one box for the next"
        )

    def instead(self) -> str:
        """The same of a way that was not chosen."""
        passes = f"{self.passes} pass{'es' * (self.passes > 1)}"
        if self.leans:
            return f"leaning boxes would take {passes} and keep {size_text(self.kept)} of flanks"
        return f"overlapped boxes would take {passes} and compute {self.again:.0%} again"


@dataclass(frozen=True, slots=True)
class Choice:
    """The way of a loop, and the best of the other kind if there is one."""

    way: Way
    other: Way | None

    def describe(self, rounds: int, margin: int) -> str:
        """Why boxes are as they are, for `explain`."""
        text = self.way.describe(rounds, margin)
        return text if self.other is None else f"{text}; {self.other.instead()}"


def in_phases(
    program: fun.Program, sizes: Mapping[str, int], limit: int, machine: Machine, leaning: bool
) -> tuple[fun.Program, dict[str, Choice]]:
    """Iterated stencils of many rounds as several loops, one after another.

    loop (v = x) for k from 0 to t { .. }
        =>  let y = loop (v = x) for k from 0 to s { .. }
            loop (v = y) for k from s to t { .. }

    Removes: loops whose rounds are more than a box that fits `limit` bytes should do. Adds: for
    each, the fewest loops that do not. Ensures the same bits.

    Parameters
    ----------
    leaning : bool
        Whether boxes may lean: one after another, on one device.

    Returns
    -------
    program : fun.Program
    choices : dict of str to Choice
        For the first result of each loop that can be cut.
    """
    names = Names.of(program)
    statements: list[fun.Let] = []
    choices: dict[str, Choice] = {}
    for let in program.body.statements:
        cut = cut_loop(let)
        counted = cut is not None and is_counted(cut.stencil, sizes)
        if cut is None or not counted or not isinstance(let.expr, fun.Loop):
            statements.append(let)
            continue
        choice = choose(let.expr, cut, sizes, limit, machine, leaning)
        made = in_passes(let, cut.stencil, sizes, choice.way.passes, names)
        choices.update((phase.pattern[0].name, choice) for phase in made)
        statements += made
    return replace(program, body=fun.Body(tuple(statements), program.body.results)), choices


def choose(
    loop: fun.Loop, cut: CutLoop, sizes: Mapping[str, int], limit: int, machine: Machine,
    leaning: bool,
) -> Choice:  # fmt: skip
    """How the rounds of a stencil are done on data that do not fit."""
    numbers = _Numbers(loop, cut.stencil, sizes, limit, machine)
    overlapped = numbers.overlapped(cut.cuts)
    leans = numbers.leaning() if leaning and 0 in cut.cuts else None
    if leans is not None and leans.seconds < overlapped.seconds:
        return Choice(leans, overlapped)
    return Choice(overlapped, leans)


class _Numbers:
    """What ways to do a loop are compared by."""

    def __init__(
        self, loop: fun.Loop, stencil: Stencil, sizes: Mapping[str, int], limit: int,
        machine: Machine,
    ) -> None:  # fmt: skip
        shape = [int(extent.evaluate(sizes)) for extent in stencil.shape]
        self.sizes, self.limit, self.machine = sizes, limit, machine
        self.loop, self.stencil = loop, stencil
        self.extent, self.inner = shape[0], math.prod(shape[1:])
        self.rounds = int(stencil.rounds.evaluate(sizes))
        self.arrays = sum(param.type.dtype.itemsize for param in loop.params)
        self.given = stencil.itemsize - 2 * self.arrays
        elements = self.rounds * self.extent * self.inner
        self.operations = elements * max(stencil.operations, 1) * machine.operation
        self.touched = elements * stencil.itemsize * machine.touched
        self.once = max(self.operations, self.touched)

    def overlapped(self, axes: Sequence[int]) -> Way:
        """In boxes that overlap, cut along that of the axes which takes the least time.

        Parts along others than the first lie in pieces: those have to save much.
        """
        first, *others = map(self._overlapped, axes)
        best = min(others, key=lambda way: way.seconds, default=first)
        return best if best.seconds < _PIECES * first.seconds else first

    def _overlapped(self, axis: int) -> Way:
        """In boxes of which margins are a small part."""
        reach, rounds = self.stencil.reach[axis], self.rounds
        rows = rows_that_fit(self.stencil, self.sizes, self.limit, axis)
        most = max(1, rows // (_MARGINS * 2 * max(reach, 1)))
        passes = 1 if reach == 0 or rounds <= most else -(-rounds // most)
        margin = -(-rounds // passes) * reach
        again = margin / max(rows - 2 * margin, 1)
        once = max(self.operations, self.touched / self._together())
        return Way(False, passes, once * (1 + again) + self._moving(passes), again)

    def _together(self) -> int:
        """Rounds of a launch, about, as `lower.gpu.overlaps` finds them; boxes that lean have 1."""
        rank, reach = len(self.stencil.shape), max(self.stencil.reach)
        if rank > len(_TOGETHER) or len(self.loop.params) > 1:
            return 1
        return max(1, _TOGETHER[rank - 1] // max(1, reach))

    def leaning(self) -> Way | None:
        """In boxes that lean, by the number of passes that takes the least time."""
        turns = turns_of(self.loop)
        if turns is None or self.stencil.radius[0] == 0 or self.rounds == 0:
            return None
        spares = sum(self.loop.params[n].type.dtype.itemsize for n in turns.spares)
        memory = self.arrays + spares + sum(v.type.dtype.itemsize for v in turns.temporaries)
        each = int(lean_of(self.loop, self.stencil).evaluate(self.sizes)) // self.rounds
        best: Way | None = None
        passes = 1
        while passes <= self.rounds:
            way = self._leaning(-(-self.rounds // passes) * each, memory, passes)
            if way is not None and (best is None or way.seconds < best.seconds):
                best = way
            elif best is not None:
                break
            passes += max(passes // 4, 1)
        return best

    def _leaning(self, lean: int, memory: int, passes: int) -> Way | None:
        """With boxes that lean so far; None where there is no room for them."""
        flank = lean + self.stencil.radius[0]
        room = self.limit / max(self.inner, 1) - 2 * memory * flank
        buffers = self.machine.buffers
        room -= buffers * (self.arrays * lean + self.given * flank)
        rows = room / (memory + buffers * (2 * self.arrays + self.given))
        if rows < max(lean // _MARGINS, 1) or 2 * flank > self.extent:
            return None
        copied = passes * self.extent * self.inner * 4 * memory * flank / rows
        seconds = self.once + self._moving(passes) + copied * self.machine.copied
        return Way(True, passes, seconds, kept=flank * memory * self.inner)

    def _moving(self, passes: int) -> float:
        """To bring all data in and out."""
        return passes * self.extent * self.inner * 2 * self.arrays * self.machine.moved
