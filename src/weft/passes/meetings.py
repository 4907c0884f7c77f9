"""What rounds of a loop do to an array or number that the next one takes: for the user to see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.fun import walk
from weft.passes.dependence import (
    SHOWN,
    Access,
    Dims,
    Inner,
    Rounds,
    indices_of,
    rounds_apart,
    whole,
)
from weft.passes.knowledge import Knowledge
from weft.passes.races import Race, keeps, meeting
from weft.passes.versions import Chain, Write, bound_in
from weft.records import dataclass

Why: TypeAlias = tuple[str, Access | None, Access | None, Race | None]
"""A reason, the two accesses that meet, and where they certainly do."""


def called(param: fun.Var) -> str:
    """What the user calls a variable: its name without the number that makes it one of its own."""
    return param.name.rpartition("_")[0] or param.name


def whole_values(write: Write, versions: set[str]) -> Iterator[Access]:
    """The array itself, where it is what is written."""
    if isinstance(write.value, fun.Var) and write.value.name in versions:
        yield Access(write.value.name, whole(write.value), (), write.let.place)


def first_write(chain: Chain) -> Access | None:
    return next((write.access() for write in chain.writes), None)


def why_in_order(
    param: fun.Var, result: fun.Atom, body: fun.Body, rounds: Rounds, known: Knowledge,
    rebound: bool,
) -> Why:  # fmt: skip
    """Why rounds have an order, by what they make of one parameter of their loop.

    `rebound`: it is a number, or an array that rounds bind anew, so that none writes to it.
    """
    uses = _Uses(param, {param.name})
    uses.follow(result, bound_in(body), (), False)
    writes = uses.writes[::-1]
    others = [*uses.reads(body, (), False), *writes]
    if rebound:
        last, other = (*writes[-1:], None)[0], (*others, None)[0]
        needed = f"{called(param)} is needed by the next round"
        left = f"what {called(param)} is in the last round is needed after the loop"
        return needed if param.name in _used(body) else left, last, other, None
    perhaps: tuple[Access, Access] | None = None
    for number, write in enumerate(writes):
        for other in (*writes[number:], *others[: len(others) - len(writes)]):
            if rounds_apart(write, other, rounds, known):
                continue
            apart, race = meeting(write, other, rounds, known)
            if race is not None:
                return "two rounds access one element", write, other, race
            if not apart:
                perhaps = perhaps or (write, other)
    if perhaps is not None:
        return "two rounds may access one element", *perhaps, None
    reason = f"{called(param)} is written in a way that is not understood"
    return reason, (*writes, None)[0], None, None


def _used(body: fun.Body) -> set[str]:
    return {*walk.free_names(body), *walk.uses(body)}


@dataclass(slots=True)
class _Uses:
    """Follows a parameter from what it becomes back to what it was.

    Attributes
    ----------
    param : Var
    versions : set of str
        What stands for it: what it was, in inner loops too, and what it became since.
    writes : list of Access
        The last one first.
    updates : set of str
        The names that updates bind.
    """

    param: fun.Var
    versions: set[str]
    writes: list[Access] = field(default_factory=list)
    updates: set[str] = field(default_factory=set)

    def follow(
        self, last: fun.Atom, bound: Mapping[str, fun.Let], inner: tuple[Inner, ...],
        conditional: bool,
    ) -> None:  # fmt: skip
        while isinstance(last, fun.Var) and last.name not in self.versions:
            let = bound.get(last.name)
            if let is None:
                return
            self.versions.add(last.name)
            expr = let.expr
            number = [var.name for var in let.pattern].index(last.name)
            match expr:
                case fun.Update(array, dims, value):
                    self.updates.add(last.name)
                    self.written(let, dims, inner, conditional or keeps(value, bound))
                    last = array
                case fun.If():
                    for side in (expr.otherwise, expr.then):
                        if isinstance(side.results[number], fun.Const):
                            self.written(let, self.whole(), inner, True)
                        own = {**bound, **bound_in(side)}
                        self.follow(side.results[number], own, inner, True)
                    return
                case fun.Loop(params, initial, form, body):
                    self.versions.add(params[number].name)
                    own = {**bound, **bound_in(body)}
                    within = (*inner, *indices_of(expr))
                    unsure = conditional or isinstance(form, fun.While)
                    self.follow(body.results[number], own, within, unsure)
                    last = initial[number]
                case fun.Scatter(destinations):
                    self.updates.add(last.name)
                    self.written(let, self.whole(), inner, True)
                    last = destinations[number]
                case _:
                    self.written(let, self.whole(), inner, conditional or keeps(last, bound))
                    return

    def written(
        self, let: fun.Let, dims: Dims, inner: tuple[Inner, ...],
        conditional: bool,
    ) -> None:  # fmt: skip
        self.writes.append(Access(self.param.name, dims, inner, let.place, True, conditional))

    def whole(self) -> Dims:
        return whole(self.param) if isinstance(self.param.type, fun.Array) else ()

    def reads(
        self, body: fun.Body, inner: tuple[Inner, ...], conditional: bool
    ) -> Iterator[Access]:
        """What is read of any version; that it is passed on, in a branch or loop, is no read."""
        for let in body.statements:
            expr = let.expr
            own = (*inner, *indices_of(expr))
            unsure = conditional or isinstance(expr, fun.If) or (
                isinstance(expr, fun.Loop) and isinstance(expr.form, fun.While)
            )  # fmt: skip
            match expr:
                case fun.Index(array, indices, boundary) if not any(boundary):
                    if array.name in self.versions:
                        yield Access(array.name, indices, inner, let.place, False, conditional)
                case fun.Slice(array, dims):
                    if array.name in self.versions:
                        yield Access(array.name, dims, inner, let.place, False, conditional)
                case _:
                    yield from self.taken(self.operands(let), let, inner, conditional)
            sizes = walk.operands(expr)[1] if isinstance(self.param.type, fun.Scalar) else ()
            if any(size.variables() & self.versions for size in sizes):
                yield Access(self.param.name, (), inner, let.place, False, conditional)
            for nested in walk.bodies(expr):
                yield from self.reads(nested, own, unsure)
                given = nested.results
                if isinstance(expr, fun.If | fun.Loop) and len(given) == len(let.pattern):
                    pairs = zip(given, let.pattern, strict=True)
                    given = tuple(atom for atom, var in pairs if var.name not in self.versions)
                yield from self.taken(given, let, own, unsure)

    def operands(self, let: fun.Let) -> Sequence[fun.Atom]:
        """What a statement takes other than what it makes a new version of."""
        match let.expr:
            case fun.Update(_, _, value) if let.pattern[0].name in self.updates:
                return (value,)
            case fun.Scatter() if {var.name for var in let.pattern} & self.updates:
                return ()
            case fun.Loop(params, initial):
                pairs = zip(params, initial, strict=True)
                return [atom for param, atom in pairs if param.name not in self.versions]
            case expr:
                return walk.operands(expr)[0]

    def taken(
        self, atoms: Sequence[fun.Atom], let: fun.Let, inner: tuple[Inner, ...], conditional: bool
    ) -> Iterator[Access]:
        unsure = conditional or isinstance(let.expr, SHOWN)
        for atom in atoms:
            if isinstance(atom, fun.Var) and atom.name in self.versions:
                yield Access(atom.name, self.whole(), inner, let.place, False, unsure)
