"""Stages that a device's memory is too small for: loops that the host runs, and the CPU.

    loop (v = x) for k from 0 to t { kernel .. kernel .. }

needs all that its rounds make at once on a device. The host can run its rounds one after another:
each is a program of its own, that goes to the device in boxes. What is no such loop, or has
rounds without a kernel, runs on the CPU, and a remark says so.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.errors import MemoryLimitError
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.launch.computation import Computation
from weft.ops.dtypes import DType
from weft.plan.code import DeviceCode, StageCode, Wholes
from weft.plan.segment import Layout
from weft.plan.setting import Compile
from weft.sizes import Poly, Size

NDArray: TypeAlias = npt.NDArray[Any]
RunProgram: TypeAlias = Callable[[Computation, Mapping[str, int], Sequence[Any]], list[Any]]

_PARALLEL = (fun.Kernel, fun.Reduce, fun.Scan, fun.Scatter, fun.Call)


def compile_apart(error: MemoryLimitError, run: RunProgram, on_cpu: Compile) -> Compile:
    """How a stage is compiled that a device refused with an error."""

    def compile(
        program: fun.Program, layouts: tuple[Layout, ...], private: Sequence[str] = ()
    ) -> StageCode:
        if any(_is_driven(let) for let in program.body.statements):
            return RoundsStage(program, run, f"rounds one after another: {error.found}")
        return _Remarked(on_cpu(program, layouts, private), f"runs on the cpu: {error.found}")

    return compile


def _is_driven(let: fun.Let) -> bool:
    """Whether a statement is a loop whose rounds are worth a launch each."""
    if not isinstance(let.expr, fun.Loop):
        return False
    own = let.expr.body.statements
    known = {var.name for inner in own for var in inner.pattern}
    known |= {param.name for param in let.expr.params}
    sizes = {n for inner in own for v in inner.pattern for s in walk.type_sizes(v.type)
             for n in s.variables()}  # fmt: skip
    return not sizes & known and any(
        isinstance(inner.expr, _PARALLEL) or _is_driven(inner) for inner in own
    )


class _Remarked:
    """The code of a stage with one more remark."""

    device: DeviceCode | None = None

    def __init__(self, code: StageCode, remark: str) -> None:
        self.integers, self.derived, self.workspace = code.integers, code.derived, code.workspace
        self.kernels, self.remarks = code.kernels, (remark, *code.remarks)
        self.run, self.check = code.run, code.check


class RoundsStage:
    """A stage with loops that the host runs."""

    workspace: Size | None = None
    device: DeviceCode | None = None

    def __init__(self, program: fun.Program, run: RunProgram, remark: str) -> None:
        self.program = program
        self.integers = (*program.sizes, *(entry.name for entry in program.derived))
        self.derived = program.derived
        self.kernels = tuple(
            f"loop {let.pattern[0].name}, by the host: each round on a device"
            for let in program.body.statements
            if _is_driven(let)
        )
        self.remarks = (remark,)
        self._run_program = run
        self._names = Names.of(program)
        self._parts: dict[int, list[_Part | _Rounds]] = {}
        self._context = contextvars.copy_context()  # the settings of the call

    def run(
        self,
        integers: npt.NDArray[np.int64],
        inputs: Sequence[NDArray],
        outputs: Sequence[NDArray],
        workspace: npt.NDArray[np.uint8],
        cancel: Any = None,
    ) -> None:
        known = dict(zip(self.integers, integers.tolist(), strict=True))
        sizes = {name: known[name] for name in self.program.sizes}
        values: dict[str, Any] = dict(
            zip((p.name for p in self.program.params), inputs, strict=True)
        )
        results = self._context.copy().run(self._body, self.program, values, sizes)
        for output, result in zip(outputs, results, strict=True):
            np.copyto(output, result, casting="no")

    def check(self, values: Mapping[str, Any], wholes: Wholes) -> None:
        """Each program that is run checks what it reads."""

    # ------------------------------------------------------------ running

    def _body(
        self, program: fun.Program, values: Mapping[str, Any], sizes: Mapping[str, int]
    ) -> list[Any]:
        """The results of a program's body."""
        found = self._parts.get(id(program.body))
        if found is None:
            found = self._parts[id(program.body)] = _parts(program, self._names)
        held = dict(values)
        for part in found:
            if isinstance(part, _Part):
                given = [held[param.name] for param in part.program.params]
                made = self._run_program(part.computation, sizes, given)
                held.update(zip(part.results, made, strict=True))
            else:
                held.update(self._rounds(part, held, sizes))
        return [_value(atom, held) for atom in program.body.results]

    def _rounds(
        self, rounds: _Rounds, held: Mapping[str, Any], sizes: Mapping[str, int]
    ) -> dict[str, Any]:
        loop = rounds.loop
        carried = [_value(atom, held) for atom in loop.initial]
        names = [param.name for param in loop.params]
        known = dict(sizes)
        for entry in rounds.body.derived:
            known[entry.name] = entry.evaluate(known)
        scalars = {n: int(v) for n, v in held.items() if np.ndim(v) == 0 and n not in known}

        def step(index: Mapping[str, int]) -> None:
            values = {**held, **dict(zip(names, carried, strict=True))}
            carried[:] = self._body(rounds.body, values, {**sizes, **index})

        match loop.form:
            case fun.For(_, lower, upper):
                every = {**scalars, **known}
                for number in range(lower.evaluate(every), upper.evaluate(every)):
                    step({rounds.index: number})
            case fun.While():
                assert rounds.condition is not None
                while True:
                    values = {**held, **dict(zip(names, carried, strict=True))}
                    (goes_on,) = self._body(rounds.condition, values, sizes)
                    if not goes_on:
                        break
                    step({})
        return dict(zip(rounds.results, carried, strict=True))


def _value(atom: fun.Atom, held: Mapping[str, Any]) -> Any:
    if isinstance(atom, fun.Const):
        return np.asarray(atom.value, atom.dtype.numpy)
    return held[atom.name]


class _Part:
    """Statements that are run as one program."""

    def __init__(self, program: fun.Program) -> None:
        self.program = program
        self.computation = Computation(program)
        self.computation.on_host_too = True
        self.results = tuple(a.name for a in program.body.results if isinstance(a, fun.Var))


class _Rounds:
    """A loop whose rounds are programs; `index` is a size variable of them."""

    def __init__(self, let: fun.Let, program: fun.Program, names: Names) -> None:
        assert isinstance(let.expr, fun.Loop)
        self.loop = let.expr
        self.results = tuple(var.name for var in let.pattern)
        self.index = ""
        self.condition: fun.Program | None = None
        body = self.loop.body
        sizes = program.sizes
        if isinstance(self.loop.form, fun.For):
            index = self.loop.form.index
            self.index = names.fresh("box_round")
            sizes = (*sizes, self.index)
            value = Poly.var(self.index)
            inside = walk.Substitution({}, {index.name: value}).body(body)
            bound = fun.Let((index,), fun.SizeValue(value))
            body = replace(inside, statements=(bound, *inside.statements))
        else:
            self.condition = replace(program, body=self.loop.form.condition)
        self.body = replace(program, body=body, sizes=sizes)


def _parts(program: fun.Program, names: Names) -> list[_Part | _Rounds]:
    """The body of a program as programs and loops of programs."""
    groups: list[list[fun.Let]] = [[]]
    for let in program.body.statements:
        if _is_driven(let):
            groups += [[let], []]
        else:
            groups[-1].append(let)
    found: list[_Part | _Rounds] = []
    for number, group in enumerate(groups):
        later = {n for rest in groups[number + 1 :] for let in rest
                 for n in walk.used_names(let.expr)}  # fmt: skip
        later |= {a.name for a in program.body.results if isinstance(a, fun.Var)}
        if len(group) == 1 and _is_driven(group[0]):
            found.append(_Rounds(group[0], program, names))
            continue
        results = [var for let in group for var in let.pattern if var.name in later]
        if results:
            found.append(_Part(_program(program, group, results)))
    return found


def _program(program: fun.Program, lets: Sequence[fun.Let], results: list[fun.Var]) -> fun.Program:
    """Statements as a program of what they use."""
    body = fun.Body(tuple(lets), tuple(results))
    used: dict[str, fun.Var] = {}
    bound = {var.name for let in lets for var in let.pattern}
    for let in walk.statements(body):
        bound |= {var.name for var in walk.operands(let.expr)[2]}
        bound |= {var.name for var in let.pattern}
    free = walk.free_names(body) - set(program.sizes) - {d.name for d in program.derived}
    for let in walk.statements(body):
        given = [atom for inner in walk.bodies(let.expr) for atom in inner.results]
        for atom in (*walk.operands(let.expr)[0], *given):
            if isinstance(atom, fun.Var) and atom.name in free and atom.name not in bound:
                used[atom.name] = atom
    for name in sorted(free - set(used)):  # scalars that occur in sizes alone
        used[name] = fun.Var(name, fun.Scalar(DType.I64))
    return replace(program, params=tuple(used.values()), body=body)
