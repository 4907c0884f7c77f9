"""one_by_one: loops each of whose rounds needs a result of all data, as a plan for a round.

    loop (v = x) for k from 0 to t { let m = max(v) .. in kernel (i < n) { v[i] / m } }

No box does a second round before all boxes have done the first. So a round is a program of its
own, planned as any: stages and boxes, on devices too. What the loop carries lies in memory, or in
scratch files, between one round and the next, which reads it there and writes other arrays of the
same kind: they take turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from weft.errors import MemoryLimitError
from weft.fun import nodes as fun
from weft.fun import walk
from weft.ops.dtypes import DType
from weft.plan.footprint import pointer_params
from weft.plan.nodes import ArrayForm, Boxes, Input, Plan, PlannedStage, Stage, size_text
from weft.plan.protocols import Sink
from weft.plan.rounds import Buffer, Carried, OwnCode, Part, Replan, Rounds
from weft.plan.setting import Setting, form_in_memory
from weft.plan.statements import Analysis
from weft.sizes import Poly

_PARALLEL = (fun.Kernel, fun.Reduce, fun.Scan, fun.Scatter, fun.Call)
_KEPT = 256  # rounds, the first ones, whose plans are there for the next call
_NEED_ALL = (fun.Reduce, fun.Scan, fun.Scatter, fun.Call)


def is_driven(let: fun.Let) -> bool:
    """Whether a statement is a loop whose rounds are worth a launch each."""
    if not isinstance(let.expr, fun.Loop):
        return False
    own = let.expr.body.statements
    known = {var.name for inner in own for var in inner.pattern}
    known |= {param.name for param in let.expr.params}
    sizes = {n for inner in own for v in inner.pattern for s in walk.type_sizes(v.type)
             for n in s.variables()}  # fmt: skip
    return not sizes & known and any(
        isinstance(inner.expr, _PARALLEL) or is_driven(inner) for inner in own
    )


def part_of(
    program: fun.Program, lets: Sequence[fun.Let], results: Sequence[fun.Atom]
) -> fun.Program:
    """Statements as a program of what they use."""
    body = fun.Body(tuple(lets), tuple(results))
    used: dict[str, fun.Var] = {}
    bound = {var.name for let in lets for var in let.pattern}
    for let in walk.statements(body):
        bound |= {var.name for var in walk.operands(let.expr)[2]}
        bound |= {var.name for var in let.pattern}
    free = walk.free_names(body) - set(program.sizes) - {d.name for d in program.derived}
    atoms = [*results]
    for let in walk.statements(body):
        atoms += walk.operands(let.expr)[0]
        atoms += [atom for inner in walk.bodies(let.expr) for atom in inner.results]
    for atom in atoms:
        if isinstance(atom, fun.Var) and atom.name in free and atom.name not in bound:
            used[atom.name] = atom
    for name in sorted(free - set(used)):  # scalars that occur in sizes alone
        used[name] = fun.Var(name, fun.Scalar(DType.I64))
    return replace(program, params=tuple(used.values()), body=body)


class PlanPart(Protocol):
    """How a part of a program is planned; see `planner.plan_program`."""

    def __call__(
        self, program: fun.Program, sizes: Mapping[str, int], inputs: Mapping[str, Input],
        sinks: Sequence[Sink | None], taken: int, /,
    ) -> Plan:  # fmt: skip
        """`taken`: bytes that are allocated already."""


class Planned:
    """The plans of a loop's rounds, and the memory that it takes besides them.

    Parameters
    ----------
    analysis : Analysis
    positions : sequence of int
        The loop, and the statements that cost nothing which it reads.
    inputs : mapping of str to Input
        Of the whole program.
    plan : PlanPart
    resident : int
        Bytes that are allocated when it begins.
    donated : collection of str
        Arrays among them that no stage needs after this one.
    spills : callable
        Whether an array of so many bytes lies in a scratch file.

    Raises
    ------
    MemoryLimitError
        When no boxes of a round fit.
    """

    def __init__(
        self, analysis: Analysis, positions: Sequence[int], inputs: Mapping[str, Input],
        plan: PlanPart, resident: int, donated: Sequence[str], spills: Callable[[int], bool],
    ) -> None:  # fmt: skip
        lets = [analysis.statements[position].original for position in positions]
        (self.let,) = (let for let in lets if isinstance(let.expr, fun.Loop))
        self.free = [let for let in lets if let is not self.let]
        assert isinstance(self.let.expr, fun.Loop)
        self.loop = self.let.expr
        self.analysis, self.inputs, self.plan = analysis, inputs, plan
        self.carried = tuple(self._carried(spills))
        begins = {one.begins for one in self.carried} - self._read_by_rounds()
        self.donated = tuple(name for name in donated if name in begins)
        self.taken = self._taken()
        self.resident = resident + self.taken
        self.rounds = self._rounds()

    def _shape(self, type_: fun.Type) -> tuple[int, ...]:
        return tuple(int(n.evaluate(self.analysis.sizes)) for n in walk.type_sizes(type_))

    def _carried(self, spills: Callable[[int], bool]) -> Iterator[Carried]:
        """What the loop carries."""
        loop = self.loop
        numbers = {param.name: number for number, param in enumerate(loop.params)}
        made = 0
        for number, (param, begins, atom) in enumerate(
            zip(loop.params, loop.initial, loop.body.results, strict=True)
        ):
            makes: int | None = None
            kept = numbers.get(atom.name, -1) if isinstance(atom, fun.Var) else -1
            if kept < 0:
                makes, kept, made = made, number, made + 1
            begin: Any = begins.value if isinstance(begins, fun.Const) else begins.name
            one = Carried(
                param.name, self.let.pattern[number].name, begin if self._is_there(begins) else "",
                self._shape(param.type), param.type.dtype.numpy, makes, kept, False,
            )  # fmt: skip
            yield replace(one, spilled=one.bytes > 0 and spills(one.bytes))

    def _read_by_rounds(self) -> frozenset[str]:
        """The names that rounds use of what there is when the loop begins."""
        used = frozenset[str]().union(*map(walk.free_names, walk.bodies(self.loop)))
        return used.union(*(walk.used_names(let.expr) for let in self.free))

    def _taken(self) -> int:
        """Bytes of arrays that take turns: those of a round, and those that it makes of them."""
        kept = [one for one in self.carried if not one.spilled]
        taken = sum(one.bytes * (1 if one.makes is None else 2) for one in kept)
        given = {one.begins: one.bytes for one in kept if one.begins in self.donated}
        return taken - sum(given.values())

    # ------------------------------------------------------------ programs

    def _rounds(self) -> Rounds:
        loop, sizes = self.loop, self.analysis.sizes
        index, bounds, count = "", None, None
        condition = None
        body = loop.body
        named: dict[str, int | None] = {}
        if isinstance(loop.form, fun.For):
            bounds = loop.form.lower, loop.form.upper
            number = loop.form.index
            if all(bound.variables() <= sizes.keys() for bound in bounds):
                count = max(int((bounds[1] - bounds[0]).evaluate(sizes)), 0)
            if number.name in _in_sizes(body):
                size = self.analysis.names.fresh("box_round")
                inside = walk.Substitution({}, {number.name: Poly.var(size)}).body(body)
                bound = fun.Let((number,), fun.SizeValue(Poly.var(size)))
                body = replace(inside, statements=(bound, *inside.statements))
                named = {size: int(bounds[0].evaluate(sizes)) if count else None}
            elif number.name in walk.free_names(body):
                index = number.name
        else:
            condition = self._part(loop.form.condition.statements, loop.form.condition.results)
        pairs = list(zip(self.carried, body.results, loop.initial, strict=True))
        begins = [initial for one, _, initial in pairs if one.begins == ""]
        results = [result for one, result, _ in pairs if one.makes is not None]
        return Rounds(
            self.carried, bounds, count, index, self._part([], begins) if begins else None,
            condition, self._part(body.statements, results, named), self.donated, sizes,
        )  # fmt: skip

    def _part(
        self, lets: Sequence[fun.Let], results: Sequence[fun.Atom],
        named: Mapping[str, int | None] | None = None,
    ) -> Part:  # fmt: skip
        """Statements, after those that cost nothing, with a plan.

        `named`: a size of their own, and what it is in the first round, if that is known.
        """
        named = named or {}
        program = self.analysis.program
        whole = [*self._used_free(lets, results), *lets]
        program = replace(program, sizes=(*program.sizes, *named))
        program = part_of(program, whole, results)
        sizes = {name: self.analysis.sizes[name] for name in self.analysis.program.sizes}
        inputs = {param.name: self._form(param) for param in program.params}
        sinks = [
            Buffer.like(self._shape(atom.type), atom.type.dtype.numpy)
            if isinstance(atom.type, fun.Array) else None
            for atom in results
        ]  # fmt: skip
        taken = self.resident
        first: Plan | None = None
        known = {name: number for name, number in named.items() if number is not None}
        if len(known) == len(named):
            first = self.plan(program, {**sizes, **known}, inputs, sinks, taken)
            first = replace(first, inputs={}, sinks=())
        replan: Replan | None = None
        if named:
            plan, (size,) = self.plan, named
            forms = inputs, sinks
            kept: dict[int, Plan] | None = None if pointer_params(program) else {}

            def again(
                number: int, inputs: Mapping[str, Input], sinks: Sequence[Sink | None]
            ) -> Plan:
                known = {**sizes, size: number}
                if kept is None:  # what is read hangs on the elements that there are now
                    return plan(program, known, inputs, sinks, taken)
                found = kept.get(number)
                if found is None:
                    found = plan(program, known, *forms, taken)  # a kept plan keeps no data
                    found = replace(found, inputs={}, sinks=())
                    if len(kept) < _KEPT:
                        kept[number] = found
                return found

            replan = again
        names = tuple(param.name for param in program.params)
        return Part(names, first, replan)

    def _used_free(
        self, lets: Sequence[fun.Let], results: Sequence[fun.Atom]
    ) -> list[fun.Let]:
        """Those of the statements that cost nothing which others read."""
        used = set(walk.free_names(fun.Body(tuple(lets), tuple(results))))
        found: list[fun.Let] = []
        for let in reversed(self.free):
            if used.intersection(var.name for var in let.pattern):
                used |= walk.used_names(let.expr)
                found.insert(0, let)
        return found

    def _form(self, var: fun.Var) -> Input:
        """How a parameter of a part lies."""
        if var.name in self.inputs:
            return self.inputs[var.name]
        shape, dtype = self._shape(var.type), var.type.dtype.numpy
        strides = tuple(
            dtype.itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))
        )
        return ArrayForm(shape, strides, dtype, True)

    def _is_there(self, atom: fun.Atom) -> bool:
        """Whether what is carried begins as something that lies as a round takes it."""
        if isinstance(atom, fun.Const):
            return True
        if any(atom.name == var.name for let in self.free for var in let.pattern):
            return False
        given = self.inputs.get(atom.name)
        if given is None or isinstance(atom.type, fun.Scalar):
            return True
        form = form_in_memory(given)
        return form is not None and form.is_contiguous and form.dtype.isnative

    # ------------------------------------------------------------ the stage

    def stage(
        self, peak: int, sinks: Mapping[str, Sequence[Sink | None]], kept: Collection[str],
        spilled: Collection[str],
    ) -> PlannedStage:  # fmt: skip
        """All rounds, as a stage of the whole program.

        `peak`: bytes allocated; `sinks`: those of results, by their names, `kept` and `spilled` as
        a stage has them.
        """
        rounds = self.rounds
        times = rounds.times
        parts = [(rounds.begin, 1), (rounds.condition, times + 1), (rounds.round, times)]
        stages = [(stage, n) for part, n in parts if part is not None for stage in part.stages]
        read = self._read(stages)
        written = sum(stage.bytes_written * n for stage, n in stages)
        written += sum(len(places) * self.analysis.bytes(name) for name, places in sinks.items()
                       if name in self.analysis.arrays)  # fmt: skip
        boxes = sum(stage.boxes.count for stage, _ in stages)
        code = OwnCode(tuple(kernel for stage, _ in stages for kernel in stage.kernels))
        return PlannedStage(
            Stage(self.analysis.program, (), (), (), (), self.reason), Boxes(boxes, {}, ()), code,
            (), (), (), 0, 1, peak, written, np.zeros((0, 0), np.int64), kept=tuple(sorted(kept)),
            spilled=tuple(sorted(spilled)), kernels=code.kernels, read=read, held=self.resident,
            rounds=rounds,
        )  # fmt: skip

    def _read(self, stages: Sequence[tuple[PlannedStage, int]]) -> dict[str, int]:
        """Bytes that stages read that run so many times: at first what the loop begins with."""
        begins = {one.name: one.begins for one in self.carried if one.begins and one.shape}
        read: dict[str, int] = {}
        for stage, times in stages:
            for name, count in stage.read.items():
                first = min(times, 1) if name in begins else 0
                read[name] = read.get(name, 0) + (times - first) * count
                if first:
                    read[begins[name]] = read.get(begins[name], 0) + count
        return read

    # ------------------------------------------------------------ what is said of it

    def refusal(self, peak: int, setting: Setting) -> MemoryLimitError:
        """That what the loop carries takes more than there is."""
        needed, limit = peak + setting.allowance, setting.limit + setting.allowance
        error = MemoryLimitError(
            f"what {self.let.pattern[0].name} carries from round to round needs "
            f"{size_text(needed)} at once",
            f"at most the memory limit, {size_text(limit)}",
            f"a memory_limit of at least {needed} bytes",
            self.let.place,
        )
        error.needed = needed
        return error

    @property
    def reason(self) -> str:
        """Why rounds go one by one, in words."""
        name, form = self.let.pattern[0].name, self.loop.form
        said = f"the rounds of {name}, one by one"
        found = [
            let for let in self.loop.body.statements if isinstance(let.expr, _NEED_ALL)
        ]
        if not found and isinstance(form, fun.While):
            found = [let for let in form.condition.statements if isinstance(let.expr, _NEED_ALL)]
        if not found and isinstance(form, fun.For) and self.rounds.count is None:
            return f"{said}: how many there are depends on data"
        if not found:
            return f"{said}: each needs what the one before gives at other places, too"
        needed = []
        for let in found:
            at = f" at {let.place}" if let.place is not None else ""
            needed.append(f"{let.pattern[0].name}{at}")
        return f"{said}: each needs {', '.join(dict.fromkeys(needed))}, of all that it begins with"


def _in_sizes(body: fun.Body) -> set[str]:
    """The names that occur in sizes of a body, at any depth."""
    found: set[str] = set()
    for let in walk.statements(body):
        if not isinstance(let.expr, fun.SizeValue):
            for size in walk.operands(let.expr)[1]:
                found |= size.variables()
        for var in let.pattern:
            for size in walk.type_sizes(var.type):
                found |= size.variables()
    return found
