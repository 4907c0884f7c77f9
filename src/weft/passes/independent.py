"""One loop whose rounds touch nothing of each other, as a kernel and reductions.

What is written at elements of a round's own is a kernel's result; what rounds accumulate, and
combine with elements of arrays, is reduced (`accumulation`, `combine`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.ops.dtypes import DType
from weft.passes import accumulation, extremes
from weft.passes.around import Around
from weft.passes.branch_writes import is_inside, read_of, slice_type
from weft.passes.by_parts import by_parts, parts_instead
from weft.passes.combinations import Combination, combination
from weft.passes.combine import Combine, Rest, Step, Without
from weft.passes.dependence import (
    Access,
    Rounds,
    reads,
    rounds_apart,
    rounds_apart_but,
    spared_round,
)  # fmt: skip
from weft.passes.knowledge import Knowledge
from weft.passes.last_round import is_of_last_round, last_values
from weft.passes.lines_written import Lines, lines
from weft.passes.meetings import called, first_write, whole_values, why_in_order
from weft.passes.other_uses import Otherwise
from weft.passes.places_written import Aggregate, aggregate, filled, row_of
from weft.passes.races import Race, around, keeps, meeting, names_used
from weft.passes.remarks import Remark
from weft.passes.versions import Chain, Resolver, Write, bound_in, chain_to
from weft.sizes import ZERO, Fact, Poly, Size

_I64 = fun.Scalar(DType.I64)


class Independent:
    """One `for` loop, its inner loops being done."""

    def __init__(
        self, outer: Around, let: fun.Let, known: Knowledge, silent: bool = False,
        combining: bool = False, in_part: bool = False,
    ) -> None:  # fmt: skip
        assert isinstance(let.expr, fun.Loop)
        assert isinstance(let.expr.form, fun.For)
        self.outer = outer
        self.silent = silent
        self.combining = combining  # whether rounds may combine something with arrays
        self.in_part = in_part  # its numbers may be elements of arrays
        self.otherwise: Otherwise | None = None
        self.free = False  # of races
        self.postponed = False
        self.lasts: list[int] = []  # variables that the last round leaves as they are after it
        self.names = outer.names
        self.let = let
        self.loop = let.expr
        self.form = let.expr.form
        self.known = known
        self.bound = bound_in(self.loop.body)
        free = walk.free_names(self.loop.body) - {p.name for p in self.loop.params}
        self.combined: dict[int, Combination] = {}
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
            if found is not None:
                sums[number] = found
            elif self._leaves_last() and self._is_rebound(param) and is_of_last_round(
                param, result, self.loop.body
            ):
                self.lasts.append(number)
            elif not self._combines(number):
                if self._is_asked():
                    body, rebound = self.loop.body, self._is_rebound(param)
                    why = why_in_order(param, result, body, self.rounds, self.known, rebound)
                    self.refused(*why)
                return None
        countable = self.known.nonnegative(self.extent)
        if not countable and not self.combining:
            return None
        links = {name for found in sums.values() for name in found.links}
        statements = accumulation.without(self.loop.body, links)
        for one in kept:
            statements = [*(let for let in statements if let is not one.branch), *one.after]
            single = one.of_one_integer()
            if single is not None:
                sums[one.numbers[0]] = single
        self.body = fun.Body(tuple(statements), self.loop.body.results)
        for number in list(chains):
            if not self._is_independent(number, chains):
                if not self._combines(number):
                    return None
                del chains[number]
        self.free = True
        if not countable:
            return None
        if chains or self.combined or self.lasts:
            done = self._kernel(chains, sums)
        else:
            done = self._accumulated(self.body, sums) if sums else []
        if done is None:
            return None
        several = [one for one in kept if one.numbers[0] not in sums]
        return done + [let for one in several for let in self._selected(self.body, one)]

    def _combines(self, number: int) -> bool:
        """Whether rounds combine something with an array, and that is to be found."""
        param = self.loop.params[number]
        if not self.combining or not isinstance(param.type, fun.Array):
            return False
        found = combination(param, self.loop.body.results[number], self.loop.body)
        if found is None or isinstance(found, Otherwise):
            self.otherwise = self.otherwise or found
            return False
        self.combined[number] = found
        return True

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
        return self._is_marked() and not self.silent

    def _leaves_last(self) -> bool:
        return self._is_marked() and not self.in_part

    def _is_rebound(self, param: fun.Var) -> bool:
        """Whether it is a number, or an array that rounds make anew, so that none writes to it."""
        place = self.let.place
        arrays = frozenset[str]() if place is None else self.outer.rebound.get(place, frozenset())
        return isinstance(param.type, fun.Scalar) or called(param) in arrays

    def _is_marked(self) -> bool:
        return self.let.place in self.outer.parallel

    # ------------------------------------------------------------ independence

    def _is_independent(self, number: int, chains: Mapping[int, Chain]) -> bool:
        """Whether no round touches what another one writes to an array."""
        chain = chains[number]
        updates = {write.name for one in chains.values() for write in one.writes}
        written = [
            write.access(chain.root.name, keeps(write.value, self.bound)) for write in chain.writes
        ]
        versions = set(chain.versions)
        read = list(reads(self.body, versions, updates))
        read += [
            access for other in chains.values() for write in other.writes
            for access in whole_values(write, versions)
        ]  # fmt: skip
        for position, write in enumerate(written):
            spared = self._spared(chain.writes[position])
            for access in (*written[position:], *read):
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
        if not self._is_marked() or not isinstance(write.value, fun.Var):
            return None
        if write.pairs:
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
        inside = self.known.within(self.form.index.name, self.form.lower, self.form.upper - 1)
        resolver = Resolver(written, inside, self.names)
        base = Without(list(self.combined.values())).body(
            fun.Body(
                self.body.statements,
                tuple(self.loop.body.results[n] for n in (*self.lasts, *chains)),
            )
        )
        body = resolver.body(base)
        if body is None:
            first = next(filter(None, map(first_write, chains.values())), None)
            self.refused("a read of what the round has written is not understood", first)
            return None
        statements = list(body.statements)
        writes: list[tuple[int, Place | None, fun.Atom, Aggregate | Lines]] = []
        for number, chain in chains.items():
            placed = self._placed(self.loop.params[number], chain, resolver, statements)
            if placed is None:
                name = called(self.loop.params[number])
                reason = f"rounds write parts of {name} that are put together in no way known"
                if not self.postponed:
                    self.refused(reason, first_write(chain))
                return None
            writes += [(number, *write) for write in placed]
        done: list[fun.Let] = []
        if self.lasts:
            last = tuple(map(resolver.atom, body.results[: len(self.lasts)]))
            if any(isinstance(atom, fun.Var) and atom.name in resolver.updates for atom in last):
                return None
            done += last_values(
                *self.shifted(fun.Body(body.statements, last)),
                [self.loop.initial[number] for number in self.lasts],
                [self.let.pattern[number] for number in self.lasts],
                self.let.place, self.known, self.names,
            )  # fmt: skip
        arrays: dict[int, fun.Atom] = {n: self.loop.initial[n] for n in chains}
        if writes:
            results = tuple(value for _, _, value, _ in writes)
            made, variables = self._over_space(fun.Body(tuple(statements), results))
            done += made
            left = Counter(number for number, *_ in writes)
            for (number, at, _, place), var in zip(writes, variables, strict=True):
                left[number] -= 1
                end = self.let.pattern[number] if left[number] == 0 else None
                array = arrays[number]
                assert isinstance(array, fun.Var)
                steps, arrays[number] = place.update(array, var, end, self.names, at)
                done += steps
        if sums:
            found = {number: one.replaced(resolver.atom) for number, one in sums.items()}
            done += self._accumulated(body, found)
        combined = self._combined(written)
        return None if combined is None else self._renamed_results([*done, *combined], arrays)

    def _placed(
        self, param: fun.Var, chain: Chain, resolver: Resolver, statements: list[fun.Let]
    ) -> Sequence[tuple[Place | None, fun.Atom, Aggregate | Lines]] | None:
        """What a round writes to an array, and where all rounds do; None where that is no LMAD.

        Where a round keeps to a row, it may give the row: the rest of it is as it was.
        """
        found: list[tuple[Place | None, fun.Atom, Aggregate]] = []
        for write in chain.writes:
            place = aggregate(
                param, write.dims, self.rounds, self.extent, self.known, write.pairs
            )
            if place is None:
                row = self._as_row(param, chain, resolver, statements)
                return row or self._as_lines(param, chain, resolver, statements)
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
        if not self._is_marked() or any(w.pairs for w in chain.writes):
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

    def _as_lines(
        self, param: fun.Var, chain: Chain, resolver: Resolver, statements: list[fun.Let]
    ) -> list[tuple[Place | None, fun.Atom, Lines]] | None:
        """The same as parts of rows and of columns, for a loop that the user calls parallel."""
        found = [lines(write.dims, self.rounds) for write in chain.writes]
        if not self._is_marked() or None in found:
            return None
        if self.outer.library and not (self.known.ranges or self.outer.unsure):
            self.postponed = self.outer.postponed = True
            return None
        written: list[tuple[Place | None, fun.Atom, Lines]] = []
        for write, place in zip(chain.writes, found, strict=True):
            assert place is not None
            line = place.line(param, resolver.atom(write.value), self.names)
            statements.append(line)
            written.append((write.let.place, line.pattern[0], place))
        return written

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
        variables: dict[fun.Atom, fun.Var] = {}
        results = body.results
        for result in results:
            if result not in variables:
                shape = result.type.shape if isinstance(result.type, fun.Array) else ()
                type_ = fun.Array(result.type.dtype, (self.extent, *shape))
                variables[result] = fun.Var(self.names.fresh("t"), type_)
        body = fun.Body(body.statements, tuple(variables))
        made = filled((space,), body) or fun.Kernel((space,), body)
        let = fun.Let(tuple(variables.values()), made, self.let.place)
        return [let], [variables[result] for result in results]

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

    def _in_parts(self, combine: Combine, steps: Sequence[Step], array: fun.Var) -> int:
        """In how many parts rounds are better done than by a scatter; 0: they are not."""
        chooses = [step for step in steps if not combine.is_of_all(step, array)]
        if not chooses or not self.outer.library:
            return 0
        return parts_instead(combine.work(chooses[0]), self.extent, array, self.known)

    def _combined(self, written: Sequence[Chain]) -> list[fun.Let] | None:
        """What rounds combine with arrays; by parts, or in order, what is no space of scalars."""
        rest = Rest(
            self.form, self.rounds.outside, self.known, self.names, self.let.place, self.shifted
        )
        others, done = list(self.combined.values()), list[fun.Let]()

        def resolved(body: fun.Body) -> fun.Body | None:
            index, lower, upper = self.form.index.name, self.form.lower, self.form.upper
            inside = self.known.within(index, lower, upper - 1)
            return Resolver(written, inside, self.names).body(body)

        left, parts = list[int](), list[int]()
        for number, one in self.combined.items():
            combine = Combine(rest, one, others)
            steps = combine.steps(self.body, resolved)
            array = self.loop.initial[number]
            assert isinstance(array, fun.Var)
            count = 0 if steps is None else self._in_parts(combine, steps, array)
            if steps is None or count:
                left.append(number)
                parts.append(count)
                continue
            if not steps:
                done += self._renamed_results([], {number: array})
            for position, step in enumerate(steps):
                assert isinstance(array, fun.Var)
                is_last = position == len(steps) - 1
                name = self.let.pattern[number].name if is_last else self.names.fresh("u")
                last = fun.Var(name, self.let.pattern[number].type)
                done += combine.all_of(array, step, last)
                array = last
        if not left:
            return done
        others = [one for number, one in self.combined.items() if number not in left]
        results = tuple(self.loop.body.results[number] for number in left)
        body = resolved(Without(others).body(fun.Body(self.body.statements, results)))
        if body is None:
            return None
        initial = {p.name: a for p, a in zip(self.loop.params, self.loop.initial, strict=True)}
        params = tuple(self.loop.params[number] for number in left)
        before = tuple(initial.pop(param.name) for param in params)
        loop = fun.Loop(params, before, self.form, walk.Substitution(initial).body(body))
        return done + by_parts(
            [Combine(rest, self.combined[number], others) for number in left],
            [array for array in before if isinstance(array, fun.Var)], loop,
            [self.let.pattern[number] for number in left], min(parts),
        )  # fmt: skip
