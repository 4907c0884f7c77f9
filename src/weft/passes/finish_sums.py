"""finish_sums: what becomes of a sum is done where the sum is ready.

    let s = reduce (i < n; k < m) { .. } with f       let y = kernel (j < n) {
    let y = kernel (j < n) {                            let t = reduce (; k < m) { .. } with f
      let t = s[j]                                =>    ..
      ..                                              }
    }

Removes: reductions with kept dimensions whose results one kernel over the same space reads, each
    element once, as a part of a larger kernel.
Adds: the reduction of one element in that kernel.
Requires: a checked program; that fusion has inlined what it can.
Ensures: the same bits, since a reduction with kept dimensions is lowered so by itself. No update
    stands in between, which would have to leave what the reduction reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.fun.contractions import contraction
from weft.passes.reads import is_own_index


def finish_sums(program: fun.Program, everywhere: bool = False) -> fun.Program:
    """The program with reductions in the kernels that finish them.

    Parameters
    ----------
    program : fun.Program
    everywhere : bool
        Not only inside of kernels. Processors then do a row and what becomes of its sum in one
        pass; GPUs have forms for reductions by themselves.
    """
    inside = _Finish(program, everywhere).inside
    body = inside(program.body) if everywhere else walk.in_kernels(program.body, inside)
    return program if body is program.body else replace(program, body=body)


def finisher(statements: Sequence[fun.Let], number: int, uses: Counter[str]) -> int | None:
    """The kernel that finishes a reduction, if all of its results are read there alone."""
    let = statements[number]
    reduce = let.expr
    if not isinstance(reduce, fun.Reduce) or reduce.reduced == len(reduce.space):
        return None
    names = {var.name for var in let.pattern}
    for position in range(number + 1, len(statements)):
        expr = statements[position].expr
        if isinstance(expr, fun.Kernel) and names & walk.free_names(expr.body):
            kept = walk.kept(reduce)
            same = [r.extent for r in kept] == [r.extent for r in expr.space]
            return position if same and _reads_once(expr, names, uses) else None
        if isinstance(expr, fun.Update | fun.LmadUpdate | fun.Scatter | fun.Loop | fun.If):
            return None
    return None


def finished(let: fun.Let, user: fun.Let, fresh: Callable[[str], str]) -> fun.Let:
    """The kernel `user` with the reduction `let` in place of its reads."""
    reduce, kernel = let.expr, user.expr
    assert isinstance(reduce, fun.Reduce)
    assert isinstance(kernel, fun.Kernel)
    kept = len(reduce.space) - reduce.reduced
    own = zip(reduce.space[:kept], kernel.space, strict=True)
    renamed = walk.Substitution({old.index.name: new.index for old, new in own})
    one = replace(reduce, space=reduce.space[kept:])
    names = {var.name: var for var in let.pattern}
    read = {
        inner.expr.array.name: inner.pattern[0]
        for inner in kernel.body.statements
        if isinstance(inner.expr, fun.Index) and inner.expr.array.name in names
    }
    pattern = tuple(
        read.get(name) or fun.Var(fresh(name), fun.Scalar(var.type.dtype))
        for name, var in names.items()
    )
    sums = fun.Let(pattern, renamed.expr(one), let.place)
    others = [i for i in kernel.body.statements if i.pattern[0] not in read.values()]
    body = fun.Body((sums, *others), kernel.body.results)
    return replace(user, expr=replace(kernel, body=body))


class _Finish:
    def __init__(self, program: fun.Program, everywhere: bool) -> None:
        self.program, self.everywhere = program, everywhere
        self.names: Names | None = None

    def fresh(self, name: str) -> str:
        if self.names is None:
            self.names = Names.of(self.program)
        return self.names.fresh(name)

    def _is_contraction(self, made: fun.Let) -> bool:
        """Whether it would be done in tiles, which `raise_contractions` decides."""
        kernel = made.expr
        assert isinstance(kernel, fun.Kernel)
        return self.everywhere and contraction(kernel) is not None

    def inside(self, body: fun.Body) -> fun.Body:
        """A body whose sums are finished where they are ready."""
        statements = [walk.map_let(let, self.inside) for let in body.statements]
        uses = Counter(walk.uses(fun.Body(tuple(statements), body.results)))
        for number in reversed(range(len(statements))):
            user = finisher(statements, number, uses)
            if user is not None:
                made = finished(statements[number], statements[user], self.fresh)
                if self._is_contraction(made):
                    continue
                statements[user] = made
                del statements[number]
        return walk.with_statements(body, statements)


def _reads_once(kernel: fun.Kernel, names: set[str], uses: Counter[str]) -> bool:
    """Whether a kernel of scalars reads each at its own index, where nothing else uses them."""
    if not all(isinstance(let.expr, walk.SCALARS) for let in kernel.body.statements):
        return False
    reads = [
        let.expr
        for let in kernel.body.statements
        if isinstance(let.expr, fun.Index) and let.expr.array.name in names
    ]
    return (
        len(reads) == sum(uses[name] for name in names)
        and len({read.array.name for read in reads}) == len(reads)
        and all(is_own_index(r.indices, kernel.space) and not any(r.boundary) for r in reads)
        and all(isinstance(result.type, fun.Scalar) for result in kernel.body.results)
    )
