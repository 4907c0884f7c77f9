"""parallelise: loops whose rounds touch nothing of each other, as kernels and reductions.

    let y = loop (x1 = x0) for i from 0 to n {       let t = kernel (i < n) {
      let v = f(a[i])                                  let v = f(a[i])
      let x2 = update x1[i] = v                  =>    in v }
      in x2 }                                        let y = update x0[0 : n] = t

    let s = loop (s1 = s0) for i from 0 to n {       let r = reduce (; i < n) { a[i] } with add
      let s2 = add(s1, a[i]) in s2 }             =>  let s = add(s0, r)

Removes: `for` loops all of whose parameters are arrays that each round updates at elements of
    its own (that no other round reads), or scalars that are accumulated; in loops that the user
    calls parallel also arrays with whose elements rounds combine something by one operator.
Adds: kernels, reductions, scatters with an operator, and updates by their results.
Requires: a checked program, simplified.
Ensures: the same values; floats that are accumulated within rounding. With the sizes of a call,
    also the facts under which this holds.

Inner loops go first: then a nest is an update by a kernel at each level.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.passes import accumulation
from weft.passes.around import Around
from weft.passes.blocks import joined_blocks
from weft.passes.branch_writes import branch_writes
from weft.passes.dependence import integers_of
from weft.passes.independent import Independent
from weft.passes.knowledge import Knowledge
from weft.passes.localise import localise
from weft.passes.remarks import Remark, of_nest, once_each
from weft.passes.share import share_scalars
from weft.passes.square import contracts, square
from weft.passes.write_wholly import write_wholly
from weft.records import dataclass
from weft.sizes import Fact


@dataclass(slots=True)
class Result:
    """A program, what it assumes of the sizes, and the loops that stayed."""

    program: fun.Program
    assumed: tuple[Fact, ...]
    remarks: list[Remark]
    postponed: bool  # whether there are triangles that are left to `products`


def parallelise(
    program: fun.Program,
    values: Mapping[str, int] | None = None,
    parallel: Collection[Place] = (),
    library: bool = False,
    rebound: Mapping[Place, frozenset[str]] | None = None,
) -> Result:
    """The program with its independent loops as kernels.

    Parameters
    ----------
    values : mapping of str to int, optional
        The sizes of a call: what is not proved for all sizes is decided by them.
    parallel : collection of Place
        Where the loops are that the user calls parallel.
    library : bool
        Whether `products` follow, so that loops that fill triangles are left to them.
    rebound : mapping of Place to frozenset of str, optional
        What the user calls arrays that each round of such a loop makes anew: they are written
        nowhere, and what the last round makes is left.
    """
    if parallel:
        program = share_scalars(program)
    known = Knowledge.of(program, values)
    pass_ = _Parallelise(
        Names.of(program), frozenset(parallel), rebound or {}, integers_of(program),
        library=library,
    )  # fmt: skip
    body = write_wholly(pass_.body(program.body, known))
    assumed = tuple(known.assumed)
    facts = tuple(dict.fromkeys((*program.facts, *assumed)))
    made = replace(program, body=body, facts=facts)
    return Result(made, assumed, once_each(pass_.remarks), pass_.postponed)


class _Parallelise(Around):
    # ------------------------------------------------------------ inner first

    def body(self, body: fun.Body, known: Knowledge) -> fun.Body:
        statements: list[fun.Let] = []
        for let in body.statements:
            statements += self.let(let, known)
        return fun.Body(tuple(statements), body.results)

    def let(self, let: fun.Let, known: Knowledge) -> list[fun.Let]:
        expr = let.expr
        match expr:
            case fun.Loop(_, _, fun.For(index, lower, upper), body):
                inside = known.within(index.name, lower, upper - 1)
                marked = let.place in self.parallel
                self.marked += marked
                found = self._otherwise(let, known)
                if found is None:
                    remarks = len(self.remarks)
                    expr = replace(expr, body=self.body(body, inside))
                    found = self.loop(replace(let, expr=expr), known)
                    self.remarks[remarks:] = of_nest(self.remarks[remarks:], let.place)
                self.marked -= marked
                return found
            case fun.Kernel(space) | fun.Reduce(space) | fun.Scan(space) | fun.Scatter(_, space):
                inside = known
                for dim in space:
                    inside = inside.index(dim.index.name, dim.extent)
                expr = walk.map_bodies(expr, lambda b: self.body(b, inside))
            case _ if walk.bodies(expr):
                self.unsure += 1
                expr = walk.map_bodies(expr, lambda b: self.body(b, known))
                self.unsure -= 1
        let = replace(let, expr=expr)
        if isinstance(expr, fun.Loop):
            return self.kept(let, known)
        if isinstance(expr, fun.If):
            (let, *after) = accumulation.branch_sums(let, self.names)
            lifted = branch_writes(let, self.names, known)
            return [*(lifted or [let]), *after]
        return [let]

    def _otherwise(self, let: fun.Let, known: Knowledge) -> list[fun.Let] | None:
        """A loop in another form in which it is parallel: a triangle as a square, or blocks as one
        loop over what is in them.

        Loops that the user does not call parallel stay, but for those that multiply matrices:
        they write no more than they have to.
        """
        assert isinstance(let.expr, fun.Loop)
        made = None
        if let.place in self.parallel:
            made = joined_blocks(let, self.sizes, known, self.names)
        if made is None:
            squared = square(let.expr, self.names)
            made = None if squared is None else replace(let, expr=squared)
        if made is None:
            return None
        loop = walk.Substitution(fresh=self.names.fresh).expr(made.expr)
        assert isinstance(loop, fun.Loop)
        assert isinstance(loop.form, fun.For)
        form, remarks, assumed = loop.form, list(self.remarks), dict(known.assumed)
        inside = known.within(form.index.name, form.lower, form.upper - 1)
        made = replace(let, expr=replace(loop, body=self.body(loop.body, inside)))
        found = Independent(self, made, known, silent=True).converted()
        self.remarks[:] = remarks
        if found is not None and not self.marked and not any(map(contracts, found)):
            found = None
            known.assumed.clear()
            known.assumed.update(assumed)
        return found

    def loop(self, let: fun.Let, known: Knowledge) -> list[fun.Let]:
        """A `for` loop, whose body is done."""
        marked = let.place in self.parallel
        part = localise(let, self.names, known, wholly=True)
        if part is not None:
            before, inner, after = part
            found = Independent(self, inner, known, silent=True, in_part=True).converted()
            if found is not None:
                return [before, *found, after]
            if not marked:
                return [before, *self.kept(inner, known), after]
        remarks = len(self.remarks)
        found = Independent(self, let, known).converted()
        if found is None and marked:
            found = self.combining(let, known, remarks)
        return self.kept(let, known) if found is None else found

    def combining(self, let: fun.Let, known: Knowledge, remarks: int) -> list[fun.Let] | None:
        """A loop whose rounds may combine something with elements of arrays, if so of a part.

        `remarks`: how many there are without those on this loop.
        """
        rounds = Independent(self, let, known, silent=True, combining=True)
        found = rounds.converted()
        if found is None and not (rounds.free and rounds.combined):
            self.remarks[remarks:] = [
                replace(remark, otherwise=rounds.otherwise) for remark in self.remarks[remarks:]
            ]
            return None
        del self.remarks[remarks:]
        part = localise(let, self.names, known, wholly=False)
        if part is not None and found is not None:
            before, inner, after = part
            own = Independent(
                self, inner, known, silent=True, combining=True, in_part=True
            ).converted()
            found = found if own is None else [before, *own, after]
        return found

    def kept(self, let: fun.Let, known: Knowledge) -> list[fun.Let]:
        """A loop that stays, carrying no more than it has to."""
        part = localise(let, self.names, known, wholly=False)
        if part is not None:
            before, inner, after = part
            return [before, *self.kept(inner, known), after]
        return accumulation.apart_sums(let, self.names) if self.marked else [let]


