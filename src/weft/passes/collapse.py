"""collapse: neighbouring dimensions of an index space made one.

    let r = kernel (i < n, j < 3) { exp(x[i, j]) }
 => let y = reshape x (3*n)
    let s = kernel (l < 3*n) { exp(y[l]) }
    let r = reshape s (n, 3)

Removes: neighbouring dimensions of outermost kernels, reductions and scans, at which all
    arrays are read side by side and whole, and which are used in no other way.
Adds: reshapes, which are views of contiguous arrays.
Requires: the names of the parameters that are contiguous.
Ensures: the same bits. Dimensions that are reduced stay apart unless `reduced` is set, since
    the tree of a reduction depends on them.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.passes.reads import Reads, Site
from weft.records import dataclass
from weft.sizes import Poly, Size, product

_FRESH = (
    fun.Kernel, fun.Reduce, fun.Scan, fun.Scatter, fun.Concat, fun.Copy, fun.Update,
    fun.LmadUpdate, fun.Call,
)  # fmt: skip


def collapse(
    program: fun.Program, contiguous: Container[str] = frozenset(), reduced: bool = False
) -> fun.Program:
    """The program with dimensions of its outermost statements merged where they can be.

    Parameters
    ----------
    program : fun.Program
    contiguous : container of str
        The array parameters that are contiguous (row-major).
    reduced : bool, optional
        Merge dimensions that are reduced too, which gives another order of combination.
    """
    whole = {param.name for param in program.params if param.name in contiguous}
    builder: Builder | None = None
    for number, let in enumerate(program.body.statements):
        runs = _runs(let.expr, whole, reduced)
        if any(len(run) > 1 for run in runs):
            if builder is None:
                builder = Builder(Names.of(program))
                builder.statements += program.body.statements[:number]
            _merge(let, runs, builder)
        elif builder is not None:
            builder.statements.append(let)
        if isinstance(let.expr, _FRESH) or (
            isinstance(let.expr, fun.Reshape) and let.expr.array.name in whole
        ):
            whole.update(var.name for var in let.pattern)
    return program if builder is None else replace(program, body=builder.body(program.body.results))


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring dimensions of a space, from `first` to `last`, that become one."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1


def _runs(expr: fun.Expr, contiguous: set[str], reduced: bool) -> list[_Run]:
    """The dimensions of a space cut into runs that can be merged."""
    match expr:
        case fun.Kernel(space):
            seams: set[int] = set()
        case fun.Reduce(space) if not expr.counter:
            kept = len(space) - expr.reduced
            seams = {kept} if reduced else set(range(kept, len(space)))
        case fun.Scan(space):
            seams = {len(space) - 1}
        case _:
            return []
    if len(space) < 2:
        return []
    sites = Reads.of(expr).sites
    used = _otherwise_used(expr)
    runs = [_Run(0, 0)]
    for d in range(1, len(space)):
        left, right = space[d - 1], space[d]
        together = (
            d not in seams
            and left.index.name not in used
            and right.index.name not in used
            and all(_side_by_side(site, left, right, contiguous) for site in sites)
        )
        if together:
            runs[-1] = _Run(runs[-1].first, d)
        else:
            runs.append(_Run(d, d))
    return runs


def _otherwise_used(expr: fun.Kernel | fun.Reduce | fun.Scan) -> set[str]:
    """Names that a statement uses in any way but as an index of a read."""
    used = {atom.name for atom in expr.body.results if isinstance(atom, fun.Var)}
    for body in walk.bodies(expr):
        for let in walk.statements(body):
            if not isinstance(let.expr, fun.Index):
                used |= _own_names(let.expr)
            for var in let.pattern:
                for size in walk.type_sizes(var.type):
                    used |= size.variables()
    return used


def _own_names(expr: fun.Expr) -> set[str]:
    atoms, sizes, _ = walk.operands(expr)
    names = {atom.name for atom in atoms if isinstance(atom, fun.Var)}
    for size in sizes:
        names |= size.variables()
    for body in walk.bodies(expr):
        names |= {atom.name for atom in body.results if isinstance(atom, fun.Var)}
    return names


def _side_by_side(site: Site, left: fun.Range, right: fun.Range, contiguous: set[str]) -> bool:
    """Whether a read has both indices alone in neighbouring whole dimensions, or neither."""
    names = {name for index in site.indices for name in index.variables()}
    if left.index.name not in names and right.index.name not in names:
        return True
    if site.array.name not in contiguous or any(site.boundary):
        return False
    assert isinstance(site.array.type, fun.Array)
    places = {index: d for d, index in enumerate(site.indices)}
    uses = [d for d, index in enumerate(site.indices)
            if index.variables() & {left.index.name, right.index.name}]  # fmt: skip
    at = places.get(Poly.var(left.index.name))
    shape = site.array.type.shape
    return (
        at is not None
        and uses == [at, at + 1]
        and site.indices[at + 1] == Poly.var(right.index.name)
        and shape[at] == left.extent
        and shape[at + 1] == right.extent
    )


# ---------------------------------------------------------------- merging


def _merge(let: fun.Let, runs: Sequence[_Run], builder: Builder) -> None:
    """The statement over merged dimensions, between reshapes, added to the builder."""
    builder.place = let.place
    expr = let.expr
    assert isinstance(expr, fun.Kernel | fun.Reduce | fun.Scan)
    groups = [expr.space[run.first : run.last + 1] for run in runs]
    space = tuple(
        group[0]
        if len(group) == 1
        else fun.Range(builder.index(), product(r.extent for r in group))
        for group in groups
    )
    merged = {
        group[0].index.name: (group, new.index.name)
        for group, new in zip(groups, space, strict=True)
        if len(group) > 1
    }
    flat = _Flat(merged, builder)
    body = flat.body(expr.body)
    new: fun.Expr
    if isinstance(expr, fun.Reduce):
        reduced = sum(run.first >= len(expr.space) - expr.reduced for run in runs)
        new = replace(expr, space=space, reduced=reduced, body=body)
        kept = len(space) - reduced
    else:
        new = replace(expr, space=space, body=body)
        kept = len(space)
    before = len(expr.space) - (expr.reduced if isinstance(expr, fun.Reduce) else 0)
    if all(len(group) == 1 for group in groups[:kept]):
        builder.statements.append(fun.Let(let.pattern, new, let.place))
        return
    leading = tuple(r.extent for r in space[:kept])
    types = tuple(
        fun.Array(var.type.dtype, leading + walk.type_sizes(var.type)[before:])
        for var in let.pattern
    )
    for var, flat_var in zip(let.pattern, builder.bind(new, types, "flat"), strict=True):
        assert isinstance(var.type, fun.Array)
        back = fun.Reshape(flat_var, var.type.shape)
        builder.statements.append(fun.Let((var,), back, let.place))


class _Flat(walk.Substitution):
    """Turns reads at merged indices into reads of reshaped arrays."""

    def __init__(
        self, merged: Mapping[str, tuple[Sequence[fun.Range], str]], builder: Builder
    ) -> None:
        super().__init__()
        self.merged = merged  # a run's first index -> the run, and its new index
        self.builder = builder
        self.reshaped: dict[tuple[str, tuple[Size, ...]], fun.Var] = {}

    def let(self, let: fun.Let) -> fun.Let:
        expr = let.expr
        if isinstance(expr, fun.Index):
            let = replace(let, expr=self.read(expr))
        return super().let(let)

    def read(self, read: fun.Index) -> fun.Index:
        assert isinstance(read.array.type, fun.Array)
        shape: list[Size] = []
        indices: list[Size] = []
        d = 0
        while d < len(read.indices):
            found = self.merged.get(read.indices[d].variable or "")
            if found is None:
                shape.append(read.array.type.shape[d])
                indices.append(read.indices[d])
                d += 1
                continue
            run, name = found
            shape.append(product(read.array.type.shape[d : d + len(run)]))
            indices.append(Poly.var(name))
            d += len(run)
        if len(shape) == len(read.indices):
            return read
        key = (read.array.name, tuple(shape))
        if key not in self.reshaped:
            type_ = fun.Array(read.array.type.dtype, tuple(shape))
            view = fun.Reshape(read.array, tuple(shape))
            self.reshaped[key] = self.builder.let(view, type_, read.array.name)
        # A dimension with a boundary rule is never merged.
        return fun.Index(self.reshaped[key], tuple(indices))
