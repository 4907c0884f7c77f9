"""Views of arrays by the strides that these have at launch, and what is read of them.

    let v = reshape x (n*m) let w = slice v[0 for k by 7] let y = concat 0 (w, z)
 => let v = reshape x (n*m) let w = slice v[0 for k by 7]
    let t = kernel (i < k) { w[i] } let y = concat 0 (t, z)

where w[i] is an affine access of x, as every read of a view is that lies in memory by strides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.records import dataclass
from weft.sizes import Poly, Size


@dataclass(frozen=True, slots=True)
class Lie:
    """How an array lies in memory: the address of its first index, and strides, in elements.

    Addresses are comparable for arrays of one `memory`.
    """

    memory: int
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def seen(self, expr: fun.Expr, sizes: Mapping[str, int]) -> Lie | None:
        """How a layout change of the array lies; None where no strides give it, or not known."""
        if not all(size.variables() <= sizes.keys() for size in walk.operands(expr)[1]):
            return None
        match expr:
            case fun.Slice(_, dims):
                return self._slice(dims, sizes)
            case fun.LmadSlice(_, offset, pairs) if len(self.shape) == 1:
                start = offset.evaluate(sizes)
                shape = tuple(extent.evaluate(sizes) for extent, _ in pairs)
                steps = [stride.evaluate(sizes) for _, stride in pairs]
                reach = [step * (extent - 1) for step, extent in zip(steps, shape, strict=True)]
                first = start + sum(min(each, 0) for each in reach)
                last = start + sum(max(each, 0) for each in reach)
                if min(shape, default=1) < 1 or first < 0 or last >= self.shape[0]:
                    return None
                address = self.address + start * self.strides[0]
                return Lie(self.memory, address, shape, tuple(s * self.strides[0] for s in steps))
            case fun.Permute(_, axes):
                shape, strides = (tuple(of[a] for a in axes) for of in (self.shape, self.strides))
                return replace(self, shape=shape, strides=strides)
            case fun.Broadcast(_, sizes_):
                shape = tuple(size.evaluate(sizes) for size in sizes_)
                new = (0,) * (len(shape) - len(self.shape))
                own = (0 if n == 1 else s for n, s in zip(self.shape, self.strides, strict=True))
                return replace(self, shape=shape, strides=(*new, *own))
            case fun.Reshape(_, sizes_):
                shape = tuple(size.evaluate(sizes) for size in sizes_)
                strides_ = self._reshaped(shape)
                return None if strides_ is None else replace(self, shape=shape, strides=strides_)
        return None

    def _slice(self, dims: tuple[fun.Span | Size, ...], sizes: Mapping[str, int]) -> Lie | None:
        address = self.address
        kept: list[tuple[int, int]] = []
        for dim, own, stride in zip(dims, self.shape, self.strides, strict=True):
            if isinstance(dim, fun.Span):
                first, extent = dim.start.evaluate(sizes), dim.extent.evaluate(sizes)
                last = first + (extent - 1) * dim.step
                if extent < 1:
                    return None
                kept.append((extent, stride * dim.step))
            else:
                first = last = dim.evaluate(sizes)
            if min(first, last) < 0 or max(first, last) >= own:
                return None
            address += first * stride
        shape, strides = zip(*kept, strict=True) if kept else ((), ())
        return Lie(self.memory, address, shape, strides)

    def _reshaped(self, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """The strides of another shape; None where the elements would have to be copied."""
        if 0 in shape:
            return None
        # From the last: axes that run into each other are one, of which new axes are parts.
        old = [(n, s) for n, s in zip(self.shape, self.strides, strict=True) if n != 1]
        strides: list[int] = []
        count, step = 1, 1  # elements of the joined axis that are not yet in a new one
        for extent in reversed(shape):
            if extent != 1 and count == 1 and old:
                count, step = old.pop()
            while old and count % extent and old[-1][1] == step * count:
                count *= old.pop()[0]
            strides.append(step)
            if count % extent:
                return None
            count, step = count // extent, step * extent
        return tuple(reversed(strides))


def views(
    program: fun.Program, arrays: Mapping[str, Lie], sizes: Mapping[str, int]
) -> tuple[dict[str, Lie], dict[str, str]]:
    """The outermost views of arrays that lie by strides; and for each the array.

    Parameters
    ----------
    program : fun.Program
    arrays : mapping of str to Lie
    sizes : mapping of str to int
        Every size variable, derived ones included.
    """
    found: dict[str, Lie] = {}
    roots: dict[str, str] = {}
    for let in program.body.statements:
        if not isinstance(let.expr, fun.LAYOUT_CHANGES) or isinstance(let.expr.array, fun.Const):
            continue
        source = let.expr.array.name
        lie = found.get(source) or arrays.get(source)
        seen = None if lie is None else lie.seen(let.expr, sizes)
        if seen is not None:
            found[let.pattern[0].name] = seen
            roots[let.pattern[0].name] = roots.get(source, source)
    return found, roots


def read_in_kernels(program: fun.Program, names: Collection[str]) -> fun.Program:
    """The program where views that calls and joins take are made by kernels that read them.

    Requires views of the outermost body (`names`). Ensures the same meaning. What is a view of
    one, but not by strides, is one of what a kernel makes.

    let y = copy v  =>  let y = kernel (i < n) { v[i] }
    """
    builder = Builder(Names.of(program))
    made: dict[str, fun.Atom] = {}

    def read(atom: fun.Atom) -> fun.Atom:
        if isinstance(atom, fun.Const) or atom.name not in names:
            return atom
        if not walk.type_sizes(atom.type):  # an array of no axes has no kernel over it
            return atom
        if atom.name not in made:
            made[atom.name] = builder.let(_read(builder, atom), atom.type)
        return made[atom.name]

    mapper = walk.Mapper(read, lambda size: size, lambda body: body, lambda var: var)
    for let in program.body.statements:
        builder.place = let.place
        if isinstance(let.expr, fun.Copy) and let.expr.array.name in names:
            let = replace(let, expr=_read(builder, let.expr.array))
        elif let.pattern[0].name not in names and not isinstance(let.expr, fun.Index):
            let = replace(let, expr=walk.map_expr(let.expr, mapper))
        builder.statements.append(let)
    results = tuple(map(read, program.body.results))
    body = builder.body(results)
    return program if body == program.body else replace(program, body=body)


def _read(builder: Builder, view: fun.Var) -> fun.Kernel:
    """A kernel that reads every element of a view."""
    assert isinstance(view.type, fun.Array)
    space = tuple(fun.Range(builder.index(), extent) for extent in view.type.shape)
    inner = builder.inner()
    at = tuple(Poly.var(each.index.name) for each in space)
    element = inner.let(fun.Index(view, at), fun.Scalar(view.type.dtype))
    return fun.Kernel(space, inner.body([element]))
