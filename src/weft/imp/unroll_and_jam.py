"""unroll_and_jam: four rounds of a loop in one sweep of the simd loop that it holds.

    for i from a to b {
      for simd l from 0 to n { let t = s[l]; let x = p[i * m + l]; s[l] = add(t, x) } }
 => for i from a to a + (b - a) / 4 * 4 step 4 {
      for simd l from 0 to n {
        let t = s[l]; let x = p[i * m + l]; s[l] = add(t, x)
        let t_1 = s[l]; let x_1 = p[(i + 1) * m + l]; s[l] = add(t_1, x_1)
        .. } }
    for i from a + (b - a) / 4 * 4 to b { .. }

Removes: sweeps over what each round reads and writes again: `weft.imp.eliminate_loads` keeps it in
    registers between the rounds that are jammed. The sums of columns are the example: a round
    reads a row, and the sums so far.
    Not where the loop says that its rounds are better done in turn: then the last loop does all.
Requires: a checked program. The simd loop may be done in parts, between which memory is asked for.
Ensures: the same operations on each element, in the same order, so the same bits. A loop is left
    alone unless all that it writes is reached in no other way (an array of the thread's own, or
    a view that is `alone`), and each element of it in one lane only, the same in all rounds:
    then the lanes have nothing to do with each other. Parts have no lane in common. (F. Allen
    and J. Cocke, "A catalogue of optimizing transformations", 1971; S. Carr and K. Kennedy,
    "Improving the ratio of memory operations to floating-point operations in loops", ACM
    TOPLAS 16, 1994.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from weft.imp import nodes as imp
from weft.imp.eliminate_loads import eliminate_loads
from weft.imp.nodes import machine
from weft.imp.walk import inside, mentions, walked
from weft.records import dataclass

ROUNDS = 4
LARGEST = 24  # statements of a simd loop: of more, registers hold what one round needs


def unroll_and_jam(program: imp.Program) -> imp.Program:
    """The program with its loops jammed where that is proved to give the same."""
    alone = {
        node.pointer.name
        for node in walked(program.body)
        if isinstance(node, imp.Local)
        or (isinstance(node, imp.View) and node.alone and not node.volatile)
    }
    return replace(program, body=_block(program.body, frozenset(alone)))


def _block(statements: tuple[imp.Stmt, ...], alone: frozenset[str]) -> tuple[imp.Stmt, ...]:
    found: list[imp.Stmt] = []
    for statement in statements:
        if isinstance(statement, imp.For) and (row := _row(statement, alone)) is not None:
            found += _jammed(statement, row)
        else:
            found.append(_within(statement, alone))
    return tuple(found)


def _within(statement: imp.Stmt, alone: frozenset[str]) -> imp.Stmt:
    match statement:
        case imp.For(body=body) | imp.While(body=body) | imp.Parallel(body=body):
            return replace(statement, body=_block(body, alone))
        case imp.If(_, then, otherwise):
            return replace(statement, then=_block(then, alone), otherwise=_block(otherwise, alone))
        case _:
            return statement


# ---------------------------------------------------------------- what is jammed


@dataclass(frozen=True, slots=True)
class _Row:
    """What a round does: its one simd loop, which may be done in `parts`, and what comes before."""

    before: tuple[imp.Stmt, ...]
    parts: imp.For | None
    between: tuple[imp.Stmt, ...]
    simd: imp.For


def _row(loop: imp.For, alone: frozenset[str]) -> _Row | None:
    """What a round does, if rounds may be jammed."""
    *before, last = loop.body or (imp.Break(),)
    if loop.step != 1 or loop.simd or loop.unroll != 1 or not isinstance(last, imp.For):
        return None
    parts = None if last.simd or last.unroll != 1 else last
    *between, simd = (last,) if parts is None else parts.body or (imp.Break(),)
    if not isinstance(simd, imp.For):
        return None
    if not simd.simd or simd.reductions or simd.step != 1 or len(simd.body) > LARGEST:
        return None
    if not all(isinstance(end, imp.Const | imp.Var) for end in (loop.lower, loop.upper)):
        return None
    if not all(map(_asks_or_names, (*before, *between))):
        return None
    if not all(_is_plain(s) or isinstance(s, imp.Store) for s in simd.body):
        return None
    stored = {s.pointer for s in simd.body if isinstance(s, imp.Store)}
    if not stored or not all(pointer.name in alone for pointer in stored):
        return None
    loads = (n for n in inside((*before, *between)) if isinstance(n, imp.Load))
    if any(node.pointer in stored for node in loads):
        return None
    values = _Values(loop.var, simd.var, parts, (*before, *between, *simd.body))
    if values.varies((simd.lower, simd.upper), {loop.var.name, simd.var.name}):
        return None
    if parts is not None and not _are_apart(parts, simd, values):
        return None
    if not _own_lanes(simd, stored, values) or _tells_nan(simd, stored):
        return None
    return _Row(tuple(before), parts, tuple(between), simd)


def _tells_nan(simd: imp.For, stored: Collection[imp.Pointer]) -> bool:
    """Whether a round asks if what the one before stored is NaN.

    Where that is one of two values, gcc 12 asks of each, and has no vectors for the choice.
    """
    loaded = {
        statement.var
        for statement in simd.body
        if isinstance(statement, imp.Declare)
        and isinstance(statement.value, imp.Load)
        and statement.value.pointer in stored
    }
    for node in inside(simd.body):
        match node:
            case imp.Apply("isnan" | "not_equal", arguments) if len({*arguments}) == 1:
                if arguments[0] in loaded:
                    return True
    return False


def _are_apart(parts: imp.For, simd: imp.For, values: _Values) -> bool:
    """Whether each lane is in one part, the same in all rounds: b <= lane < min(_, b + step)."""
    if values.varies((parts.lower, parts.upper)) or values.resolved(simd.lower) != parts.var:
        return False
    end = machine("+", parts.var, imp.integer(parts.step))
    upper = values.resolved(simd.upper)
    if isinstance(upper, imp.Machine) and upper.operator == "min":
        return end in (upper.left, upper.right)
    return bool(upper == end)


def _is_plain(statement: imp.Stmt) -> bool:
    return isinstance(statement, imp.Declare) and not statement.mutable


def _asks_or_names(statement: imp.Stmt) -> bool:
    """Whether a statement declares values, or prefetches: it may be done earlier."""
    match statement:
        case imp.For(simd=False, body=body):
            return all(map(_asks_or_names, body))
        case imp.Prefetch():
            return True
        case _:
            return _is_plain(statement)


class _Values:
    """What the names that a round declares stand for."""

    def __init__(
        self, round_: imp.Var, lane: imp.Var, parts: imp.For | None, body: tuple[imp.Stmt, ...]
    ) -> None:
        self.lane = lane.name
        self.varying = {round_.name, lane.name} | (set() if parts is None else {parts.var.name})
        self.known = {s.var.name: s.value for s in body if isinstance(s, imp.Declare)}

    def resolved(self, value: Any) -> Any:
        """The value with the declared names replaced by what they stand for."""
        match value:
            case imp.Var(name) if (found := self.known.get(name)) is not None:
                return self.resolved(found)
            case imp.Machine():
                left, right = self.resolved(value.left), self.resolved(value.right)
                return replace(value, left=left, right=right)
            case _:
                return value

    def varies(self, value: Any, by: Collection[str] = ()) -> bool:
        """Whether a value may differ between rounds, parts or lanes, or those that `by` names."""
        names = by or self.varying
        return any(
            name in names or self.varies(self.known.get(name), names) for name in mentions(value)
        )

    def is_lane(self, index: imp.Expr) -> bool:
        """Whether an index is the lane's, moved by what is the same in all rounds and parts."""
        match index:
            case imp.Var(name):
                return name == self.lane
            case imp.Machine("+", left, right):
                return any(
                    self.is_lane(one) and not self.varies(other) and not _loads(other)
                    for one, other in ((left, right), (right, left))
                )
            case _:
                return False


def _loads(value: imp.Expr) -> bool:
    return any(isinstance(node, imp.Load) for node in inside(value))


def _own_lanes(simd: imp.For, stored: set[imp.Pointer], values: _Values) -> bool:
    """Whether what is stored is read and written in one lane only, and is read at all."""
    accesses = [
        node
        for node in inside(simd.body)
        if isinstance(node, imp.Load | imp.Store) and node.pointer in stored
    ]
    read = {node.pointer for node in accesses if isinstance(node, imp.Load)}
    places = {(node.pointer, values.resolved(node.index)) for node in accesses}
    return (
        read == stored
        and len(places) == len(stored)
        and all(values.is_lane(index) for _, index in places)
    )


# ---------------------------------------------------------------- jamming


def _jammed(loop: imp.For, row: _Row) -> Iterator[imp.Stmt]:
    name, simd, parts = loop.var.name, row.simd, row.parts
    whole, first = (replace(loop.var, name=f"{name}_{word}") for word in ("whole", "first"))
    rounds = machine("/", machine("-", loop.upper, loop.lower), imp.integer(ROUNDS))
    end = machine("+", loop.lower, machine("*", rounds, imp.integer(ROUNDS)))
    if loop.in_turn is not None:
        end = imp.Select(loop.in_turn, loop.lower, end)
    yield imp.Declare(whole, imp.Select(imp.OPTIMISED, end, loop.lower))
    inner_vars = [simd.var] if parts is None else [simd.var, parts.var]
    shared = {var.name: f"{var.name}_jammed" for var in inner_vars}
    starts: list[imp.Stmt] = []
    between: list[imp.Stmt] = []
    body: list[imp.Stmt] = []
    for number in range(ROUNDS):
        own = _Renaming(f"_{number}", {name: f"{name}_{number}", **shared})
        starts.append(imp.Declare(own(loop.var), machine("+", first, imp.integer(number))))
        starts += own(row.before)
        between += own(row.between)
        ends = {"lower": own(simd.lower), "upper": own(simd.upper)}
        body += own(simd.body)
    alone = {s.pointer.name for s in body if isinstance(s, imp.Store)}
    known = eliminate_loads(tuple(body), alone)
    inner: imp.For = replace(simd, var=own(simd.var), body=known, **ends)
    if parts is not None:
        bounds = {"lower": own(parts.lower), "upper": own(parts.upper)}
        inner = replace(parts, var=own(parts.var), body=(*between, inner), **bounds)
    loop = replace(loop, in_turn=None)
    jammed = replace(loop, var=first, upper=whole, step=ROUNDS, body=(*starts, inner))
    yield imp.If(imp.OPTIMISED, (jammed,))
    yield replace(loop, lower=whole)


class _Renaming:
    """Statements with other names: those given, and all that they declare with a suffix."""

    def __init__(self, suffix: str, names: dict[str, str]) -> None:
        self.suffix, self.names = suffix, names

    def __call__(self, node: Any) -> Any:
        if isinstance(node, imp.Declare | imp.For):
            self.names.setdefault(node.var.name, node.var.name + self.suffix)
        match node:
            case imp.Var(name):
                return replace(node, name=self.names.get(name, name))
            case tuple():
                return tuple(map(self, node))
            case _ if is_dataclass(node) and not isinstance(node, type | imp.Pointer):
                new = {field.name: self(getattr(node, field.name)) for field in fields(node)}
                return replace(node, **new)
            case _:
                return node
