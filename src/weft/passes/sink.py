"""sink: rows that one iteration of a kernel alone uses are computed in it.

    let p = kernel (i < n, j < m) { .. }        let r = kernel (k < n) {
    let r = kernel (k < n) {                      let p = kernel (j < m) { .. of k .. }
      let s = slice p[k, 0 for m]          =>     let s = slice p[0 for m]
      ..                                          ..
    }                                           }

Removes: kernels of scalars, and a permutation of one, of which every use is in one later kernel
    of one dimension, is a slice or an element at that kernel's index, and is a slice somewhere.
Adds: the kernel's other dimensions inside of that kernel.
Requires: a checked program; that fusion has inlined what it can.
Ensures: the same values; every element is still computed once. Memory of whole arrays becomes
    memory of rows, and a row that is updated can lie where its result will.
"""

from __future__ import annotations

from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.records import dataclass
from weft.sizes import Poly, Size


def sink(program: fun.Program) -> fun.Program:
    """The program with producers of rows inside of the kernels that use the rows."""
    body = _body(program.body)
    return program if body is program.body else replace(program, body=body)


def _body(body: fun.Body) -> fun.Body:
    statements = [walk.map_let(let, _body) for let in body.statements]
    results = {atom.name for atom in body.results if isinstance(atom, fun.Var)}
    for number in reversed(range(len(statements))):
        _try_sinking(statements, number, results)
    return walk.with_statements(body, statements)


def _try_sinking(statements: list[fun.Let], number: int, results: set[str]) -> None:
    """Move the producer at a position into its consumer, if it is one and has one."""
    producer = _Producer.of(statements[number])
    if producer is None:
        return
    users = _users(statements, number, producer.name)
    views = [n for n in users if isinstance(statements[n].expr, fun.Permute)]
    if len(views) == 1:
        view = statements[views[0]]
        assert isinstance(view.expr, fun.Permute)
        users = [n for n in users if n not in views]
        users += [n for n in _users(statements, number, view.pattern[0].name) if n not in users]
        producer = producer.permuted(view.pattern[0], view.expr.axes)
    if len(users) != 1 or results & {producer.name, producer.original}:
        return
    consumer = statements[users[0]]
    if not isinstance(consumer.expr, fun.Kernel) or len(consumer.expr.space) != 1:
        return
    whole = _joined(producer, consumer.expr)
    if whole is not None:
        statements[users[0]] = replace(consumer, expr=whole)
        for gone in sorted([number, *views], reverse=True):
            del statements[gone]


def _users(statements: list[fun.Let], number: int, name: str) -> list[int]:
    return [
        n for n in range(number + 1, len(statements)) if name in walk.used_names(statements[n].expr)
    ]


@dataclass(frozen=True, slots=True)
class _Producer:
    """A kernel of one array of scalars, known by its own name or by that of a permutation."""

    var: fun.Var
    kernel: fun.Kernel
    let: fun.Let
    original: str
    axes: tuple[int, ...]  # dimension d of `var` is axes[d] of the original

    @property
    def name(self) -> str:
        return self.var.name

    @classmethod
    def of(cls, let: fun.Let) -> _Producer | None:
        if not isinstance(let.expr, fun.Kernel) or len(let.pattern) != 1:
            return None
        kernel, var = let.expr, let.pattern[0]
        if len(kernel.space) < 2 or not isinstance(kernel.body.results[0].type, fun.Scalar):
            return None
        return cls(var, kernel, let, var.name, tuple(range(len(kernel.space))))

    def permuted(self, var: fun.Var, axes: tuple[int, ...]) -> _Producer:
        kernel = fun.Kernel(tuple(self.kernel.space[a] for a in axes), self.kernel.body)
        return _Producer(var, kernel, self.let, self.original, axes)


def _joined(producer: _Producer, consumer: fun.Kernel) -> fun.Kernel | None:
    """The consumer with the producer's rows in it; None where it uses more than its own."""
    (range_,) = consumer.space
    index = Poly.var(range_.index.name)
    axis = _sliced_axis(producer, consumer.body, index)
    if axis is None or producer.kernel.space[axis].extent != range_.extent:
        return None
    space = tuple(r for d, r in enumerate(producer.kernel.space) if d != axis)
    element = producer.kernel.body.results[0].type
    assert isinstance(element, fun.Scalar)
    row = fun.Var(producer.name, fun.Array(element.dtype, tuple(r.extent for r in space)))
    rows = _Rows(producer, axis, index, row)
    rest = rows.body(consumer.body)
    at = walk.Substitution({producer.kernel.space[axis].index.name: range_.index})
    make = fun.Let((row,), fun.Kernel(space, at.body(producer.kernel.body)), producer.let.place)
    names = {producer.name, producer.original}
    if rows.missed or any(isinstance(a, fun.Var) and a.name in names for a in rest.results):
        return None
    return fun.Kernel(consumer.space, fun.Body((make, *rest.statements), rest.results))


def _sliced_axis(producer: _Producer, body: fun.Body, index: Size) -> int | None:
    """The dimension that the first slice of the producer fixes at the index."""
    for let in walk.statements(body):
        if isinstance(let.expr, fun.Slice) and let.expr.array.name == producer.name:
            fixed = [d for d, dim in enumerate(let.expr.dims) if dim == index]
            return fixed[0] if len(fixed) == 1 else None
    return None


class _Rows:
    """Uses of the whole array at one index become uses of its row."""

    def __init__(self, producer: _Producer, axis: int, index: Size, row: fun.Var) -> None:
        self.producer, self.axis, self.index, self.row = producer, axis, index, row
        self.missed = False  # a use was something else

    def body(self, body: fun.Body) -> fun.Body:
        return fun.Body(tuple(map(self.let, body.statements)), body.results)

    def let(self, let: fun.Let) -> fun.Let:
        producer, axis = self.producer, self.axis
        match let.expr:
            case fun.Slice(array, dims) if array.name == producer.name:
                rest = dims[:axis] + dims[axis + 1 :]
                if dims[axis] == self.index and all(isinstance(dim, fun.Span) for dim in rest):
                    return replace(let, expr=fun.Slice(self.row, rest))
            case fun.Index(array, indices, rules) if array.name in (
                producer.name,
                producer.original,
            ):
                if array.name != producer.name:
                    indices = tuple(indices[a] for a in producer.axes)
                    rules = tuple(rules[a] for a in producer.axes) if rules else ()
                if indices[axis] == self.index and not (rules and rules[axis]):
                    indices = indices[:axis] + indices[axis + 1 :]
                    rules = rules[:axis] + rules[axis + 1 :] if rules else ()
                    return replace(let, expr=fun.Index(self.row, indices, rules))
            case _:
                let = replace(let, expr=walk.map_bodies(let.expr, self.body))
        atoms, _, _ = walk.operands(let.expr)
        atoms += [atom for body in walk.bodies(let.expr) for atom in body.results]
        names = {atom.name for atom in atoms if isinstance(atom, fun.Var)}
        self.missed |= bool(names & {producer.name, producer.original})
        return let
