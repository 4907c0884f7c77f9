"""A simd loop whose iterations wait long, as several loops: 64 lanes at a time.

    for simd j from 0 to n { (many operations) let x = ..; let y = log(x); (many more); z[j] = .. }
    =>  for j from 0 to n step 64 {
            for simd l < 64 { (many operations) a[l] = .. }
            for simd l < 64 { let x = .. a[l] ..; b[l] = log(x) }
            for simd l < 64 { (many more) .. b[l] ..; z[j + l] = .. }
        }

An iteration is a chain that waits for its function, its roots and its quotients. A processor looks
some hundred instructions ahead, which has to reach into the next iteration for something to do
meanwhile; that of a long body it does not reach. A stage ends at a call of vector math, or before
one where what leads up to it is long. Without calls it ends at a quotient or a root, where stages
are predicted to take less time than the whole (`weft.lower.pace`). It keeps one value a lane,
which lies in the nearest cache, and later stages compute the little again that they have in common
with it.

Where vector math is called, what is read with a stride is a stage too: gcc makes no vectors of some
loops with such reads, and calls scalar functions there, whose bits are others. So it is, without
calls, with reads of rows whose length is neither 3 nor a power of two (`Body.ungrouped`).

Numbers of lanes in 32 bits are counted in 32 bits, where vectors have twice as many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from weft.fun.vector_math import vector_math
from weft.imp import nodes as imp
from weft.imp.eliminate_loads import eliminate_loads
from weft.imp.nodes import machine
from weft.imp.walk import inside, mapped, mentions
from weft.lower.pace import Pace, waits_for_divider
from weft.lower.unit import Unit
from weft.lower.vector_lanes import Work, lanes
from weft.ops.dtypes import DType
from weft.records import dataclass

LANES = 64
LONG = 96  # operations and accesses of an iteration: of less, processors see the next one
LEADING = 32  # what leads up to a call, to be worth a stage
AGAIN = 8  # operations that stages may compute again for a value that is kept
WORTH = 4  # operations and accesses for each load that gcc makes no vectors with
GAIN = 0.9  # of the time of fewer stages, at which one more is worth its loop


def in_stages(unit: Unit, loop: imp.For, *, whole: bool) -> tuple[imp.Stmt, ...]:
    """The simd loop in stages, where that is worth it. `whole`: its extent is a multiple of 64."""
    body = Body.of(loop)
    if body is None:
        return (loop,)
    if body.strided(loop.var):
        body = Body.of(replace(loop, body=eliminate_loads(loop.body))) or body
    calls = list(body.calls())
    kept = body.strided(loop.var) if calls else [*body.ungrouped(loop.var), *_quotients(body)]
    if calls and whole:
        kept += [name for name in _around_calls(body, calls) if name not in kept]
    if not kept:
        return (loop,)
    block = unit.integer(loop.var.name)
    statements: list[imp.Stmt] = []
    arrays: dict[str, imp.Pointer] = {}
    for name in kept:
        arrays[name] = unit.pointer("kept", body.values[name].dtype)
        statements.append(imp.Local(arrays[name], LANES))
    first = imp.Declare(unit.var("lane", DType.I32), imp.Cast(DType.I32, block))
    statements.append(first)
    count: imp.Expr = imp.Const(LANES, DType.I32)
    if not whole:
        left = machine("min", imp.integer(LANES), machine("-", loop.upper, block))
        valid = imp.Declare(unit.var("valid", DType.I32), imp.Cast(DType.I32, left))
        statements.append(valid)
        count = valid.var
    for stage in (*kept, None):
        made = Stage(unit, loop.var, block, first.var, count, arrays).loop(body, stage)
        statements.append(made if whole else replace(made, lanes=loop.lanes))
    return (imp.For(block, loop.lower, loop.upper, tuple(statements), LANES),)


@dataclass(slots=True)
class Body:
    """What an iteration declares, in order, and what it stores at its end."""

    values: dict[str, imp.Expr]
    stores: tuple[imp.Store, ...]
    uses: dict[str, set[str]]  # of each value: the values that it is computed from

    @classmethod
    def of(cls, loop: imp.For) -> Body | None:
        """None where a body is more than that: branches, reductions, loads after stores."""
        values: dict[str, imp.Expr] = {}
        stores: list[imp.Store] = []
        for statement in loop.body:
            loads = any(isinstance(node, imp.Load) for node in inside(statement))
            match statement:
                case imp.Declare(var, value, False) if value is not None:
                    values[var.name] = value
                case imp.Store():
                    stores.append(statement)
                case _:
                    return None
            if stores and loads:
                return None
        if loop.reductions or loop.step != 1:
            return None
        uses = {name: mentions(value) & values.keys() for name, value in values.items()}
        return cls(values, tuple(stores), uses)

    @property
    def names(self) -> list[str]:
        return list(self.values)

    def needed(self, stage: str | None, known: Iterable[str]) -> list[str]:
        """The values that a stage computes, in order, where some are known. None: the last."""
        known, found = set(known), set()
        waiting = [stage] if stage else sorted(mentions(self.stores) & self.values.keys())
        while waiting:
            name = waiting.pop()
            if name not in found and name not in known:
                found.add(name)
                waiting += self.uses[name]
        return [name for name in self.values if name in found]

    def work(self, names: Iterable[str]) -> int:
        """Operations and accesses that compute these values."""
        total = Work()
        for name in names:
            for node in inside(self.values[name]):
                if isinstance(node, imp.Expr):
                    total.add(node)
        return total.operations + total.divisions + total.accesses

    def calls(self) -> Iterator[str]:
        """The values that functions of libmvec give."""
        for name, value in self.values.items():
            match value:
                case imp.Apply(operation, arguments) if vector_math(
                    operation, tuple(argument.dtype for argument in arguments)
                ):
                    yield name

    def strided(self, lane: imp.Var) -> list[str]:
        """The values that are loads of places apart from each other."""
        return [
            name for name, value in self.values.items()
            if isinstance(value, imp.Load) and self._step(value.index, lane) not in (None, 0, 1)
        ]  # fmt: skip

    def ungrouped(self, lane: imp.Var) -> list[str]:
        """The loads for which gcc makes no vectors of the loop, where those would gain."""
        groups: dict[tuple[str, int | None], list[str]] = {}
        for name in self.strided(lane):
            load = self.values[name]
            assert isinstance(load, imp.Load)
            groups.setdefault((load.pointer.name, self._step(load.index, lane)), []).append(name)
        found = [
            name for (_, step), group in groups.items() for name in group
            if step is not None and len(group) > 1 and step != 3 and step & (step - 1)
        ]
        return found if self.work(self.names) >= WORTH * len(found) else []

    def _step(self, index: imp.Expr, lane: imp.Var) -> int | None:
        """How far an index goes from lane to lane, 2 for any distance; None where that varies."""
        match index:
            case imp.Const():
                return 0
            case imp.Var(name) if name == lane.name:
                return 1
            case imp.Var(name):
                return self._step(self.values[name], lane) if name in self.values else 0
            case imp.Cast(_, value):
                return self._step(value, lane)
            case imp.Machine("+" | "-" | "*" as operator, left, right):
                one, other = self._step(left, lane), self._step(right, lane)
                if one is None or other is None:
                    return None
                if operator != "*":
                    return one + other if operator == "+" else one - other
                if isinstance(left, imp.Const):
                    return int(left.value.real) * other
                return 2 if one or other else 0
            case imp.Machine("min" | "max", left, right):
                steps = self._step(left, lane), self._step(right, lane)
                return max(steps[0] or 0, steps[1] or 0) if 0 in steps else None
        return None

    def again(self, kept: Iterable[str]) -> int:
        """What is computed more than once where the values that are kept end stages."""
        stages = list(_stages(self, kept))
        distinct = {name for stage in stages for name in stage}
        return sum(map(self.work, stages)) - self.work(distinct)


def _stages(body: Body, kept: Iterable[str]) -> Iterator[list[str]]:
    """The values that each stage computes."""
    known: list[str] = []
    for name in (*kept, None):
        yield body.needed(name, known)
        if name:
            known.append(name)


def _quotients(body: Body) -> list[str]:
    """The quotients and roots that end stages, in order."""
    ends = [name for name in body.names if waits_for_divider(body.values[name])]
    kept: list[str] = []
    best = _cycles(body, kept) if len(ends) > 1 else 0
    while best:
        trials = [[name for name in ends if name in {*kept, end}] for end in ends]
        trial = min(trials, key=lambda trial: _cycles(body, trial))
        cycles = _cycles(body, trial)
        if cycles > GAIN * best or body.again(trial) > AGAIN * len(trial):
            break
        best, kept = cycles, trial
    return kept


def _cycles(body: Body, kept: list[str]) -> float:
    """How long a vector takes in all stages; each loads what those before have kept."""
    total = 0.0
    for names, end in zip(_stages(body, kept), (*kept, None), strict=True):
        pace = Pace(kept)
        for name in names:
            pace.declare(name, body.values[name])
        stored = [imp.Var(end, body.values[end].dtype)] if end else [s.value for s in body.stores]
        for value in stored:
            pace.store(value)
        total += pace.cycles
    return total


def _around_calls(body: Body, calls: Sequence[str]) -> list[str]:
    """The values that end stages, in order: those of calls, and what leads up to them."""
    if body.work(body.names) < LONG:
        return []
    kept = list(calls)
    for call in calls:
        at = kept.index(call)
        leading = body.needed(call, kept[:at])
        found: list[tuple[int, int, int, str]] = []
        for name in leading[:-1]:
            trial = [*kept[:at], name, *kept[at:]]
            if body.work(body.needed(name, kept[:at])) >= LEADING:
                # Least is computed again, then fewest bytes are kept, then most is done before.
                bytes_ = body.values[name].dtype.itemsize
                found.append((body.again(trial), bytes_, -leading.index(name), name))
        if found:
            kept.insert(at, min(found)[-1])
    return kept if body.again(kept) <= AGAIN * len(kept) else []


@dataclass(slots=True)
class Stage:
    """One of the loops over `count` lanes, which has names of its own."""

    unit: Unit
    lane: imp.Var
    block: imp.Expr
    first: imp.Expr  # the block's first lane, in 32 bits
    count: imp.Expr
    arrays: Mapping[str, imp.Pointer]

    def loop(self, body: Body, name: str | None, instead: imp.Var | None = None) -> imp.For:
        """The stage that computes the value, or the last one; `instead`: what it keeps for it."""
        var = self.unit.var("l", DType.I32)
        at = imp.Cast(DType.I64, var)
        known = list(self.arrays)[: list(self.arrays).index(name)] if name else list(self.arrays)
        names: dict[str, imp.Var] = {}

        def own(node: Any) -> Any:
            match node:
                case imp.Cast(DType.I32, imp.Var(same)) if same == self.lane.name:
                    return imp.Apply("add", (self.first, var), DType.I32)
                case imp.Var(same) if same == self.lane.name:
                    return machine("+", self.block, at)
                case imp.Var(same):
                    return names.get(same, node)
                case _:
                    return mapped(node, own)

        statements: list[imp.Stmt] = []

        def declare(each: str, value: imp.Expr) -> None:
            names[each] = self.unit.var("v", value.dtype)
            statements.append(imp.Declare(names[each], value))

        kept = instead.name if instead else name
        needed = body.needed(kept, known)
        used = mentions([body.values[each] for each in needed])
        used |= set() if name else mentions(body.stores)
        for each in known:
            if each in used:
                declare(each, imp.Load(self.arrays[each], at))
        for each in needed:
            declare(each, own(body.values[each]))
        if name and kept:
            statements.append(imp.Store(self.arrays[name], at, names[kept]))
        else:
            statements += [own(store) for store in body.stores]
        done = tuple(statements)
        ends = imp.Const(0, DType.I32), self.count
        return imp.For(var, *ends, done, simd=True, lanes=lanes(done, short=False))
