"""side_by_side: what lanes read again and again lies side by side.

    let s = kernel (i < n) {                          let t = kernel (c < 3, k < m) { a[k, c] }
      let r = reduce (; k < m) {                      let u = permute t (1, 0)
        let x = a[k, 0]                               let s = kernel (i < n) {
        let z = a[k, 2]                        =>       let r = reduce (; k < m) {
        ..                                                let x = u[k, 0]
      }                                                   ..

An array of records of a few numbers, such as points, has neighbours apart by a record: a vector of
them is loaded one by one. The copy `u` is the same array with its records' numbers in columns, and
`a` is still what is read elsewhere.

Adds: a copy of the columns that are read, before the statement, or before the loop around it if the
    array is made there.
Requires: a fused program; reads that `when` accepts, since a copy pays where lanes read often.
Ensures: the same bits: no index changes, only where an array lies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.records import dataclass
from weft.sizes import ONE, Poly, Size, product
from weft.sizes.prove import Prover

FEW = 16  # numbers of a record at most; and elements of a range that has no lanes


@dataclass(frozen=True, slots=True)
class Records:
    """Records that a statement reads along its lanes: how many there are, and how many times."""

    times: Size
    number: Size


When: TypeAlias = Callable[[Records], bool]


def records(program: fun.Program) -> list[Records]:
    """What `side_by_side` can copy, for a launch to decide on."""
    found: list[Records] = []

    def note(candidate: Records) -> bool:
        found.append(candidate)
        return False

    side_by_side(program, note)
    return found


def side_by_side(program: fun.Program, when: When = lambda _: True) -> fun.Program:
    """The program with copies of those records that `when` accepts."""
    body, _ = _SideBySide(program, when).body(program.body, None)
    return program if body is program.body else replace(program, body=body)


@dataclass(frozen=True, slots=True)
class _Read:
    """A read of a number of a record, along the records, and how many times they are read."""

    read: fun.Index
    columns: int  # of the record, the last of which may be the one that is read
    times: Size


@dataclass(frozen=True, slots=True)
class _Copy:
    """The first columns of an array, as they are to lie, under a name."""

    array: fun.Var
    columns: int
    var: fun.Var


class _SideBySide:
    def __init__(self, program: fun.Program, when: When) -> None:
        self.program = program
        self.when = when

    @cached_property
    def names(self) -> Names:
        return Names.of(self.program)

    @cached_property
    def sizes(self) -> frozenset[str]:
        """The variables whose values a launch knows."""
        return frozenset(self.program.sizes).union(d.name for d in self.program.derived)

    @cached_property
    def prover(self) -> Prover:
        known = self.program
        return Prover(known.facts, sizes=known.sizes, derived=known.derived)

    def body(self, body: fun.Body, carried: set[str] | None) -> tuple[fun.Body, list[_Copy]]:
        """A body outside of kernels, and the copies that are to stand before the loop around it.

        `carried`: of a loop, what each round is given. None: no loop is around it.
        """
        inside = set(carried or ())
        outside: list[_Copy] = []
        known: dict[str, _Copy] = {}
        statements: list[fun.Let] = []
        for let in body.statements:
            copies: list[_Copy] = []
            match let.expr:
                case fun.If():
                    new = walk.map_let(let, lambda each: self.body(each, None)[0])
                case fun.Loop(params, body=rounds):
                    done, copies = self.body(rounds, {param.name for param in params})
                    same = done is rounds
                    new = let if same else replace(let, expr=replace(let.expr, body=done))
                case _:
                    new, copies = self.statement(let, known)
            for copy in copies:
                if carried is None or copy.array.name in inside:
                    statements += self.copied(copy)
                else:
                    outside.append(copy)
            statements.append(new)
            inside.update(var.name for var in let.pattern)
        return walk.with_statements(body, statements), outside

    def statement(
        self, let: fun.Let, known: dict[str, _Copy]
    ) -> tuple[fun.Let, list[_Copy]]:  # fmt: skip
        """A statement, which reads copies where `when` says so, and those that it needs first.

        `known`: the copies that are made before it, to which those are added.
        """
        if not isinstance(let.expr, fun.Kernel | fun.Reduce):
            return let, []
        reads: dict[str, list[_Read]] = {}
        for read in self.reads(let.expr, (), frozenset()):
            reads.setdefault(read.read.array.name, []).append(read)
        made = {var.name for inner in _inside(let.expr) for var in inner.pattern}
        instead: dict[fun.Index, fun.Var] = {}
        new: list[_Copy] = []
        for name in sorted(reads.keys() - made):
            array = reads[name][0].read.array
            number = walk.type_sizes(array.type)[-2]
            found = [read for read in reads[name] if self.when(Records(read.times, number))]
            if not found:
                continue
            columns = max(read.columns for read in found)
            if name not in known or known[name].columns < columns:
                known[name] = _Copy(array, columns, self.copy_of(array, columns))
                new.append(known[name])
            instead.update((read.read, known[name].var) for read in found)
        if not instead:
            return let, []
        return replace(let, expr=_instead(let.expr, instead)), new

    def reads(
        self, expr: fun.Expr, ranges: tuple[fun.Range, ...], beside: frozenset[str]
    ) -> Iterator[_Read]:
        """The reads along records, of all rounds of what is not in branches.

        `beside`: the indices of kernels but their last ones, which lanes go along.
        """
        match expr:
            case fun.Index():
                read = self.read(expr, ranges, beside)
                if read is not None:
                    yield read
            case fun.Kernel(space, body) | fun.Reduce(space=space, body=body):
                if isinstance(expr, fun.Kernel):
                    beside |= {r.index.name for r in space[:-1]}
                for let in body.statements:
                    yield from self.reads(let.expr, ranges + space, beside)
            case _:
                pass

    def read(
        self, expr: fun.Index, ranges: tuple[fun.Range, ...], beside: frozenset[str]
    ) -> _Read | None:
        """The read, if lanes of the innermost loop go from record to record."""
        few = {r.index.name: r.extent for r in ranges if _is_few(r.extent)}
        many = [r for r in ranges if r.index.name not in few]
        if len(expr.indices) < 2 or any(expr.boundary) or not many:
            return None
        lane = many.pop()
        if lane.index.name in beside:
            return None
        *before, record, number = expr.indices
        if record.coefficient(lane.index.name) != 1 or record.degree(lane.index.name) != 1:
            return None
        if any(lane.index.name in index.variables() for index in (*before, number)):
            return None
        others = {name for index in before for name in index.variables()}  # in which records differ
        times = product(
            r.extent for r in many
            if r.extent.variables() <= self.sizes and r.index.name not in others
        )  # fmt: skip
        if times.is_constant:
            return None  # once, as a rule
        columns, extent = _most(number, few), walk.type_sizes(expr.array.type)[-1]
        if columns is None or extent == ONE or not self.prover.less_equal(columns, extent):
            return None
        return _Read(expr, columns, times)

    def copy_of(self, array: fun.Var, columns: int) -> fun.Var:
        """What the copy is called."""
        assert isinstance(array.type, fun.Array)
        shape = (*array.type.shape[:-1], Poly.const(columns))
        return fun.Var(self.names.fresh(array.name), fun.Array(array.type.dtype, shape))

    def copied(self, copy: _Copy) -> Iterator[fun.Let]:
        """The statements that make the copy."""
        assert isinstance(copy.var.type, fun.Array)
        *before, number, columns = copy.var.type.shape
        builder = Builder(self.names)
        space = tuple(fun.Range(builder.index(), e) for e in (*before, columns, number))
        own = [Poly.var(r.index.name) for r in space]
        own[-2:] = own[:-3:-1]
        inner = builder.inner()
        element = inner.let(fun.Index(copy.array, tuple(own)), fun.Scalar(copy.var.type.dtype))
        type_ = fun.Array(copy.var.type.dtype, (*before, columns, number))
        turned = builder.let(fun.Kernel(space, inner.body((element,))), type_)
        yield from builder.statements
        rank = len(space)
        yield fun.Let((copy.var,), fun.Permute(turned, (*range(rank - 2), rank - 1, rank - 2)))


def _is_few(extent: Size) -> bool:
    return extent.is_constant and extent.constant <= FEW


def _most(number: Size, few: dict[str, Size]) -> int | None:
    """One more than an index can be, if that is few. It is a constant, or one of these ranges."""
    if number.is_constant:
        columns = number.constant + 1
    else:
        (name, *others) = sorted(number.variables())
        if others or name not in few or number != Poly.var(name):
            return None
        columns = few[name].constant
    return columns if 0 < columns <= FEW else None


def _inside(expr: fun.Expr) -> Iterator[fun.Let]:
    for body in walk.bodies(expr):
        yield from walk.statements(body)


def _instead(expr: fun.Expr, by: dict[fun.Index, fun.Var]) -> fun.Expr:
    """The expression with other arrays read."""

    def body(old: fun.Body) -> fun.Body:
        return walk.with_statements(old, [each(let) for let in old.statements])

    def each(let: fun.Let) -> fun.Let:
        if isinstance(let.expr, fun.Index) and let.expr in by:
            return replace(let, expr=replace(let.expr, array=by[let.expr]))
        return walk.map_let(let, body)

    return walk.map_bodies(expr, body)
