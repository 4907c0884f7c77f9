"""Branches and loops of the program's own statements: the host's, around what it launches.

loop (..) for t < n do { .. }  =>  repeat t from 0 to n { launches }
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.lower.gpu.host import Host
from weft.ops.dtypes import DType
from weft.plan import launches
from weft.sizes import Poly, as_poly


def lower_branch(host: Host, let: fun.Let, expr: fun.If) -> None:
    """A branch of which either side launches: the host reads the condition."""
    name = _condition(host, expr.condition)
    slots = [
        host.slot(var.type.dtype) if isinstance(var.type, fun.Scalar) else None
        for var in let.pattern
    ]
    branches = []
    for body in (expr.then, expr.otherwise):
        with host.inside() as steps:
            host.e.conditional = True
            host.body(body)
            _assign(host, slots, body.results)
        branches.append(tuple(steps))
    host.steps.append(launches.Branch(name, branches[0], branches[1]))
    _bind(host, let.pattern, slots)


def _condition(host: Host, atom: fun.Atom) -> str:
    """The host's integer that is the condition."""
    if isinstance(atom, fun.Var):
        if not host.is_known(Poly.var(atom.name)):
            host.read(atom.name)
        return atom.name
    name = host.unit.fresh("condition.")
    host.steps.append(launches.Define(name, as_poly(int(bool(atom.value)))))
    return name


def _assign(host: Host, slots: Sequence[imp.Var | None], results: Sequence[fun.Atom]) -> None:
    for slot, result in zip(slots, results, strict=True):
        if slot is not None:
            host.set(host.slots[slot.name], slot.dtype, host.e.atom(result))


def _bind(host: Host, pattern: Sequence[fun.Var], slots: Sequence[imp.Var | None]) -> None:
    for var, slot in zip(pattern, slots, strict=True):
        if slot is not None:
            host.e.bind(var.name, slot)


def lower_loop(host: Host, let: fun.Let, loop: fun.Loop) -> None:
    """A loop whose rounds launch: a scalar that it carries lies in memory, or is the host's."""
    switches = _switches(loop)
    host.switches |= {
        result: 1 - Poly.var(loop.params[k].name) for k, (_, result) in switches.items()
    }
    slots = [
        host.slot(var.type.dtype)
        if isinstance(var.type, fun.Scalar) and k not in switches
        else None
        for k, var in enumerate(loop.params)
    ]
    _assign(host, slots, loop.initial)
    host.flush()
    for k, (first, _) in switches.items():
        host.define(loop.params[k].name, as_poly(first))
    match loop.form:
        case fun.For(index, lower, upper):
            host.know(lower, upper)
            with host.inside() as steps:
                host.host_integer(index.name)
                host.e.ranges[index.name] = (lower, upper)
                _round(host, loop, slots, switches)
            host.steps.append(launches.Repeat(index.name, lower, upper, tuple(steps)))
        case fun.While(condition):
            with host.inside() as before:
                host.e.conditional = True
                _bind(host, loop.params, slots)
                host.body(condition)
                name = _condition(host, condition.results[0])
            with host.inside() as steps:
                host.e.conditional = True
                _round(host, loop, slots, switches)
            host.steps.append(launches.While(tuple(before), name, tuple(steps)))
    _bind(host, let.pattern, slots)
    for k in switches:
        host.define(let.pattern[k].name, Poly.var(loop.params[k].name))


def _round(
    host: Host,
    loop: fun.Loop,
    slots: Sequence[imp.Var | None],
    switches: dict[int, tuple[int, str]],
) -> None:
    _bind(host, loop.params, slots)
    host.body(loop.body)
    host.flush()  # slots are read before any of them changes
    _assign(host, slots, loop.body.results)
    host.flush()
    for k, (_, result) in switches.items():
        host.steps.append(launches.Define(loop.params[k].name, Poly.var(result)))


def _switches(loop: fun.Loop) -> dict[int, tuple[int, str]]:
    """Parameters that are 0 and 1 in turn, which say which of two buffers is which.

    loop (.., s = 0) { .. let r = subtract(1, s) in .., r }  =>  {position of s: (0, "r")}
    """
    found: dict[int, tuple[int, str]] = {}
    made = {let.pattern[0].name: let.expr for let in loop.body.statements}
    for k, (param, first, result) in enumerate(
        zip(loop.params, loop.initial, loop.body.results, strict=True)
    ):
        match first, made.get(result.name) if isinstance(result, fun.Var) else None:
            case fun.Const(value=0 | 1), fun.Apply("subtract", (fun.Const(value=1), other)):
                if other == param and param.type == fun.Scalar(DType.I64):
                    assert isinstance(result, fun.Var)
                    found[k] = int(first.value.real), result.name
    return found
