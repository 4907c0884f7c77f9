"""nest: statements that work row by row, made one kernel over the rows.

    let m = reduce (i < n; j < k) { x[i, j] } with maximum
    let e = kernel (i < n, j < k) { exp(x[i, j] - m[i]) }
    let s = reduce (i < n; j < k) { e[i, j] } with add
    let r = kernel (i < n, j < k) { e[i, j] / s[i] }
 => let r = kernel (i < n) {
      let m = reduce (; j < k) { x[i, j] } with maximum
      let e = kernel (j < k) { exp(x[i, j] - m) }
      let s = reduce (; j < k) { e[j] } with add
      let r = kernel (j < k) { e[j] / s }
      in r
    }

Removes: the statements of a group, and intermediate arrays as long as the space.
Adds: a kernel over the leading dimensions that a group shares; arrays as long as a row.
Requires: a fused program.
Ensures: the same bits. A group has a reduction or scan that keeps just the shared
    dimensions, at least two statements, and reads some array from memory less often.

Whether it pays depends on sizes: many rows, each small enough for a core's cache.
`nest_candidates` gives the polynomials, `when` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.fun.contractions import contraction
from weft.passes.order import Node, depends, in_order, nodes_of
from weft.passes.reads import Reads, Site
from weft.passes.vector_dimension import vector_dimension
from weft.records import dataclass
from weft.sizes import ZERO, Poly, Size, product

Row: TypeAlias = fun.Kernel | fun.Reduce | fun.Scan


@dataclass(frozen=True, slots=True)
class NestCandidate:
    """Statements that can become one kernel over rows.

    Attributes
    ----------
    outer : Size
        The number of rows.
    row_bytes : Size
        What one row reads and holds of arrays longer than the rows' number.
    results : tuple of str
        What the group defines, in order.
    """

    outer: Size
    row_bytes: Size
    results: tuple[str, ...]


When: TypeAlias = Callable[[NestCandidate], bool]


def nest_candidates(program: fun.Program) -> list[NestCandidate]:
    """The groups that `nest` would make, the launch to decide on."""
    return [group.candidate() for group in _groups(program)]


def nest(program: fun.Program, when: When = lambda _: True) -> fun.Program:
    """The program with the groups that `when` accepts made kernels over rows."""
    groups = [group for group in _groups(program) if when(group.candidate())]
    if not groups:
        return program
    names = Names.of(program)
    used_later = _uses(program)
    nodes = nodes_of(program.body.statements)
    for group in groups:
        let = group.kernel(used_later, names)
        first = group.members[0].number
        needs = set().union(*(nodes[m.number].needs for m in group.members))
        numbers = {member.number for member in group.members}
        nodes[first] = Node(let, needs - numbers)
        for number in numbers - {first}:
            del nodes[number]
        for node in nodes.values():
            if node.needs & numbers:
                node.needs = (node.needs - numbers) | {first}
    return replace(program, body=fun.Body(tuple(in_order(nodes)), program.body.results))


def by_rows(lets: Sequence[fun.Let], depth: int, names: Names) -> fun.Let:
    """Statements that share their first `depth` dimensions, as one kernel over these.

    Each reads what earlier ones give at its own row only.
    """
    exprs = [let.expr for let in lets if isinstance(let.expr, fun.Kernel | fun.Reduce | fun.Scan)]
    space = exprs[0].space[:depth]
    rows = _Rows(depth, names)
    statements: list[fun.Let] = []
    for let, expr in zip(lets, exprs, strict=True):
        statements += rows.member(let, expr, space)
    pattern = tuple(var for let in lets for var in let.pattern)
    body = fun.Body(tuple(statements), tuple(rows.rows[var.name] for var in pattern))
    return fun.Let(pattern, fun.Kernel(space, body), lets[0].place)


def _uses(program: fun.Program) -> dict[str, set[int]]:
    """By which statements a name is used (-1: by the program's results)."""
    uses: dict[str, set[int]] = {}
    for number, let in enumerate(program.body.statements):
        for name in walk.used_names(let.expr):
            uses.setdefault(name, set()).add(number)
    for atom in program.body.results:
        if isinstance(atom, fun.Var):
            uses.setdefault(atom.name, set()).add(-1)
    return uses


# ---------------------------------------------------------------- groups


@dataclass(slots=True)
class _Member:
    number: int
    let: fun.Let
    expr: Row
    sites: list[Site]
    whole: set[str]


@dataclass(slots=True)
class _Group:
    extents: tuple[Size, ...]
    members: list[_Member]

    @property
    def depth(self) -> int:
        return len(self.extents)

    def defined(self) -> set[str]:
        return {var.name for member in self.members for var in member.let.pattern}

    def arrays(self) -> dict[str, tuple[fun.Array, int]]:
        """Arrays longer than the rows' number that members read, and how many read each."""
        found: dict[str, tuple[fun.Array, int]] = {}
        for member in self.members:
            own = {
                site.array.name: site.array.type
                for site in member.sites
                if len(site.indices) > self.depth and isinstance(site.array.type, fun.Array)
            }
            for name, type_ in own.items():
                found[name] = (type_, found.get(name, (type_, 0))[1] + 1)
        return found

    def pays(self) -> bool:
        """Whether some array is read from memory less often, or not written there."""
        if len(self.members) < 2 or all(isinstance(m.expr, fun.Kernel) for m in self.members):
            return False
        read = {site.array.name for member in self.members for site in member.sites}
        return bool(read & self.defined()) or any(n > 1 for _, n in self.arrays().values())

    def candidate(self) -> NestCandidate:
        row_bytes = ZERO
        rows = {name: type_ for name, (type_, _) in self.arrays().items()}
        for member in self.members:
            for var in member.let.pattern:
                if isinstance(var.type, fun.Array) and var.type.rank > self.depth:
                    rows[var.name] = var.type
        for type_ in rows.values():
            row_bytes = row_bytes + product(type_.shape[self.depth :]) * type_.dtype.itemsize
        results = tuple(v.name for member in self.members for v in member.let.pattern)
        return NestCandidate(product(self.extents), row_bytes, results)

    def kernel(self, uses: dict[str, set[int]], names: Names) -> fun.Let:
        """One kernel over the rows, whose results are those that others use."""
        numbers = {member.number for member in self.members}
        space = self.members[0].expr.space[: self.depth]
        rows = _Rows(self.depth, names)
        statements: list[fun.Let] = []
        for member in self.members:
            statements += rows.member(member.let, member.expr, space)
        kept = [
            var
            for member in self.members
            for var in member.let.pattern
            if uses.get(var.name, set()) - numbers
        ]
        body = fun.Body(tuple(statements), tuple(rows.rows[var.name] for var in kept))
        return fun.Let(tuple(kept), fun.Kernel(space, body), self.members[0].let.place)


def _groups(program: fun.Program) -> list[_Group]:
    """Disjoint groups that pay, those that share more dimensions first."""
    statements = program.body.statements
    wanted = {_kept(let.expr) for let in statements} - {()}
    if not wanted:
        return []
    nodes = nodes_of(statements)
    members = {m.number: m for m in _members(statements)}
    found: list[_Group] = []
    for extents in sorted(wanted, key=lambda e: (-len(e), str(e))):
        groups: list[_Group] = []
        for member in members.values():
            if not _fits(member.expr, extents):
                continue
            for group in groups:
                if _may_join(group, member, nodes):
                    group.members.append(member)
                    break
            else:
                groups.append(_Group(extents, [member]))
        for group in groups:
            if group.pays():
                found.append(group)
                for member in group.members:
                    del members[member.number]
    return _acyclic(found, nodes)


def _members(statements: tuple[fun.Let, ...]) -> Iterator[_Member]:
    for number, let in enumerate(statements):
        if isinstance(let.expr, fun.Kernel | fun.Reduce | fun.Scan):
            if isinstance(let.expr, fun.Reduce) and not _along_rows(let.expr):
                continue
            if isinstance(let.expr, fun.Kernel) and contraction(let.expr) is not None:
                continue  # a row of it has another tree, and reads all that the others read
            reads = Reads.of(let.expr)
            yield _Member(number, let, let.expr, reads.sites, reads.whole)


def _along_rows(reduce: fun.Reduce) -> bool:
    """Whether it combines rows: column by column, rows would be read across."""
    return not reduce.counter and vector_dimension(reduce) == "reduced"


def _kept(expr: fun.Expr) -> tuple[Size, ...]:
    """The dimensions that a reduction or scan keeps apart."""
    match expr:
        case fun.Reduce() if not _along_rows(expr):
            return ()
        case fun.Reduce() | fun.Scan():
            return tuple(r.extent for r in walk.kept(expr))
        case _:
            return ()


def _fits(expr: Row, extents: tuple[Size, ...]) -> bool:
    leading = tuple(r.extent for r in expr.space) if isinstance(expr, fun.Kernel) else _kept(expr)
    return leading[: len(extents)] == extents


def _may_join(group: _Group, member: _Member, nodes: dict[int, Node]) -> bool:
    """Whether a statement can be computed row by row along with a group before it."""
    defined = group.defined()
    if member.whole & defined:
        return False
    space = member.expr.space[: group.depth]
    connected = False
    for site in member.sites:
        if site.array.name in defined:
            own = tuple(Poly.var(r.index.name) for r in space)
            if site.indices[: group.depth] != own or any(site.boundary[: group.depth]):
                return False
            connected = True
    numbers = {m.number for m in group.members}
    if any(
        depends(nodes, need, number)
        for need in nodes[member.number].needs - numbers
        for number in numbers
    ):
        return False
    mine = {site.array.name for site in member.sites if len(site.indices) > group.depth}
    return connected or bool(mine & group.arrays().keys())


def _acyclic(groups: list[_Group], nodes: dict[int, Node]) -> list[_Group]:
    """Groups that do not wait for each other in a circle (the later of two gives way)."""
    accepted: list[_Group] = []
    for group in groups:
        numbers = {m.number for m in group.members}
        if not any(_both_ways(numbers, {m.number for m in g.members}, nodes) for g in accepted):
            accepted.append(group)
    return accepted


def _both_ways(first: set[int], second: set[int], nodes: dict[int, Node]) -> bool:
    def reaches(start: set[int], end: set[int]) -> bool:
        return any(depends(nodes, a, b) for a in start for b in end)

    return reaches(first, second) and reaches(second, first)


# ---------------------------------------------------------------- rows


class _Rows(walk.Substitution):
    """Turns statements on whole arrays into statements on one row of them."""

    def __init__(self, depth: int, names: Names) -> None:
        super().__init__()
        self.depth = depth
        self.names = names
        self.rows: dict[str, fun.Atom] = {}  # of arrays that the group defines

    def member(self, let: fun.Let, expr: Row, space: tuple[fun.Range, ...]) -> list[fun.Let]:
        """The statements that compute one row of a member."""
        for own, shared in zip(expr.space, space, strict=False):
            self.bind(own.index.name, shared.index)
        inner = expr.space[self.depth :]
        if isinstance(expr, fun.Kernel) and not inner:
            body = self.body(expr.body)
            for var, result in zip(let.pattern, body.results, strict=True):
                self.rows[var.name] = result
            return list(body.statements)
        row = self.expr(replace(expr, space=inner))
        pattern = tuple(self.row(var) for var in let.pattern)
        return [fun.Let(pattern, row, let.place)]

    def row(self, var: fun.Var) -> fun.Var:
        """A row of an array: a scalar where nothing is left of its dimensions."""
        assert isinstance(var.type, fun.Array)
        shape = var.type.shape[self.depth :]
        type_ = fun.Array(var.type.dtype, shape) if shape else fun.Scalar(var.type.dtype)
        row = fun.Var(self.names.fresh(var.name), type_)
        self.rows[var.name] = row
        return row

    def body(self, body: fun.Body) -> fun.Body:
        statements = []
        for let in body.statements:
            expr = let.expr
            row = self.rows.get(expr.array.name) if isinstance(expr, fun.Index) else None
            if row is None:
                statements.append(self.let(let))
                continue
            assert isinstance(expr, fun.Index)
            if isinstance(row.type, fun.Scalar):
                self.bind(let.pattern[0].name, row)
                continue
            assert isinstance(row, fun.Var)
            read = fun.Index(row, expr.indices[self.depth :], expr.boundary[self.depth :])
            statements.append(self.let(replace(let, expr=read)))
        return fun.Body(tuple(statements), tuple(map(self.atom, body.results)))
