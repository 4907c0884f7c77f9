"""Partition: which statements run in which stage, and along which dimension each is cut.

A statement whose results must exist in full (a result of the program, or something that
another statement needs all of) is a *target*. What cannot be cut, or is small, is
*resident*: it runs once, whole. All other targets run box by box, in drafts (`plan.draft`)
that recompute what they read locally. Stages alternate: a stage begins where a result
needs all of what came before.

    s = sum(x); y = x - s   =>   stage 1: tile sums of x, box by box
                                 stage 2: s from the tile sums, whole
                                 stage 3: y, box by box
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import field

import numpy as np
import numpy.typing as npt

from weft.fun import nodes as fun
from weft.plan.calls import TALL
from weft.plan.draft import Draft
from weft.plan.statements import Analysis, Statement
from weft.plan.work import work
from weft.records import dataclass

Choice = tuple[int, int]  # a statement and the dimension along which it is cut
_BOXES = 8  # by which cuts are compared
_CALLS = 2  # of a library, for each of several devices


@dataclass
class Group:
    """Statements of one stage: a draft, or resident ones that run whole.

    `one_by_one`: a loop, with what it reads that costs nothing, whose rounds are planned alone.
    """

    phase: int
    draft: Draft | None = None
    resident: list[int] = field(default_factory=list)
    one_by_one: bool = False

    @property
    def targets(self) -> list[int]:
        return list(self.draft.targets) if self.draft is not None else self.resident


@dataclass(frozen=True, slots=True)
class Preferences:
    """What decides between cuts.

    Attributes
    ----------
    small : int
        Statements that touch no more bytes than this run whole.
    addressable : callable
        Whether a parameter is in memory or mapped, so that whole reads cost no memory.
    refused : set of (statement, dimension)
        Cuts that were tried and do not fit.
    apart : set of int
        Targets whose drafts are not merged with others (merged, they do not fit).
    small_work : float
        Statements of more scalar operations than these are not small.
    whole : set of int
        Statements that run whole, however large they are.
    decoded : callable
        The chunks of a parameter that is decoded by whole chunks; None for others.
    on_device : bool
        Whether boxes are computed there: what one stage makes for another moves there and back.
    one_by_one : set of int
        Loops whose rounds are planned alone.
    sharing : int
        How many devices share boxes; 0 where one has them all.
    """

    small: int
    addressable: Callable[[str], bool]
    refused: Collection[Choice] = ()
    apart: Collection[int] = ()
    small_work: float = math.inf
    whole: Collection[int] = ()
    decoded: Callable[[str], tuple[int, ...] | None] = lambda name: None
    on_device: bool = False
    one_by_one: Collection[int] = ()
    sharing: int = 0


@dataclass(frozen=True, slots=True)
class Tried:
    """Drafts of single targets, and what they cost: kept from one partition to the next.

    They follow from the statements, and from which of these are resident.
    """

    drafts: dict[tuple[Choice, frozenset[int]], Draft] = field(default_factory=dict)
    costs: dict[tuple[Choice, frozenset[int]], float] = field(default_factory=dict)


def partition(
    analysis: Analysis, preferences: Preferences, tried: Tried | None = None
) -> list[Group]:
    """The stages of a program, in order.

    `tried`: of other partitions with the same analysis, that preferred the same but for cuts.
    """
    return _Partition(analysis, preferences, tried or Tried()).groups()


class _Partition:
    def __init__(self, analysis: Analysis, preferences: Preferences, tried: Tried) -> None:
        self.analysis, self.tried = analysis, tried
        self.preferences = preferences
        self.resident = {
            s.position
            for s in analysis.statements
            if not s.cuttable or s.position in preferences.whole or self._is_small(s)
        }
        self.others = frozenset(self.resident)
        self.demanded: set[int] = set()
        self.costs: dict[int, float] = {}  # of the best cuts of statements

    def groups(self) -> list[Group]:
        drafts, demanded = self._targets(), self.demanded
        phases: dict[int, int] = {}
        groups: dict[int, list[Group]] = {}
        for position in sorted(demanded):
            if position in self.preferences.one_by_one:
                closure, reads = self._with_free(position)
                phase = max((self._after(p, 1, phases) for p in reads), default=1)
                groups.setdefault(phase, []).append(Group(phase, None, sorted(closure), True))
            elif position in self.resident:
                closure, reads = self._with_free(position)
                phase = max((self._after(p, 0, phases) for p in reads), default=0)
                group = groups.setdefault(phase, [Group(phase)])[0]
                group.resident = sorted({*group.resident, *closure})
            else:
                draft = drafts[position]
                phase = max((self._after(p, 1, phases) for p in self._sources(draft)), default=1)
                _place_draft(
                    groups.setdefault(phase, []), phase, draft, self.preferences.apart
                )
            phases[position] = phase
        return [group for phase in sorted(groups) for group in groups[phase]]

    def _after(self, position: int, parity: int, phases: dict[int, int]) -> int:
        """The first phase of a parity after a target: resident stages are even."""
        phase = phases[position]
        if parity == 0:
            return phase + phase % 2
        return phase + 1 + phase % 2

    def _is_small(self, statement: Statement) -> bool:
        names = {access.array for access in statement.reads.accesses}
        names.update(statement.results)
        if sum(map(self.analysis.bytes, names)) > self.preferences.small:
            return False
        most = self.preferences.small_work
        return most == math.inf or work(statement.let, self.analysis.sizes) <= most

    # ------------------------------------------------------------ targets

    def _targets(self) -> dict[int, Draft]:
        """Drafts for what is cut of `demanded`: every statement whose results must exist."""
        analysis, demanded = self.analysis, self.demanded
        demanded.update(
            analysis.producer[atom.name]
            for atom in analysis.program.body.results
            if isinstance(atom, fun.Var) and atom.name in analysis.producer
        )
        drafts: dict[int, Draft] = {}
        for statement in reversed(analysis.statements):
            position = statement.position
            if position not in demanded:
                continue
            if position in self.resident:
                demanded.update(self._with_free(position)[1])
            else:
                drafts[position] = self._choose(statement)
                demanded.update(self._sources(drafts[position]))
        return drafts

    def _sources(self, draft: Draft) -> set[int]:
        return {self.analysis.producer[name] for name in draft.earlier}

    def _with_free(self, position: int) -> tuple[set[int], set[int]]:
        """A resident statement with what is free and it reads, and the targets it needs."""
        inside, needed, pending = {position}, set[int](), [position]
        while pending:
            statement = self.analysis.statements[pending.pop()]
            for name in self.analysis.used(statement.position, True):
                producer = self.analysis.producer.get(name)
                if producer is None:
                    continue
                if producer in self.analysis.free:
                    if producer not in inside:
                        inside.add(producer)
                        pending.append(producer)
                else:
                    needed.add(producer)
        return inside, needed

    def _choose(self, statement: Statement) -> Draft:
        """The cut that moves the fewest bytes; the outermost of equal ones."""
        drafts = self._drafts(statement)
        costs = [self._cost(draft) + self._making(draft) for draft in drafts]
        return drafts[costs.index(min(costs))]

    def _drafts(self, statement: Statement) -> list[Draft]:
        """One for each dimension along which no cut was refused; for all, where there is none.

        Devices share no boxes that add to all of the results: these come last, unless they read
        once what is much larger.
        """
        position, dims = statement.position, statement.cuttable
        tried = [dim for dim in dims if (position, dim) not in self.preferences.refused]
        if self.preferences.sharing and self._may_read_often(statement):
            shared = [dim for dim in tried if not statement.gives_whole(dim)]
            tried = shared or tried
        return [self._draft(statement, dim) for dim in tried or dims]

    def _may_read_often(self, statement: Statement) -> bool:
        """Whether what a statement reads is in memory, and some of it not much more than it gives.

        Of `z.T @ z`, whose boxes along rows would each read all of a long `z`, it is much more.
        """
        read = {access.array for access in statement.reads.accesses}
        given = sum(map(self.analysis.bytes, statement.results))
        if min(map(self.analysis.bytes, read), default=0) >= TALL * given:
            return False
        return all(map(self.preferences.addressable, read & self.analysis.params))

    def _draft(self, statement: Statement, dim: int) -> Draft:
        key = (statement.position, dim), self.others
        if key not in self.tried.drafts:
            self.tried.drafts[key] = Draft.of(self.analysis, statement, dim, self.resident)
        return self.tried.drafts[key]

    def _making(self, draft: Draft) -> float:
        """Bytes that move on a device to make what a draft needs of others, and nothing else."""
        if not self.preferences.on_device:
            return 0.0
        others = sorted(self._sources(draft) - self.demanded - self.resident)
        for position in others:
            if position not in self.costs:
                drafts = self._drafts(self.analysis.statements[position])
                self.costs[position] = min(map(self._cost, drafts))
        return sum(self.costs[position] for position in others)

    def _cost(self, draft: Draft) -> float:
        """Bytes that a draft of one target moves."""
        (target,) = draft.targets
        key = (target, draft.members[target]), self.others
        if key not in self.tried.costs:
            self.tried.costs[key] = self._bytes_moved(draft)
        return self.tried.costs[key]

    def _bytes_moved(self, draft: Draft) -> float:
        """Bytes moved, were there eight boxes; pieces of rows count twice.

        Of library calls that devices share each has but two.
        """
        analysis, total = self.analysis, draft.total
        count = _BOXES
        if any(isinstance(draft.statement(p).let.expr, fun.Call) for p in draft.targets):
            count = _CALLS * self.preferences.sharing or _BOXES
        edges = np.unique(np.linspace(0, total, count + 1).astype(np.int64))
        if len(edges) < 2:
            return 0.0
        ranges = draft.evaluate(edges[:-1], edges[1:])
        hulls: dict[tuple[str, int], list[npt.NDArray[np.int64]]] = {}
        cost = 0.0
        for key, (lower, upper) in ranges.reads.items():
            if analysis.producer.get(key[1]) in draft.members:
                continue
            if key[1] not in analysis.staged:
                lower, upper = ranges.unwrapped.get(key, (lower, upper))
            length = upper - np.minimum(lower, upper)
            hull = hulls.setdefault((key[1], draft.axes[key]), [lower, upper, 0 * length])
            hull[0], hull[1] = np.minimum(hull[0], lower), np.maximum(hull[1], upper)
            hull[2] = hull[2] + length
        for (array, axis), (lower, upper, lengths) in hulls.items():
            # Reads far apart, as at both ends, are of what is between them none.
            together = upper - np.minimum(lower, upper)
            elements = np.minimum(np.minimum(together, lengths), analysis.shapes[array][axis])
            chunks = self.preferences.decoded(array)
            if chunks is not None:  # long boxes end where chunks do, but none is decoded in part
                chunk = min(chunks[axis], analysis.shapes[array][axis])
                elements = np.where(elements > 0, np.maximum(elements, chunk), 0)
            cost += float(elements.sum()) * self._row_bytes(array, axis)
        for name in draft.whole:
            cost += analysis.bytes(name) * self._times_moved(name, len(edges) - 1)
        for position in draft.targets:
            if not draft.statement(position).gives_whole(draft.members[position]):
                for name in draft.statement(position).results:
                    extent = analysis.shapes[name][draft.members[position]]
                    cost += extent * self._row_bytes(name, draft.members[position])
        return cost

    def _times_moved(self, name: str, boxes: int) -> int:
        """How often an array that every box needs whole is moved."""
        if name not in self.analysis.params:
            if self.preferences.on_device and self.analysis.producer[name] not in self.resident:
                return 1  # `_making` has what writes it
            return 2  # written by one stage, read by another
        return boxes if self.preferences.addressable(name) else 1

    def _row_bytes(self, array: str, axis: int) -> float:
        """Bytes of one index along an axis; twice that where it lies in pieces."""
        shape = self.analysis.shapes[array]
        pieces = int(np.prod(shape[:axis], dtype=object))
        extent = max(shape[axis], 1)
        return self.analysis.bytes(array) / extent * (2 if pieces > 1 else 1)


def _place_draft(groups: list[Group], phase: int, draft: Draft, apart: Collection[int]) -> None:
    """Merge a draft into a group of its phase that reads the same arrays, or add a group."""
    if not any(position in apart for position in draft.targets):
        for group in groups:
            if group.draft is None or any(position in apart for position in group.targets):
                continue
            merged = group.draft.merged(draft)
            if merged is not None:
                group.draft = merged
                return
    groups.append(Group(phase, draft))
