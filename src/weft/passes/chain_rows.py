"""chain_rows: a round reads what the round before has made where that put it, as a row.

    let v, y = loop (v1 = a, y1 = empty (n, m))     let e = empty (n + 1, m)
        for k from 0 to n {                         let s = update e[0, 0 for m] = a
      .. v1[i] ..                                   let w = loop (z1 = s) for k from 0 to n {
      let v2 = kernel ..                              .. z1[k, i] ..
      let y2 = update y1[k, 0 for m] = v2     =>      let v2 = kernel ..
      in v2, y2 }                                     let z2 = update z1[k + 1, 0 for m] = v2
                                                      in z2 }
                                                    let y = slice w[1 for n, 0 for m]

Removes: arrays that a loop carries from one round to the next, of which it keeps every state in
    rows of another array, if elements alone are read and nothing needs the last state.
Adds: a row for the first state; a slice of the others.
Requires: a checked program, in which arrays that loops fill begin empty (`defer`).
Ensures: the same values. A row is written once, that was written twice. Where the rows are a
    result, which would have to be copied without the first one, the loop stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.records import dataclass
from weft.sizes import ONE, ZERO, Poly, Size


def chain_rows(program: fun.Program) -> fun.Program:
    """The program with states of loops read where they are kept."""
    if not any(isinstance(let.expr, fun.Empty) for let in walk.statements(program.body)):
        return program
    body = _Chain(program).body(program.body)
    return program if body is program.body else replace(program, body=body)


@dataclass(frozen=True, slots=True)
class _States:
    """An array that a loop carries, and the one that keeps its states, by their numbers."""

    state: int
    rows: int
    update: fun.Var  # which the loop writes a row by


class _Chain:
    def __init__(self, program: fun.Program) -> None:
        self.names = Names.of(program)
        self.uses = Counter(walk.uses(program.body))

    def body(self, body: fun.Body) -> fun.Body:
        empty: set[str] = set()
        statements: list[fun.Let] = []
        kept = {atom.name for atom in body.results if isinstance(atom, fun.Var)}
        for old in body.statements:
            let = walk.map_let(old, self.body)
            if isinstance(let.expr, fun.Empty):
                empty.add(let.pattern[0].name)
            found = self.states(let, empty, kept) if isinstance(let.expr, fun.Loop) else None
            statements += [let] if found is None else self.chained(let, found)
        return walk.with_statements(body, statements)

    # ------------------------------------------------------------ where it is so

    def states(self, let: fun.Let, empty: set[str], kept: set[str]) -> _States | None:
        """A carried array whose states a loop keeps."""
        loop = let.expr
        assert isinstance(loop, fun.Loop)
        if not isinstance(loop.form, fun.For):
            return None
        made = {inner.pattern[0].name: inner for inner in loop.body.statements if inner.pattern}
        for rows, (result, first) in enumerate(zip(loop.body.results, loop.initial, strict=True)):
            update = made.get(result.name) if isinstance(result, fun.Var) else None
            if (
                update is None
                or not isinstance(first, fun.Var)
                or first.name not in empty
                or let.pattern[rows].name in kept
                or not self.appends(update, loop.params[rows], loop.form)
            ):
                continue
            assert isinstance(update.expr, fun.Update)
            for state, value in enumerate(loop.body.results):
                if (
                    value == update.expr.value
                    and not self.uses[let.pattern[state].name]
                    and self.is_read_alone(loop.params[state], loop.body)
                ):
                    return _States(state, rows, update.pattern[0])
        return None

    def appends(self, update: fun.Let, rows: fun.Var, form: fun.For) -> bool:
        """Whether a round writes an array to the row of its number, and does nothing else."""
        expr = update.expr
        if not isinstance(expr, fun.Update) or expr.array != rows:
            return False
        row, *others = expr.dims
        _, *extents = walk.type_sizes(rows.type)
        return (
            isinstance(row, Poly)
            and row == Poly.var(form.index.name) - form.lower
            and tuple(others) == _whole(extents)
            and self.uses[rows.name] == 1
            and self.uses[update.pattern[0].name] == 1
        )

    def is_read_alone(self, param: fun.Var, body: fun.Body) -> bool:
        """Whether elements of an array are read, and it is used in no other way."""
        reads = sum(
            isinstance(let.expr, fun.Index) and let.expr.array.name == param.name
            for let in walk.statements(body)
        )
        return isinstance(param.type, fun.Array) and reads == self.uses[param.name]

    # ------------------------------------------------------------ and what becomes of it

    def chained(self, let: fun.Let, found: _States) -> list[fun.Let]:
        """The loop over rows and one more, with what stands before and after it."""
        loop = let.expr
        assert isinstance(loop, fun.Loop)
        assert isinstance(loop.form, fun.For)
        old, rows = let.pattern[found.rows], loop.params[found.rows]
        count, *extents = walk.type_sizes(old.type)
        type_ = fun.Array(old.type.dtype, (count + 1, *extents))
        empty, start, param, end = (
            fun.Var(self.names.fresh(base), type_) for base in ("rows", "rows", rows.name, old.name)
        )
        row = Poly.var(loop.form.index.name) - loop.form.lower
        chained = _Rows(loop.params[found.state].name, rows.name, found.update.name, param, row)
        body = chained.body(loop.body)

        def without(items: Sequence[fun.Atom], last: fun.Atom) -> tuple[fun.Atom, ...]:
            gone = found.state, found.rows
            return (*(item for n, item in enumerate(items) if n not in gone), last)

        body = fun.Body(
            body.statements, without(body.results, fun.Var(found.update.name, type_))
        )
        expr = fun.Loop(
            without(loop.params, param), without(loop.initial, start), loop.form, body  # type: ignore[arg-type]
        )
        first = fun.Update(empty, (ZERO, *_whole(extents)), loop.initial[found.state])
        view = fun.Slice(end, (fun.Span(ONE, count), *_whole(extents)))
        return [
            fun.Let((empty,), fun.Empty(type_.dtype, type_.shape), let.place),
            fun.Let((start,), first, let.place),
            fun.Let(without(let.pattern, end), expr, let.place),  # type: ignore[arg-type]
            fun.Let((old,), view, let.place),
        ]


class _Rows(walk.Substitution):
    """A loop's body, with reads of a state as reads of its row, and its update of the next."""

    def __init__(self, state: str, rows: str, update: str, array: fun.Var, row: Size) -> None:
        super().__init__()
        self.state, self.rows, self.update = state, rows, update
        self.array, self.row = array, row

    def let(self, let: fun.Let) -> fun.Let:
        match let.expr:
            case fun.Index(array, indices, boundary) if array.name == self.state:
                rules = (None, *boundary) if boundary else ()
                return replace(let, expr=fun.Index(self.array, (self.row, *indices), rules))
            case fun.Update(array, (_, *others), value) if array.name == self.rows:
                dims = (self.row + 1, *others)
                var = fun.Var(self.update, self.array.type)
                return fun.Let((var,), fun.Update(self.array, dims, value), let.place)
            case _:
                return super().let(let)


def _whole(extents: Sequence[Size]) -> tuple[fun.Span, ...]:
    return tuple(fun.Span(ZERO, extent) for extent in extents)
