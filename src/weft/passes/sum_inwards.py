"""sum_inwards: of nests that multiply matrices, the loop that adds is the innermost one.

    for i { for k { let e = a[i, k]              for i { for j { for k {
      for j {                                      let e = a[i, k]
        let s = c[i, j]                    =>      let s = c[i, j]
        let u = add(s, e * b[k, j])                let u = add(s, e * b[k, j])
        update c[i, j] = u } } }                   update c[i, j] = u } } }

What adds to an element in all rounds of one loop is then a reduction (`parallelise`), in whatever
order the loops were written. A nest before it, of the other loops, that scales the same elements
or fills them, is done in the same rounds.

Removes: loops around those whose indices say which element is added to, and such nests.
Adds: the same loop, innermost; what each round did to its element before.
Requires: a checked program, simplified. Each loop holds the next one and scalars; the innermost
    adds to one element, at an index of its own for each of the other loops, of an array that is
    read nowhere else; one loop has no index there; and what is added is an element of a
    contraction (`weft.fun.contractions`).
Ensures: the same bits, since each element is added to in the same order. A read that fails does so
    after other writes, or not at all where there is no element to add to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.fun.contractions import contraction
from weft.passes import accumulation
from weft.records import dataclass
from weft.sizes import ONE, Poly


def sum_inwards(program: fun.Program, parallel: Collection[Place] = ()) -> fun.Program:
    """The program with such loops innermost.

    Parameters
    ----------
    program : fun.Program
    parallel : collection of Place
        Where the loops are that the user calls parallel: of these, none is to add.
    """
    moves = _Moves(Names.of(program), frozenset(parallel))
    body = moves.body(program.body, (), frozenset())
    return program if body is program.body else replace(program, body=body)


@dataclass(frozen=True, slots=True)
class _Nest:
    """Loops each of which holds the next one and scalars.

    Attributes
    ----------
    loops : tuple of fun.Let
        The outermost first.
    scalars : tuple of fun.Let
        What all of them hold beside loops, the update last.
    """

    loops: tuple[fun.Let, ...]
    scalars: tuple[fun.Let, ...]

    @staticmethod
    def of(let: fun.Let) -> _Nest | None:
        """The nest of a loop over an array's elements; None where it holds something else."""
        loops: list[fun.Let] = []
        scalars: list[fun.Let] = []
        while isinstance(let.expr, fun.Loop):
            loop = let.expr
            if not isinstance(loop.form, fun.For) or len(loop.params) != 1:
                return None
            if not isinstance(loop.params[0].type, fun.Array) or not loop.body.statements:
                return None
            *before, last = loop.body.statements
            inner = last.expr
            next_ = inner.array if isinstance(inner, fun.Update) else None
            if isinstance(inner, fun.Loop) and len(inner.initial) == 1:
                next_ = inner.initial[0]  # type: ignore[assignment]
            if next_ != loop.params[0] or last.pattern != loop.body.results:
                return None
            if not all(isinstance(other.expr, walk.SCALARS) for other in before):
                return None
            loops.append(let)
            scalars += before
            let = last
        if not loops or not isinstance(let.expr, fun.Update):
            return None
        return _Nest(tuple(loops), (*scalars, let))

    def forms(self) -> list[fun.For]:
        loops = [let.expr for let in self.loops]
        return [loop.form for loop in loops if isinstance(loop, fun.Loop)
                and isinstance(loop.form, fun.For)]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Moves:
    names: Names
    parallel: frozenset[Place]

    def body(
        self, body: fun.Body, around: tuple[fun.Var, ...], bound: frozenset[str]
    ) -> fun.Body:
        """A body in loops with these indices, and what they bind otherwise."""
        statements = [self.let(let, around, bound) for let in body.statements]
        for let in [*statements]:
            nest = _Nest.of(let)
            if nest is not None and self.ordered(nest, around, bound) == [*nest.loops]:
                _begin_within(nest, statements, Counter(walk.uses(body)))
        return walk.with_statements(body, statements)

    def let(self, let: fun.Let, around: tuple[fun.Var, ...], bound: frozenset[str]) -> fun.Let:
        nest = _Nest.of(let)
        order = None if nest is None else self.ordered(nest, around, bound)
        if nest is not None and order is not None:
            return let if order == [*nest.loops] else _nested(nest, order)
        if not isinstance(let.expr, fun.Loop | fun.If):
            return let
        form = let.expr.form if isinstance(let.expr, fun.Loop) else None
        inside = (*around, form.index) if isinstance(form, fun.For) else around

        def within(inner: fun.Body) -> fun.Body:
            own = {var.name for other in inner.statements for var in other.pattern}
            return self.body(inner, inside, bound | own)

        return walk.map_let(let, within)

    def ordered(
        self, nest: _Nest, around: tuple[fun.Var, ...], bound: frozenset[str]
    ) -> list[fun.Let] | None:
        """The loops of such a nest with the one that adds innermost; None of other nests."""
        update = nest.scalars[-1].expr
        assert isinstance(update, fun.Update)
        forms = nest.forms()
        own = {form.index.name: let for form, let in zip(forms, nest.loops, strict=True)}
        indices = _own_indices(update, [*around, *(form.index for form in forms)])
        adding = [form.index for form in forms if form.index not in (indices or ())]
        if indices is None or len(adding) != 1 or own[adding[0].name].place in self.parallel:
            return None
        kept = [index.name for index in indices if index.name in own]  # as elements lie
        limits = {name for form in forms for name in _limits(form)}
        if limits & {*kept}:
            kept = [name for name in own if name in kept]
        if limits & {adding[0].name, *bound, *(let.pattern[0].name for let in nest.scalars)}:
            return None
        order = [own[name] for name in (*kept, adding[0].name)]
        (sum_,) = (form for form in forms if form.index == adding[0])
        return order if self.contracts(nest, indices, sum_) else None

    def contracts(self, nest: _Nest, indices: Sequence[fun.Var], form: fun.For) -> bool:
        """Whether what is added to an element is a row's values times a column's, summed."""
        *scalars, last = nest.scalars
        update = last.expr
        assert isinstance(update, fun.Update)
        arrays = {let.expr.params[0].name for let in nest.loops if isinstance(let.expr, fun.Loop)}
        reads = [let for let in scalars if arrays & walk.used_names(let.expr)]
        if len(reads) != 1 or not isinstance(update.value, fun.Var) or len(indices) < 2:
            return False
        (read,) = reads
        if read.expr != fun.Index(update.array, update.dims):  # type: ignore[arg-type]
            return False
        body = fun.Body(tuple(scalars), (update.value,))
        found = accumulation.of_scalar(read.pattern[0], update.value, body, False)
        if found is None or found.operation != "add":
            return False
        inner = [let for let in accumulation.without(body, found.links) if let is not read]
        element = found.element(inner, self.names)
        space = [fun.Range(index, Poly.var(self.names.fresh("n"))) for index in indices]
        rounds = (fun.Range(form.index, form.upper - form.lower),)
        body = fun.Body(tuple(inner), (element,))
        sum_ = accumulation.reduction(rounds, body, [found], self.names)
        total = fun.Var(self.names.fresh("r"), read.pattern[0].type)
        kernel = fun.Kernel(tuple(space), fun.Body((fun.Let((total,), sum_),), (total,)))
        return contraction(kernel) is not None


def _limits(form: fun.For) -> frozenset[str]:
    """What the bounds of a loop depend on."""
    return form.lower.variables() | form.upper.variables()


def _own_indices(update: fun.Update, indices: Sequence[fun.Var]) -> list[fun.Var] | None:
    """The index that each dimension has of its own, by one element a round; None for others."""
    known = {index.name: index for index in indices}
    found: list[fun.Var] = []
    for dim in update.dims:
        if isinstance(dim, fun.Span):
            return None
        names = dim.variables() & known.keys()
        if len(names) > 1 or any(known[name] in found for name in names):
            return None
        for name in names:
            if dim.degree(name) != 1 or dim.coefficient(name) not in (ONE, -ONE):
                return None
            found.append(known[name])
    return found


def _nested(nest: _Nest, order: Sequence[fun.Let]) -> fun.Let:
    """The nest with its loops in another order, all that they hold beside them in the last."""
    inner: tuple[fun.Let, ...] = nest.scalars
    for at, header in reversed(list(zip(nest.loops, order, strict=True))):
        assert isinstance(at.expr, fun.Loop)
        assert isinstance(header.expr, fun.Loop)
        body = fun.Body(inner, inner[-1].pattern)
        loop = replace(at.expr, form=header.expr.form, body=body)
        inner = (replace(at, expr=loop, place=header.place),)
    return inner[0]


# ---------------------------------------------------------------- what stands before


def _begin_within(nest: _Nest, statements: list[fun.Let], uses: Mapping[str, int]) -> None:
    """Let the nest do what another one does to the same elements before it, if there is one."""
    (whole, *_), last = nest.loops, nest.loops[-1]
    assert isinstance(whole.expr, fun.Loop)
    assert isinstance(last.expr, fun.Loop)
    (start,) = whole.expr.initial
    named = [let for let in statements if isinstance(start, fun.Var) and start in let.pattern]
    first = _Nest.of(named[0]) if named and uses[named[0].pattern[0].name] == 1 else None
    made = None if first is None else _renamed(first, nest)
    if first is None or made is None:
        return
    sum_ = replace(
        last.expr, initial=made[-1].pattern, body=fun.Body(nest.scalars, nest.scalars[-1].pattern)
    )
    inner: tuple[fun.Let, ...] = (*made, replace(last, expr=sum_))
    for at in reversed(nest.loops[:-1]):
        assert isinstance(at.expr, fun.Loop)
        loop = replace(at.expr, body=fun.Body(inner, inner[-1].pattern))
        inner = (replace(at, expr=loop),)
    (merged,) = inner
    begin = first.loops[0].expr
    assert isinstance(begin, fun.Loop)
    assert isinstance(merged.expr, fun.Loop)
    merged = replace(merged, expr=replace(merged.expr, initial=begin.initial))
    statements[:] = [merged if s is whole else s for s in statements if s is not named[0]]


def _renamed(first: _Nest, nest: _Nest) -> list[fun.Let] | None:
    """What a nest does in a round, in the other's terms; None where rounds are not the same."""
    own, others = first.forms(), nest.forms()[:-1]
    if not others or len(own) != len(others):
        return None
    made = walk.Substitution()
    for form, other in zip(own, others, strict=True):
        if (made.size(form.lower), made.size(form.upper)) != (other.lower, other.upper):
            return None
        made.bind(form.index.name, other.index)
    innermost = nest.loops[-2].expr
    assert isinstance(innermost, fun.Loop)
    ours, theirs = first.scalars[-1].expr, nest.scalars[-1].expr
    assert isinstance(ours, fun.Update)
    assert isinstance(theirs, fun.Update)
    arrays = {let.expr.params[0].name for let in first.loops if isinstance(let.expr, fun.Loop)}
    for let in first.scalars[:-1]:
        is_own = let.expr == fun.Index(ours.array, ours.dims)  # type: ignore[arg-type]
        if arrays & walk.used_names(let.expr) and not is_own:
            return None
    made.bind(ours.array.name, innermost.params[0])
    lets = [made.let(let) for let in first.scalars]
    last = lets[-1].expr
    assert isinstance(last, fun.Update)
    return lets if last.dims == theirs.dims else None

