"""fuse_vertical: a kernel's body computed where its elements are read.

    let t = kernel(i < n) { let a = x[i]; let b = exp(a); in b }
    let s = reduce(j < n) { let c = t[j]; in c }
 => let s = reduce(j < n) { let a = x[j]; let b = exp(a); in b }

A producer is fused where that duplicates nothing: it has one read that meets each of its
elements at most once. It is fused also where its body is cheap to duplicate: a few cheap
operations, no more bytes read than by reading it from memory. A read with a boundary rule is
fused where the rule can move on to the producer's own reads:

    let t = kernel(i < n) { let a = x[i]; let b = a * a; in b }
    .. read(t, i-1, edge) ..   =>   .. let a = read(x, i-1, edge); let b = a * a ..

Removes: kernels all of whose reads were fused, reads of kernels.
Adds: copies of kernel bodies.
Requires: reads written through views (`simplify`).
Ensures: no work beyond a few cheap operations is done twice; no producer is read twice at
    one index in one body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from math import inf
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.ops.dtypes import DType
from weft.passes.reads import Reads, Site, covers, each_at_most_once, work
from weft.records import dataclass
from weft.sizes import Poly, Size

# A producer is duplicated up to this much more work (in additions) for each element.
_DUPLICATED = 24
# A body in an inner loop, which reads each element many times, may be this much work.
_REPEATED = 2
# And this much more if it gives booleans, which are widened to what they choose between.
_WIDENED = 1

Rules: TypeAlias = tuple[fun.Boundary | None, ...]
# Where a producer's element is needed: in which statement and body, at which index.
Demand: TypeAlias = tuple[int, object, tuple[Size, ...], Rules]
Instance: TypeAlias = tuple[str, tuple[Size, ...], Rules]  # a producer's first result, where


def fuse_vertical(program: fun.Program) -> fun.Program:
    """The program with producers fused into their consumers, in all its bodies."""
    body = _Fusion(program).level(program.body)
    return program if body is program.body else replace(program, body=body)


@dataclass(slots=True)
class _Producer:
    """A kernel of scalars, one of the statements at hand."""

    let: fun.Let
    kernel: fun.Kernel
    reads: Reads
    demands: dict[Demand, Site]  # in terms of the statements that stay
    pinned: bool = False  # needed in memory anyway
    # Of its body with the producers fused that only it reads, at one index:
    work: float = 0
    inputs: dict[str, int] = field(default_factory=dict)  # bytes read for each element

    @property
    def name(self) -> str:
        return self.let.pattern[0].name


class _Fusion:
    def __init__(self, program: fun.Program) -> None:
        self.program = program
        self.sizes = {*program.sizes, *(derived.name for derived in program.derived)}
        # Names that do not change while a statement at hand is executed.
        self.fixed = self.sizes | {param.name for param in program.params}
        self._names: Names | None = None
        self.fused: dict[str, tuple[_Producer, int]] = {}  # every result's name
        self.scopes: list[dict[Instance, tuple[fun.Atom, ...]]] = []
        self.elements: dict[str, fun.Atom] = {}  # of producers, by what read them
        self.out: list[fun.Let] = []

    def fresh(self, base: str) -> str:
        if self._names is None:
            self._names = Names.of(self.program)
        return self._names.fresh(base)

    # ------------------------------------------------------------ one body

    def level(self, body: fun.Body) -> fun.Body:
        """Producers and consumers among the statements of a body, then those inside."""
        producers = _producers(body)
        if producers:
            body = self.fuse_statements(body, producers)
        statements = []
        for let in body.statements:
            if walk.bodies(let.expr):
                self.fixed.update(var.name for var in walk.operands(let.expr)[2])
                expr = walk.map_bodies(let.expr, self.level)
                if expr != let.expr:
                    let = replace(let, expr=expr)
            self.fixed.update(var.name for var in let.pattern)
            statements.append(let)
        if all(a is b for a, b in zip(statements, body.statements, strict=True)):
            return body
        return fun.Body(tuple(statements), body.results)

    def fuse_statements(self, body: fun.Body, producers: dict[str, _Producer]) -> fun.Body:
        fixed = self.fixed | {var.name for let in body.statements for var in let.pattern}
        chosen = _choose(body, producers, fixed)
        if not chosen:
            return body
        for producer in chosen:
            for k, var in enumerate(producer.let.pattern):
                self.fused[var.name] = (producer, k)
        gone = {producer.name for producer in chosen if not producer.pinned}
        outer, self.out, self.elements = self.out, [], {}
        self.scopes.append({})
        copy = _Copy(self)
        for let in body.statements:
            if let.pattern[0].name not in gone:
                copy.statement(let)
        self.scopes.pop()
        statements, self.out = tuple(self.out), outer
        return fun.Body(statements, tuple(map(copy.atom, body.results)))

    # ------------------------------------------------------------ copying a producer

    def instance(
        self, producer: _Producer, indices: tuple[Size, ...], rules: Rules
    ) -> tuple[fun.Atom, ...]:
        """The results of a producer's body at an index, computed here (once)."""
        key = (producer.name, indices, rules)
        for scope in reversed(self.scopes):
            if key in scope:
                return scope[key]
        names = [range_.index.name for range_ in producer.kernel.space]
        given = zip(names, rules or (None,) * len(names), strict=True)
        own = {name: rule for name, rule in given if rule is not None}
        copy = _Copy(self, dict(zip(names, indices, strict=True)), own)
        for let in producer.kernel.body.statements:
            copy.statement(let)
        results = tuple(map(copy.atom, producer.kernel.body.results))
        self.scopes[-1][key] = results
        return results


class _Copy(walk.Substitution):
    """Copies statements, putting producers' bodies in place of reads of them.

    With `indices`, of a producer's body: its indices replaced by polynomials, its names by
    fresh ones, and `rules` added to the reads at the indices they are for.
    """

    def __init__(
        self, fusion: _Fusion, indices: dict[str, Size] | None = None,
        rules: Mapping[str, fun.Boundary] | None = None,
    ) -> None:  # fmt: skip
        # A producer's body may use elements that were read before it.
        atoms, fresh = ({}, None) if indices is None else (fusion.elements, fusion.fresh)
        super().__init__(atoms, indices, fresh)
        self.fusion = fusion
        self.indices = indices or {}
        self.rules = rules or {}

    def atom(self, atom: fun.Atom) -> fun.Atom:
        if isinstance(atom, fun.Var) and atom.name in self.indices and atom.name not in self.atoms:
            self.atoms[atom.name] = self.value(atom, self.indices[atom.name])
        return super().atom(atom)

    def value(self, index: fun.Var, size: Size) -> fun.Atom:
        """A producer's index as an atom of the consumer."""
        if size.is_constant:
            return fun.Const(size.constant, DType.I64)
        if size.variable is not None and size.variable not in self.fusion.sizes:
            return fun.Var(size.variable, index.type)
        var = fun.Var(self.fusion.fresh("t"), index.type)
        self.fusion.out.append(fun.Let((var,), fun.SizeValue(size)))
        return var

    def statement(self, let: fun.Let) -> None:
        expr = let.expr
        if isinstance(expr, fun.Index):
            expr = self.with_rules(expr)
            found = self.fusion.fused.get(expr.array.name)
            if found is not None:
                producer, k = found
                indices = tuple(map(self.size, expr.indices))
                rules = tuple(
                    b and replace(b, lower=self.size(b.lower), upper=self.size(b.upper))
                    for b in expr.boundary
                )
                results = self.fusion.instance(producer, indices, rules)
                self.bind(let.pattern[0].name, results[k])
                if self.fresh is None:
                    self.fusion.elements[let.pattern[0].name] = results[k]
                return
        new = self.expr(expr)
        pattern = tuple(map(self.binder, let.pattern))
        self.fusion.out.append(fun.Let(pattern, new, let.place))

    def with_rules(self, read: fun.Index) -> fun.Index:
        if not self.rules:
            return read
        boundary = tuple(
            self.rules.get(index.variable or "") or own
            for index, own in zip(
                read.indices, read.boundary or (None,) * len(read.indices), strict=True
            )
        )
        return replace(read, boundary=boundary if any(boundary) else ())

    def body(self, body: fun.Body) -> fun.Body:
        fusion = self.fusion
        outer, fusion.out = fusion.out, []
        fusion.scopes.append({})
        for let in body.statements:
            self.statement(let)
        results = tuple(map(self.atom, body.results))
        fusion.scopes.pop()
        statements, fusion.out = tuple(fusion.out), outer
        return fun.Body(statements, results)


# ---------------------------------------------------------------- choosing


def _producers(body: fun.Body) -> dict[str, _Producer]:
    """The kernels of scalars among the statements, by the names of their results."""
    found: dict[str, _Producer] = {}
    for let in body.statements:
        if isinstance(let.expr, fun.Kernel) and all(
            isinstance(result.type, fun.Scalar) for result in let.expr.body.results
        ):
            producer = _Producer(let, let.expr, Reads.of(let.expr), {})
            for var in let.pattern:
                found[var.name] = producer
    return found


def _reads(body: fun.Body, producers: dict[str, _Producer]) -> list[Reads]:
    return [
        producers[let.pattern[0].name].reads
        if let.pattern[0].name in producers
        else Reads.of(let.expr)
        for let in body.statements
    ]


def _measure(producers: dict[str, _Producer], reads_of: list[Reads]) -> None:
    """The work and the inputs of each producer."""
    users: dict[str, set[object]] = {}
    whole: set[str] = set()
    for reads in reads_of:
        whole |= reads.whole
        for site in reads.sites:
            if site.array.name in producers:
                name = producers[site.array.name].name
                users.setdefault(name, set()).add((site.scope, site.indices, site.boundary))
    for name, producer in producers.items():
        if name != producer.name:
            continue
        producer.work = work(producer.kernel.body)
        own: set[str] = set()
        for site in producer.reads.sites:
            read = producers.get(site.array.name)
            covering = covers(site.indices, producer.kernel.space)
            if (
                read is not None
                and len(users[read.name]) == 1
                and not ({var.name for var in read.let.pattern} & whole)
            ):
                if read.name not in own:
                    producer.work += read.work - 1
                    own.add(read.name)
                if covering:
                    producer.inputs.update(read.inputs)
            elif covering:
                producer.inputs[site.array.name] = site.array.type.dtype.itemsize


def _choose(body: fun.Body, producers: dict[str, _Producer], fixed: set[str]) -> list[_Producer]:
    """The producers to fuse: decided from the last statement to the first.

    When a producer's turn comes, all that reads it has been decided, so it is known where
    its elements will be needed: `demands`, in terms of the statements that stay.
    """
    reads_of = _reads(body, producers)
    _measure(producers, reads_of)
    pinned = {a.name for a in body.results if isinstance(a, fun.Var)}
    arrays: dict[int, set[str]] = {}  # what each root reads
    chosen: list[_Producer] = []
    for root in range(len(body.statements) - 1, -1, -1):
        let = body.statements[root]
        producer = producers.get(let.pattern[0].name)
        reads = reads_of[root]
        pinned |= reads.whole
        if isinstance(let.expr, fun.Scatter):
            pinned |= _loops(reads, producers)
        if producer is not None:
            producer.pinned = any(var.name in pinned for var in let.pattern)
            if producer.demands and _worth_fusing(producer, arrays, fixed):
                chosen.append(producer)
                _pass_on(producer, producers, arrays, fixed)
                if not producer.pinned:
                    continue
        arrays[root] = {site.array.name for site in reads.sites}
        for site in reads.sites:
            read = producers.get(site.array.name)
            if read is not None:
                key = (root, site.scope, site.indices, site.boundary)
                read.demands.setdefault(key, site)
    return chosen


def _loops(reads: Reads, producers: dict[str, _Producer]) -> set[str]:
    """What a scatter reads that loops make: its own body is straight-line code, to be spread."""
    found = (producers.get(site.array.name) for site in reads.sites)
    return {
        var.name for producer in found if producer is not None and any(
            isinstance(let.expr, fun.Loop) or (isinstance(let.expr, fun.Reduce)
            and not all(r.extent.is_constant for r in let.expr.space))
            for let in walk.statements(producer.kernel.body)
        ) for var in producer.let.pattern
    }  # fmt: skip


def _pass_on(
    producer: _Producer,
    producers: dict[str, _Producer],
    arrays: dict[int, set[str]],
    fixed: set[str],
) -> None:
    """The demands of a producer become demands of those that it reads."""
    space = producer.kernel.space
    names = [r.index.name for r in space]
    for key, demand in producer.demands.items():
        values = dict(zip(names, demand.indices, strict=True))
        rules = dict(zip(names, demand.boundary, strict=True)) if demand.boundary else {}
        arrays[key[0]].update(site.array.name for site in producer.reads.sites)
        for site in producer.reads.sites:
            read = producers.get(site.array.name)
            if read is None:
                continue
            indices = tuple(index.substitute(values) for index in site.indices)
            boundary = site.boundary
            if rules:
                own = boundary or (None,) * len(indices)
                boundary = tuple(
                    rules.get(index.variable or "") or rule
                    for index, rule in zip(site.indices, own, strict=True)
                )
            inner = site.ranges[len(space) :]
            # Inside a nested body, or at an index that the body computes, every copy counts.
            own_scope = site.scope == id(producer.kernel.body)
            plain = own_scope and all(
                name in values or name in fixed for i in site.indices for name in i.variables()
            )
            scope = key[1] if plain else (key[1], site.scope, demand.indices)
            place = Site(site.array, indices, boundary, demand.ranges + inner, site.scope)
            read.demands.setdefault((key[0], scope, indices, boundary), place)


def _worth_fusing(producer: _Producer, arrays: dict[int, set[str]], fixed: set[str]) -> bool:
    demands = list(producer.demands.values())
    if any(bool(site.boundary) and not _takes_rules(producer, site.boundary) for site in demands):
        return False
    once = [each_at_most_once(s.indices, s.ranges, fixed) for s in demands]
    if len(demands) == 1 and once[0] and not producer.pinned:
        return True
    if producer.work == inf:
        return False
    # In an inner loop a body may be about what reading its result is.
    booleans = all(var.type.dtype is DType.BOOL for var in producer.let.pattern)
    most = _REPEATED + (_WIDENED if booleans else 0)
    trivial = producer.work <= most and len(producer.inputs) <= 1
    if not all(once) and not trivial:
        return False
    copies = len(demands) - 1 + producer.pinned
    return producer.work * copies <= _DUPLICATED and _saves_bytes(producer, arrays)


def _saves_bytes(producer: _Producer, arrays: dict[int, set[str]]) -> bool:
    """Whether recomputing reads no more bytes (for each element) than storing and loading."""
    inputs = producer.inputs
    results = sum(var.type.dtype.itemsize for var in producer.let.pattern)
    roots = {key[0] for key in producer.demands}
    recomputed = 0
    for root in roots:
        recomputed += sum(size for name, size in inputs.items() if name not in arrays[root])
    stored = results * len(roots)
    if not producer.pinned:
        # Written (which reads the cache line first), from inputs read once.
        stored += 2 * results + sum(inputs.values())
    return recomputed <= stored


def _takes_rules(producer: _Producer, boundary: Sequence[fun.Boundary | None]) -> bool:
    """Whether boundary rules on a producer's dimensions can move to its own reads.

    An index with a rule may only stand alone, in dimensions of the same extent.
    """
    for range_, rule in zip(producer.kernel.space, boundary, strict=True):
        if rule is None:
            continue
        if rule.kind == "constant":
            return False
        name = range_.index.name
        for let in producer.kernel.body.statements:
            if isinstance(let.expr, fun.Index):
                if not _reads_alone(let.expr, name, range_.extent):
                    return False
            elif name in walk.used_names(let.expr):
                return False
        if any(isinstance(r, fun.Var) and r.name == name for r in producer.kernel.body.results):
            return False
    return True


def _reads_alone(read: fun.Index, name: str, extent: Size) -> bool:
    own = read.boundary or (None,) * len(read.indices)
    assert isinstance(read.array.type, fun.Array)
    for index, rule, size in zip(read.indices, own, read.array.type.shape, strict=True):
        if index == Poly.var(name):
            if rule is not None or size != extent:
                return False
        elif name in index.variables():
            return False
    return True
