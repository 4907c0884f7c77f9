"""raise_reshapes: a kernel whose result is only reshaped, over the new shape from the start.

    let a = kernel (i < n, j < m) { exp(x[i, j]) }; let b = reshape a (n*m)
 => let y = reshape x (n*m); let b = kernel (l < n*m) { exp(y[l]) }

so that what reads `b` fuses with it: a flat index has no polynomial for its row and column.

Removes: outermost kernels of scalars, used by one reshape only, that read everything at
    their own index.
Adds: reshapes of what they read (views, where that is contiguous).
Requires: nothing; in particular it leaves reshapes that `simplify` reads through.
Ensures: the same values.
"""

from __future__ import annotations

from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.ops.dtypes import DType
from weft.passes.reads import Reads, is_own_index
from weft.sizes import Poly, Size


def raise_reshapes(program: fun.Program) -> fun.Program:
    """The program with reshapes moved before kernels."""
    if not any(isinstance(let.expr, fun.Reshape) for let in program.body.statements):
        return program
    names: Names | None = None
    # A reshape that moved before one kernel may be the only use of another.
    while (found := _find(program.body)) is not None:
        names = names or Names.of(program)
        program = replace(program, body=_raise(program.body, *found, names))
    return program


def _find(body: fun.Body) -> tuple[int, int] | None:
    """The positions of a kernel and of the reshape that alone uses it."""
    uses: dict[str, int] = {}
    for let in body.statements:
        for name in walk.used_names(let.expr):
            uses[name] = uses.get(name, 0) + 1
    for atom in body.results:
        if isinstance(atom, fun.Var):
            uses[atom.name] = uses.get(atom.name, 0) + 1
    where = {let.pattern[0].name: number for number, let in enumerate(body.statements)}
    for number, let in enumerate(body.statements):
        if isinstance(let.expr, fun.Reshape) and let.expr.array.name in where:
            first = where[let.expr.array.name]
            producer = body.statements[first]
            alone = len(producer.pattern) == 1 and uses[let.expr.array.name] == 1
            if alone and _is_elementwise(producer.expr) and _merges(let.expr):
                return first, number
    return None


def _merges(view: fun.Reshape) -> bool:
    """Whether a reshape has fewer dimensions than its argument (not counting ones)."""
    assert isinstance(view.array.type, fun.Array)
    return _longer_than_one(view.shape) < _longer_than_one(view.array.type.shape)


def _longer_than_one(shape: tuple[Size, ...]) -> int:
    return sum(extent != 1 for extent in shape)


def _is_elementwise(expr: fun.Expr) -> bool:
    """A kernel of scalars that uses its indices only to read whole arrays at them."""
    if not isinstance(expr, fun.Kernel):
        return False
    if any(not isinstance(result.type, fun.Scalar) for result in expr.body.results):
        return False
    own = {r.index.name for r in expr.space}
    extents = tuple(r.extent for r in expr.space)
    for site in Reads.of(expr).sites:
        at_own = is_own_index(site.indices, expr.space) and not any(site.boundary)
        if at_own and walk.type_sizes(site.array.type) == extents:
            continue
        if own & {name for index in site.indices for name in index.variables()}:
            return False
    used = {r.name for r in expr.body.results if isinstance(r, fun.Var)}
    for let in walk.statements(expr.body):
        if not isinstance(let.expr, fun.Index):
            atoms, sizes, _ = walk.operands(let.expr)
            used |= {atom.name for atom in atoms if isinstance(atom, fun.Var)}
            used |= {name for size in sizes for name in size.variables()}
            for body in walk.bodies(let.expr):
                used |= {r.name for r in body.results if isinstance(r, fun.Var)}
    return not own & used


def _raise(body: fun.Body, first: int, second: int, names: Names) -> fun.Body:
    producer, view = body.statements[first], body.statements[second]
    kernel, reshape = producer.expr, view.expr
    assert isinstance(kernel, fun.Kernel)
    assert isinstance(reshape, fun.Reshape)
    builder = Builder(names)
    builder.place = view.place
    space = tuple(fun.Range(builder.index(), extent) for extent in reshape.shape)
    raised = _Raised(kernel, reshape.shape, space, builder)
    new = fun.Kernel(space, raised.body(kernel.body))
    statements = [
        *body.statements[:first],
        *body.statements[first + 1 : second],
        *builder.statements,
        fun.Let(view.pattern, new, producer.place or view.place),
        *body.statements[second + 1 :],
    ]
    return fun.Body(tuple(statements), body.results)


class _Raised(walk.Substitution):
    """Reads at the kernel's index become reads of reshaped arrays at the new one."""

    def __init__(
        self,
        kernel: fun.Kernel,
        shape: tuple[Size, ...],
        space: tuple[fun.Range, ...],
        builder: Builder,
    ) -> None:
        super().__init__()
        self.extents = tuple(r.extent for r in kernel.space)
        self.old = kernel.space
        self.shape = shape
        self.indices = tuple(Poly.var(r.index.name) for r in space)
        self.builder = builder
        self.reshaped: dict[str, fun.Var] = {}

    def let(self, let: fun.Let) -> fun.Let:
        read = let.expr
        if (
            isinstance(read, fun.Index)
            and is_own_index(read.indices, self.old)
            and walk.type_sizes(read.array.type) == self.extents
        ):
            dtype: DType = read.array.type.dtype
            if read.array.name not in self.reshaped:
                view = fun.Reshape(read.array, self.shape)
                type_ = fun.Array(dtype, self.shape)
                self.reshaped[read.array.name] = self.builder.let(view, type_, read.array.name)
            let = replace(let, expr=fun.Index(self.reshaped[read.array.name], self.indices))
        return super().let(let)
