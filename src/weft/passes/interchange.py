"""interchange: indices in an order in which neighbours in memory follow each other.

    let t = kernel (j < m, i < n) { a[i, j] + b[i, j] }      let u = kernel (i < n, j < m) { .. }
    let c = permute t (1, 0)                             =>  let t = permute u (1, 0)
                                                             let c = permute t (1, 0)

    let y = loop (x1 = x) for k from 0 to l {                let y = kernel (i < n, j < m) {
      let t = kernel (i < n, j < m) {                          let x0 = x[i, j]
        x1[i, j] + a[i, k] * b[k, j] }                   =>    let s = loop (x1 = x0) for k .. {
      in t }                                                     x1 + a[i, k] * b[k, j] }
                                                               in s }

The first moves the index that most accesses move by one element with to the end. The second takes
a loop into the kernel that each of its rounds is, where an element needs no other: it then stays
in a register, and what it accumulates is a reduction (`parallelise`).

Removes: loops of kernels on elements of their own.
Adds: permutations, and loops of scalars in kernels.
Requires: a checked program, simplified.
Ensures: the same bits. Kernels with reductions, whose trees follow the last index, keep theirs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.passes.flatten import joined
from weft.sizes import ONE, Poly

WRITE = 2
"""What a write counts in reads: its line is read as well."""


def interchange(program: fun.Program) -> fun.Program:
    """The program with its indices in that order; itself where they are."""
    names = Names.of(program)
    body = _body(program.body, names)
    return program if body == program.body else replace(program, body=body)


def _body(body: fun.Body, names: Names) -> fun.Body:
    """A body that stands in no kernel."""
    permuted = _permuted(body)
    statements: list[fun.Let] = []
    for let in body.statements:
        match let.expr:
            case fun.Loop() | fun.If():
                let = walk.map_let(let, lambda inner: _body(inner, names))
                statements.append(_inwards(let, names) or let)
            case fun.Kernel():
                statements += _unit_stride(let, joined(let.expr), permuted, names)
            case _:
                statements.append(let)
    return walk.with_statements(body, statements)


# ---------------------------------------------------------------- the last index


def _permuted(body: fun.Body) -> dict[str, tuple[int, ...]]:
    """The arrays that are only used permuted, with the axes."""
    uses = Counter(walk.uses(body))
    return {
        let.expr.array.name: let.expr.axes
        for let in body.statements
        if isinstance(let.expr, fun.Permute) and uses[let.expr.array.name] == 1
    }


def _unit_stride(
    let: fun.Let, kernel: fun.Kernel, permuted: dict[str, tuple[int, ...]], names: Names
) -> list[fun.Let]:
    """let t = kernel (i, j) ..  =>  let u = kernel (j, i) ..; let t = permute u (1, 0)"""
    rank = len(kernel.space)
    if rank < 2 or not _is_flat(kernel.body):
        return [let]
    steps = Counter(_last_indices(kernel))
    for var in let.pattern:
        axes = permuted.get(var.name, tuple(range(rank)))
        steps[kernel.space[axes[-1]].index.name] += WRITE
    last = kernel.space[-1].index.name
    best = max((r.index.name for r in reversed(kernel.space)), key=lambda name: steps[name])
    if steps[best] <= steps[last]:
        return [let]
    position = next(d for d, r in enumerate(kernel.space) if r.index.name == best)
    order = (*(d for d in range(rank) if d != position), position)
    space = tuple(kernel.space[d] for d in order)
    back = tuple(order.index(d) for d in range(rank))
    shape = tuple(r.extent for r in space)
    made = tuple(
        fun.Var(names.fresh(var.name), fun.Array(var.type.dtype, shape)) for var in let.pattern
    )
    turned = [
        fun.Let((var,), fun.Permute(new, back), let.place)
        for var, new in zip(let.pattern, made, strict=True)
    ]
    return [fun.Let(made, replace(kernel, space=space), let.place), *turned]


def _is_flat(body: fun.Body) -> bool:
    """Whether it has scalars alone, and no reductions."""
    allowed = (fun.Apply, fun.Cast, fun.SizeValue, fun.Index, fun.If)
    return all(
        isinstance(let.expr, allowed) and all(isinstance(v.type, fun.Scalar) for v in let.pattern)
        for let in walk.statements(body)
    ) and all(isinstance(atom.type, fun.Scalar) for atom in body.results)


def _last_indices(kernel: fun.Kernel) -> list[str]:
    """For each read that one index moves by an element, that index."""
    own = {r.index.name for r in kernel.space}
    found = []
    for let in walk.statements(kernel.body):
        if not isinstance(let.expr, fun.Index):
            continue
        *outer, last = let.expr.indices
        across = {name for index in outer for name in index.variables()}
        found += [
            name
            for name in sorted((last.variables() & own) - across)
            if last.degree(name) == 1 and last.coefficient(name) in (ONE, -ONE)
        ]
    return found


# ---------------------------------------------------------------- loops of kernels


def _inwards(let: fun.Let, names: Names) -> fun.Let | None:
    """A loop whose rounds are kernels on elements of their own, as one kernel; None for others."""
    loop = let.expr
    if not isinstance(loop, fun.Loop) or not isinstance(loop.form, fun.For):
        return None
    if len(loop.body.statements) != 1:
        return None
    (step,) = loop.body.statements
    if not isinstance(step.expr, fun.Kernel) or step.pattern != loop.body.results:
        return None
    kernel = joined(step.expr)
    if not _is_flat(kernel.body) or not _on_own_elements(loop, kernel):
        return None
    at = tuple(Poly.var(r.index.name) for r in kernel.space)
    begin: list[fun.Let] = []
    params: list[fun.Var] = []
    for param, initial in zip(loop.params, loop.initial, strict=True):
        assert isinstance(initial, fun.Var)
        scalar = fun.Scalar(param.type.dtype)
        first = fun.Var(names.fresh(initial.name), scalar)
        begin.append(fun.Let((first,), fun.Index(initial, at), let.place))
        params.append(fun.Var(names.fresh(param.name), scalar))
    kept = _Elements(dict(zip((p.name for p in loop.params), params, strict=True)))
    results = tuple(
        fun.Var(names.fresh(var.name), fun.Scalar(var.type.dtype)) for var in let.pattern
    )
    initial_values = tuple(first.pattern[0] for first in begin)
    inner = fun.Loop(tuple(params), initial_values, loop.form, kept.body(kernel.body))
    body = fun.Body((*begin, fun.Let(results, inner, let.place)), results)
    return replace(let, expr=replace(kernel, body=body))


def _on_own_elements(loop: fun.Loop, kernel: fun.Kernel) -> bool:
    """Whether a round's kernel makes all of the loop's arrays, of what they are at its indices."""
    assert isinstance(loop.form, fun.For)
    own = tuple(Poly.var(r.index.name) for r in kernel.space)
    shape = tuple(r.extent for r in kernel.space)
    if any(loop.form.index.name in extent.variables() for extent in shape):
        return False
    if not all(isinstance(p.type, fun.Array) and p.type.shape == shape for p in loop.params):
        return False
    names = {param.name for param in loop.params}
    read: Counter[str] = Counter()
    for let in walk.statements(kernel.body):
        if isinstance(let.expr, fun.Index) and let.expr.array.name in names:
            if let.expr.indices != own or any(let.expr.boundary):
                return False
            read[let.expr.array.name] += 1
    uses = Counter(walk.uses(kernel.body))
    return all(uses[name] == read[name] for name in names)


class _Elements(walk.Substitution):
    """Reads of arrays as the scalars that their elements are."""

    def __init__(self, elements: dict[str, fun.Var]) -> None:
        super().__init__()
        self.elements = elements

    def body(self, body: fun.Body) -> fun.Body:
        statements = []
        for let in body.statements:
            element = None
            if isinstance(let.expr, fun.Index):
                element = self.elements.get(let.expr.array.name)
            if element is None:
                statements.append(self.let(let))
            else:
                self.bind(let.pattern[0].name, element)
        return fun.Body(tuple(statements), tuple(map(self.atom, body.results)))
