"""carry_elements: an element that a round writes, and the next one reads, is carried as a scalar.

    let y = update x[0] = s                      let y = update x[0] = s
    loop (v = y) for k from 1 to n {             loop (v = y, e = s) for k from 1 to n {
      let a = v[k - 1]                     =>      ..
      let b = f(a)                                 let b = f(e)
      let w = update v[k] = b                      let w = update v[k] = b
      in w                                         in w, b
    }                                            }

Removes: reads of the element that the round before has written, in loops inside of kernels.
Adds: a scalar that the loop carries; a read before the loop, where nothing says what it is then.
Requires: a checked program. The element before the first round is a scalar that an update, or the
    last round of a loop, has put there; or this loop is proved to have a round, which reads it.
Ensures: the same values. Outside of kernels loops stay: on a device the host carries scalars there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.records import dataclass
from weft.sizes import ONE, Poly, Size
from weft.sizes.prove import Prover


def carry_elements(program: fun.Program) -> fun.Program:
    """The program with what rounds hand on, an element each, as scalars."""
    prover = Prover(program.facts, sizes=program.sizes, derived=program.derived)
    pass_ = _Carry(Names.of(program), prover)
    body = walk.in_kernels(program.body, partial(pass_.body, outside={}))
    return program if body is program.body else replace(program, body=body)


@dataclass(frozen=True, slots=True)
class _Element:
    """One element of an array, whose value is known.

    Attributes
    ----------
    at : tuple of Size
    value : fun.Atom
    rounds : Size or None
        Of the loop that has put it there, unless they are fewer than 0; None for an update.
    """

    at: tuple[Size, ...]
    value: fun.Atom
    rounds: Size | None = None


@dataclass(frozen=True, slots=True)
class _Handed:
    """What round k of a loop writes, and round k + 1 reads: the element of the parameter `array`,
    which is the `number`-th, at `at`."""

    array: fun.Var
    number: int
    at: tuple[Size, ...]
    value: fun.Atom


@dataclass(frozen=True, slots=True)
class _Carry:
    names: Names
    prover: Prover

    def body(self, body: fun.Body, outside: Mapping[str, _Element]) -> fun.Body:
        """A body inside of a kernel, with elements of arrays that are in scope."""
        known, statements = dict(outside), []
        for let in body.statements:
            new = walk.map_let(let, partial(self.body, outside=known))
            written = _written(new.expr)
            if written is not None:
                known[new.pattern[0].name] = written
            statements += self.loop(new, known) if isinstance(new.expr, fun.Loop) else [new]
        return walk.with_statements(body, statements)

    def loop(self, let: fun.Let, known: dict[str, _Element]) -> list[fun.Let]:
        """The loop, and what it needs before it; notes what elements it leaves."""
        loop, before = let.expr, list[fun.Let]()
        assert isinstance(loop, fun.Loop)
        if not isinstance(loop.form, fun.For) or loop.form.tiled is not None:
            return [let]
        pattern, form = list(let.pattern), loop.form
        for handed in _handed(loop, form):
            first = self.first(loop, form, handed, known)
            if first is None:
                continue
            type_ = fun.Scalar(handed.array.type.dtype)
            if isinstance(first, fun.Index):
                read = fun.Var(self.names.fresh("first"), type_)
                before.append(fun.Let((read,), first, let.place))
                first = read
            carried, last = (fun.Var(self.names.fresh(n), type_) for n in ("handed", "last"))
            loop = _carrying(loop, form, handed, first, carried)
            end = _at(handed, form, form.upper - ONE)
            known[pattern[handed.number].name] = _Element(end, last, form.upper - form.lower)
            pattern.append(last)
        if loop is let.expr:
            return [let]
        return [*before, replace(let, pattern=tuple(pattern), expr=loop)]

    def first(
        self, loop: fun.Loop, form: fun.For, handed: _Handed, known: Mapping[str, _Element]
    ) -> fun.Atom | fun.Index | None:
        """What the first round reads, if there is one; None where that is not to be had."""
        array, at = loop.initial[handed.number], _at(handed, form, form.lower - ONE)
        assert isinstance(array, fun.Var)
        element, rounds = known.get(array.name), form.upper - form.lower
        if element is not None and element.at == at and (
            # Where this loop has a round, that one had no fewer than none.
            element.rounds is None or self.prover.nonnegative(element.rounds - rounds + ONE)
        ):  # fmt: skip
            return element.value
        return fun.Index(array, at) if self.prover.positive(rounds) else None


def _written(expr: fun.Expr) -> _Element | None:
    """The element that an update writes, where that is one."""
    if not isinstance(expr, fun.Update) or not isinstance(expr.value.type, fun.Scalar):
        return None
    if any(isinstance(dim, fun.Span) and dim.extent != ONE for dim in expr.dims):
        return None
    at = tuple(dim.start if isinstance(dim, fun.Span) else dim for dim in expr.dims)
    return _Element(at, expr.value)


def _handed(loop: fun.Loop, form: fun.For) -> list[_Handed]:
    """The elements that each round writes and the next one reads, whatever else it does."""
    made = {let.pattern[0].name: let.expr for let in loop.body.statements if let.pattern}
    bound = {var.name for let in loop.body.statements for var in let.pattern}
    found = []
    for number, (param, result) in enumerate(zip(loop.params, loop.body.results, strict=True)):
        update = made.get(result.name) if isinstance(result, fun.Var) else None
        if not isinstance(update, fun.Update) or update.array.name != param.name:
            continue
        written = _written(update)
        if written is None or any(n.variables() & bound for n in written.at):
            continue
        handed = _Handed(param, number, written.at, written.value)
        if any(_reads(let.expr, handed, form) for let in loop.body.statements):
            found.append(handed)
    return found


def _at(handed: _Handed, form: fun.For, round_: Size) -> tuple[Size, ...]:
    """Where the element is that a round writes."""
    return tuple(n.substitute({form.index.name: round_}) for n in handed.at)


def _reads(expr: fun.Expr, handed: _Handed, form: fun.For) -> bool:
    """Whether that is what the round before has written."""
    if not isinstance(expr, fun.Index) or expr.array.name != handed.array.name or expr.boundary:
        return False
    return expr.indices == _at(handed, form, Poly.var(form.index.name) - ONE)


def _carrying(
    loop: fun.Loop, form: fun.For, handed: _Handed, first: fun.Atom, carried: fun.Var
) -> fun.Loop:
    """The loop with a scalar for an element that it reads."""
    scalars: dict[str, fun.Atom] = {}
    statements = []
    for let in loop.body.statements:
        if _reads(let.expr, handed, form):
            scalars[let.pattern[0].name] = carried
        else:
            statements.append(let)
    body = fun.Body(tuple(statements), (*loop.body.results, handed.value))
    return replace(
        loop, params=(*loop.params, carried), initial=(*loop.initial, first),
        body=walk.Substitution(scalars).body(body),
    )  # fmt: skip
