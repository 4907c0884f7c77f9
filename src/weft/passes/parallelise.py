"""parallelise: loops whose rounds touch nothing of each other, as kernels and reductions.

    let y = loop (x1 = x0) for i from 0 to n {       let t = kernel (i < n) {
      let v = f(a[i])                                  let v = f(a[i])
      let x2 = update x1[i] = v                  =>    in v }
      in x2 }                                        let y = update x0[0 : n] = t

    let s = loop (s1 = s0) for i from 0 to n {       let r = reduce (; i < n) { a[i] } with add
      let s2 = add(s1, a[i]) in s2 }             =>  let s = add(s0, r)

Removes: `for` loops all of whose parameters are arrays that each round updates at elements of
    its own (that no other round reads), or scalars that are accumulated.
Adds: kernels, reductions, scatters with an operator, and updates by their results.
Requires: a checked program, simplified.
Ensures: the same values; floats that are accumulated within rounding. With the sizes of a call,
    also the facts under which this holds.

Inner loops go first: then a nest is an update by a kernel at each level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.ops.dtypes import DType
from weft.passes import accumulation, extremes
from weft.passes.branch_writes import branch_writes, is_inside, read_of, slice_type
from weft.passes.dependence import (
    Access,
    Rounds,
    integers_of,
    reads,
    rounds_apart,
    rounds_apart_but,
    spared_round,
)  # fmt: skip
from weft.passes.knowledge import Knowledge
from weft.passes.localise import localise
from weft.passes.meetings import called, first_write, whole_values, why_in_order
from weft.passes.places_written import Aggregate, aggregate, filled, row_of
from weft.passes.races import Race, around, keeps, meeting, names_used
from weft.passes.square import contracts, square
from weft.passes.versions import Chain, Resolver, Write, bound_in, chain_to
from weft.passes.write_wholly import write_wholly
from weft.records import dataclass
from weft.sizes import ZERO, Fact, Poly, Size

_I64 = fun.Scalar(DType.I64)


@dataclass(frozen=True, slots=True)
class Remark:
    """Why a loop that the user calls parallel is not: two accesses, or a variable.

    Attributes
    ----------
    place : Place
        Of the loop.
    reason : str
    left, right : Access or None
    race : Race or None
        Two rounds that access one element, where that is certain.
    """

    place: Place
    reason: str
    left: Access | None = None
    right: Access | None = None
    race: Race | None = None


@dataclass(slots=True)
class Result:
    """A program, what it assumes of the sizes, and the loops that stayed."""

    program: fun.Program
    assumed: tuple[Fact, ...]
    remarks: list[Remark]


def parallelise(
    program: fun.Program,
    values: Mapping[str, int] | None = None,
    parallel: Collection[Place] = (),
) -> Result:
    """The program with its independent loops as kernels.

    Parameters
    ----------
    values : mapping of str to int, optional
        The sizes of a call: what is not proved for all sizes is decided by them.
    parallel : collection of Place
        Where the loops are that the user calls parallel.
    """
    known = Knowledge.of(program, values)
    pass_ = _Parallelise(Names.of(program), frozenset(parallel), integers_of(program))
    body = write_wholly(pass_.body(program.body, known))
    assumed = tuple(known.assumed)
    facts = tuple(dict.fromkeys((*program.facts, *assumed)))
    return Result(replace(program, body=body, facts=facts), assumed, pass_.remarks)


@dataclass(slots=True)
class _Parallelise:
    names: Names
    parallel: frozenset[Place]
    sizes: Mapping[str, Size]  # what integers are
    remarks: list[Remark] = field(default_factory=list)
    marked: int = 0  # how many of the loops around are said to be parallel
    unsure: int = 0  # how many branches, and loops by conditions, are around

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
                squared = self._squared(let, known)
                if squared is None:
                    expr = replace(expr, body=self.body(body, inside))
                    squared = self.loop(replace(let, expr=expr), known)
                self.marked -= marked
                return squared
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

    def _squared(self, let: fun.Let, known: Knowledge) -> list[fun.Let] | None:
        """A loop around a triangle, where that is parallel as a square.

        Loops that the user does not call parallel stay, but for those that multiply matrices:
        they write no more than they have to.
        """
        assert isinstance(let.expr, fun.Loop)
        assert isinstance(let.expr.form, fun.For)
        loop = square(let.expr, self.names)
        if loop is None:
            return None
        fresh = walk.Substitution(fresh=self.names.fresh)
        loop_copy = fresh.expr(loop)
        assert isinstance(loop_copy, fun.Loop)
        assert isinstance(loop_copy.form, fun.For)
        form, remarks, assumed = loop_copy.form, list(self.remarks), dict(known.assumed)
        inside = known.within(form.index.name, form.lower, form.upper - 1)
        body = self.body(loop_copy.body, inside)
        made = replace(let, expr=replace(loop_copy, body=body))
        found = _Loop(self, made, known, silent=True).converted()
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
            found = _Loop(self, inner, known, silent=True).converted()
            if found is not None:
                return [before, *found, after]
            if not marked:
                return [before, *self.kept(inner, known), after]
        found = _Loop(self, let, known).converted()
        return self.kept(let, known) if found is None else found

    def kept(self, let: fun.Let, known: Knowledge) -> list[fun.Let]:
        """A loop that stays, carrying no more than it has to."""
        part = localise(let, self.names, known, wholly=False)
        if part is not None:
            before, inner, after = part
            return [before, *self.kept(inner, known), after]
        return accumulation.apart_sums(let, self.names) if self.marked else [let]


class _Loop:
    """One `for` loop, its inner loops being done."""

    def __init__(
        self, outer: _Parallelise, let: fun.Let, known: Knowledge, silent: bool = False
    ) -> None:
        assert isinstance(let.expr, fun.Loop)
        assert isinstance(let.expr.form, fun.For)
        self.outer = outer
        self.silent = silent
        self.names = outer.names
        self.let = let
        self.loop = let.expr
        self.form = let.expr.form
        self.known = known
        self.bound = bound_in(self.loop.body)
        free = walk.free_names(self.loop.body) - {p.name for p in self.loop.params}
        self.rounds = Rounds(
            self.form.index.name, self.form.lower, self.form.upper,
            frozenset(free - {self.form.index.name}),
        )  # fmt: skip
        self.extent = self.form.upper - self.form.lower

    def converted(self) -> list[fun.Let] | None:
        """Statements that give what the loop gives; None where it must stay."""
        chains: dict[int, Chain] = {}
        sums: dict[int, accumulation.Accumulation] = {}
        asked = self.let.place in self.outer.parallel
        kept = extremes.extremes(self.loop) if asked else []
        apart = {number for one in kept for number in one.numbers}
        for number, (param, result) in enumerate(
            zip(self.loop.params, self.loop.body.results, strict=True)
        ):
            if number in apart:
                continue
            chain = chain_to(result, self.bound)
            if chain is not None and chain.root.name == param.name:
                chains[number] = chain
                continue
            unordered = self.outer.marked > 0
            found = accumulation.of_scalar(param, result, self.loop.body, unordered)
            if found is None:
                if self._is_asked():
                    body = self.loop.body
                    self.refused(*why_in_order(param, result, body, self.rounds, self.known))
                return None
            sums[number] = found
        if not self.known.nonnegative(self.extent):
            return None
        links = {name for found in sums.values() for name in found.links}
        statements = accumulation.without(self.loop.body, links)
        for one in kept:
            statements = [*(let for let in statements if let is not one.branch), *one.after]
            single = one.of_one_integer()
            if single is not None:
                sums[one.numbers[0]] = single
        self.body = fun.Body(tuple(statements), self.loop.body.results)
        if not chains:
            done = self._accumulated(self.body, sums) if sums else []
            several = [one for one in kept if one.numbers[0] not in sums]
            return done + [let for one in several for let in self._selected(self.body, one)]
        if not self._independent(list(chains.values())):
            return None
        return self._kernel(chains, sums)

    def refused(
        self,
        reason: str,
        left: Access | None = None,
        right: Access | None = None,
        race: Race | None = None,
    ) -> None:
        """Remember why a loop that should be parallel is not."""
        if self._is_asked():
            assert self.let.place is not None
            race = None if self.outer.unsure else race
            self.outer.remarks.append(Remark(self.let.place, reason, left, right, race))

    def _is_asked(self) -> bool:
        return self.let.place in self.outer.parallel and not self.silent

    # ------------------------------------------------------------ independence

    def _independent(self, chains: Sequence[Chain]) -> bool:
        """Whether no round touches what another one writes."""
        updates = {write.name for chain in chains for write in chain.writes}
        for chain in chains:
            written = [
                Access(chain.root.name, w.dims, (), w.let.place, True, keeps(w.value, self.bound))
                for w in chain.writes
            ]
            versions = set(chain.versions)
            read = list(reads(self.body, versions, updates))
            read += [
                access for other in chains for write in other.writes
                for access in whole_values(write, versions)
            ]  # fmt: skip
            for number, write in enumerate(written):
                spared = self._spared(chain.writes[number])
                for access in (*written[number:], *read):
                    if rounds_apart(write, access, self.rounds, self.known):
                        continue
                    if spared is not None and rounds_apart_but(
                        write, access, spared, self.rounds, self.known
                    ):
                        continue
                    if not self._apart_in_this_call(write, access):
                        return False
        return True

    def _spared(self, write: Write) -> Size | None:
        """The one round in which what is written is what is there, as by `if i != k`.

        For a loop that the user calls parallel: others stay, since they write no more than they
        have to, in place.
        """
        if self.let.place not in self.outer.parallel or not isinstance(write.value, fun.Var):
            return None
        made, sizes = self.bound.get(write.value.name), self.outer.sizes
        there = read_of(write.array, write.dims)
        if made is None:
            return None
        return spared_round(made.expr, there, self.rounds, self.bound, sizes)

    def _apart_in_this_call(self, write: Access, other: Access) -> bool:
        """The same with the sizes of the call, which are then assumed."""
        apart, race = meeting(write, other, self.rounds, self.known)
        if apart:
            self._assume_sizes(write, other)
        else:
            self.refused("two rounds may access one element", write, other, race)
        return apart

    def _assume_sizes(self, *accesses: Access) -> None:
        names = names_used(accesses, self.rounds)
        for lower, upper in around(names, self.known).values():
            names |= lower.variables() | upper.variables()
        for name in sorted(names & self.known.values.keys()):
            self.known.assumed[Fact("==0", Poly.var(name) - self.known.values[name])] = None

    # ------------------------------------------------------------ kernels

    def _kernel(
        self, chains: Mapping[int, Chain], sums: Mapping[int, accumulation.Accumulation]
    ) -> list[fun.Let] | None:
        """A kernel that gives what each round writes, and updates by its results."""
        written = [chain for chain in chains.values() if chain.writes]
        resolver = Resolver(written, self.known, self.names)
        body = resolver.body(self.body)
        if body is None:
            first = next(filter(None, map(first_write, chains.values())), None)
            self.refused("a read of what the round has written is not understood", first)
            return None
        statements = list(body.statements)
        writes: list[tuple[int, Place | None, fun.Atom, Aggregate]] = []
        for number, chain in chains.items():
            placed = self._placed(self.loop.params[number], chain, resolver, statements)
            if placed is None:
                name = called(self.loop.params[number])
                self.refused(f"{name} is written at places that are no LMAD", first_write(chain))
                return None
            writes += [(number, *write) for write in placed]
        results = tuple(value for _, _, value, _ in writes)
        made, variables = self._over_space(fun.Body(tuple(statements), results))
        done = [*made]
        arrays: dict[int, fun.Atom] = {n: self.loop.initial[n] for n in chains}
        left = Counter(number for number, *_ in writes)
        for (number, at, _, place), var in zip(writes, variables, strict=True):
            left[number] -= 1
            last = self.let.pattern[number] if left[number] == 0 else None
            array = arrays[number]
            assert isinstance(array, fun.Var)
            steps, arrays[number] = place.update(array, var, last, self.names, at)
            done += steps
        if sums:
            found = {number: one.replaced(resolver.atom) for number, one in sums.items()}
            done += self._accumulated(body, found)
        return self._renamed_results(done, arrays)

    def _placed(
        self, param: fun.Var, chain: Chain, resolver: Resolver, statements: list[fun.Let]
    ) -> list[tuple[Place | None, fun.Atom, Aggregate]] | None:
        """What a round writes to an array, and where all rounds do; None where that is no LMAD.

        Where a round keeps to a row, it may give the row: the rest of it is as it was.
        """
        found: list[tuple[Place | None, fun.Atom, Aggregate]] = []
        for write in chain.writes:
            place = aggregate(param, write.dims, self.rounds, self.extent, self.known)
            if place is None:
                return self._as_row(param, chain, resolver, statements)
            found.append((write.let.place, resolver.atom(write.value), place))
        return [
            (at, self._filled(value, write.dims, statements), place)
            for (at, value, place), write in zip(found, chain.writes, strict=True)
        ]

    def _as_row(
        self, param: fun.Var, chain: Chain, resolver: Resolver, statements: list[fun.Let]
    ) -> list[tuple[Place | None, fun.Atom, Aggregate]] | None:
        """The same as one write of a row, for a loop that the user calls parallel.

        Others stay, since they write no more than they have to.
        """
        if self.let.place not in self.outer.parallel:
            return None
        inside = self.known.within(self.form.index.name, self.form.lower, self.form.upper - 1)
        dims = row_of(param, [write.dims for write in chain.writes], {*self.bound})
        if dims is None or not is_inside(dims, param, inside):
            return None
        place = aggregate(param, dims, self.rounds, self.extent, self.known)
        if place is None or place.dims is None:
            return None
        type_, at = slice_type(param, dims), self.let.place
        row = fun.Var(self.names.fresh("row"), type_)
        statements.append(fun.Let((row,), read_of(param, dims), at))
        for write in chain.writes:
            own = tuple(
                part for part, dim in zip(write.dims, dims, strict=True)
                if isinstance(dim, fun.Span)
            )  # fmt: skip
            before, row = row, fun.Var(self.names.fresh("row"), type_)
            update = fun.Update(before, own, resolver.atom(write.value))
            statements.append(fun.Let((row,), update, write.let.place))
        return [(at, row, place)]

    def _filled(
        self, value: fun.Atom, dims: Sequence[fun.Span | Size], statements: list[fun.Let]
    ) -> fun.Atom:
        """A value of the shape of what it is written to."""
        shape = tuple(dim.extent for dim in dims if isinstance(dim, fun.Span))
        if not shape or isinstance(value.type, fun.Array):
            return value
        var = fun.Var(self.names.fresh("f"), fun.Array(value.type.dtype, shape))
        statements.append(fun.Let((var,), fun.Broadcast(value, shape)))
        return var

    def _over_space(self, body: fun.Body) -> tuple[list[fun.Let], list[fun.Var]]:
        """The body for all rounds, as a kernel: its statement and results."""
        space, body = self.shifted(body)
        variables = []
        for result in body.results:
            shape = result.type.shape if isinstance(result.type, fun.Array) else ()
            type_ = fun.Array(result.type.dtype, (self.extent, *shape))
            variables.append(fun.Var(self.names.fresh("t"), type_))
        expr = filled((space,), body) or fun.Kernel((space,), body)
        return [fun.Let(tuple(variables), expr, self.let.place)], variables

    def shifted(self, body: fun.Body) -> tuple[fun.Range, fun.Body]:
        """The body as one of an index that begins at 0, its parameters those before the loop."""
        index, lower = self.form.index, self.form.lower
        initial = {
            p.name: atom
            for p, atom in zip(self.loop.params, self.loop.initial, strict=True)
            if isinstance(p.type, fun.Array)
        }
        sizes: dict[str, Size] = {}
        own = index
        statements: list[fun.Let] = []
        if lower != ZERO:
            own = fun.Var(self.names.fresh(index.name), _I64)
            sizes[index.name] = lower + Poly.var(own.name)
            moved = fun.SizeValue(lower + Poly.var(own.name))
            statements.append(fun.Let((index,), moved, self.let.place))
        done = walk.Substitution(initial, sizes).body(body)
        whole = fun.Body((*statements, *done.statements), done.results)
        fresh = walk.Substitution(fresh=self.names.fresh)
        fresh.bind(own.name, first := fun.Var(self.names.fresh(own.name), _I64))
        return fun.Range(first, self.extent), fresh.body(whole)

    def _renamed_results(
        self, statements: list[fun.Let], arrays: Mapping[int, fun.Atom]
    ) -> list[fun.Let]:
        """Arrays that no round writes are what they were."""
        for number, atom in arrays.items():
            var = self.let.pattern[number]
            if isinstance(atom, fun.Var) and atom.name != var.name:
                assert isinstance(var.type, fun.Array)
                spans = tuple(fun.Span(ZERO, extent) for extent in var.type.shape)
                statements.append(fun.Let((var,), fun.Slice(atom, spans), self.let.place))
        return statements

    # ------------------------------------------------------------ reductions

    def _selected(self, body: fun.Body, found: extremes.Extreme) -> list[fun.Let]:
        """What a branch keeps of all rounds, as one reduction."""
        space, body = self.shifted(replace(body, results=(*found.elements, self.form.index)))
        totals = tuple(fun.Var(self.names.fresh("r"), atom.type) for atom in body.results)
        reduce = extremes.selection(found, (space,), body, self.names)
        starts = [self.loop.initial[number] for number in found.numbers]
        patterns = [self.let.pattern[number] for number in found.numbers]
        place = self.let.place
        joined = extremes.joined(found, starts, totals[:-1], patterns, place, self.names)
        return [fun.Let(totals, reduce, place), *joined]

    def _accumulated(
        self, body: fun.Body, sums: Mapping[int, accumulation.Accumulation]
    ) -> list[fun.Let]:
        """The scalars, as one reduction of what the body gives in each round."""
        found = list(sums.values())
        statements = list(body.statements)
        elements = [one.element(statements, self.names) for one in found]
        space, body = self.shifted(fun.Body(tuple(statements), tuple(elements)))
        totals = tuple(fun.Var(self.names.fresh("r"), fun.Scalar(one.dtype)) for one in found)
        reduce = accumulation.reduction((space,), body, found, self.names)
        done = [fun.Let(totals, reduce, self.let.place)]
        for (number, one), total in zip(sums.items(), totals, strict=True):
            start, var = self.loop.initial[number], self.let.pattern[number]
            done += accumulation.joined(
                one.operation, start, total, var, self.let.place, self.names
            )
        return done
