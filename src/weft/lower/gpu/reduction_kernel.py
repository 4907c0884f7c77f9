"""A kernel that is a reduction at each of its indices: what the forms of it have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.imp import nodes as imp
from weft.lower import kernels, reductions, shapes
from weft.lower.bodies import lower_body
from weft.lower.emitter import Emitter
from weft.lower.gpu.tiles import SHARED_BYTES
from weft.mem import neighbours
from weft.ops.dtypes import DType
from weft.records import dataclass
from weft.sizes import Size, as_poly


@dataclass(frozen=True, slots=True)
class ReductionKernel:
    """A kernel of scalars that has one reduction, taken apart around it.

    Attributes
    ----------
    let : fun.Let
        Whose expression is the kernel.
    before, after : fun.Body
        What the reduction may use, and what is made of it: `after` gives the kernel's results.
    reduced : fun.Let
        The statement between them, which is `reduce`, of all its dimensions.
    """

    let: fun.Let
    kernel: fun.Kernel
    before: fun.Body
    reduced: fun.Let
    reduce: fun.Reduce
    after: fun.Body

    @staticmethod
    def of(let: fun.Let, kernel: fun.Kernel) -> ReductionKernel | None:
        """A kernel that gives the pattern of a statement; None where it is another."""
        statements = kernel.body.statements
        found = [n for n, made in enumerate(statements) if isinstance(made.expr, fun.Reduce)]
        others = (made for made in statements if not isinstance(made.expr, fun.Reduce))
        if len(found) != 1 or not shapes.is_flat(fun.Body(tuple(others), ())):
            return None
        (position,) = found
        reduce = statements[position].expr
        assert isinstance(reduce, fun.Reduce)
        if not (shapes.is_flat(reduce.body) and shapes.is_flat(reduce.operator.body)):
            return None
        if reduce.counter or reduce.reduced < len(reduce.space) or shapes.is_unrolled(reduce):
            return None
        before = fun.Body(statements[:position], ())
        after = fun.Body(statements[position + 1 :], kernel.body.results)
        let = replace(let, expr=kernel)
        return ReductionKernel(let, kernel, before, statements[position], reduce, after)

    @property
    def is_of_rows(self) -> bool:
        """Whether it is of one dimension, between scalar operations."""
        others = (*self.before.statements, *self.after.statements)
        operations = fun.Apply | fun.Cast | fun.SizeValue | fun.Index
        rows = len(self.reduce.space) == 1
        return rows and all(isinstance(let.expr, operations) for let in others)

    @property
    def is_simple(self) -> bool:
        """Whether it is of rows, of whose elements a group can share what is reduced."""
        return self.is_of_rows and sum(d.itemsize for d in self.dtypes) <= SHARED_BYTES

    @property
    def bound(self) -> Size:
        """What no row is longer than, by where its extent comes from: a tile's is a minimum."""
        extent = self.reduce.space[0].extent
        sizes: dict[str, Size] = {}
        for let in self.before.statements:
            match let.expr:
                case fun.SizeValue(size):
                    sizes[let.pattern[0].name] = size
                case fun.Apply("minimum", (fun.Const(value), _)) if (
                    let.pattern[0].name == extent.variable
                ):
                    return as_poly(int(value.real))
                case fun.Apply("minimum", (fun.Var(name), _)) if name in sizes and (
                    let.pattern[0].name == extent.variable
                ):
                    return sizes[name]
                case _:
                    pass
        return extent

    @property
    def dtypes(self) -> list[DType]:
        """Those of what is reduced."""
        return [var.type.dtype for var in self.reduced.pattern]

    @property
    def read(self) -> tuple[fun.Let, ...]:
        """The statements that an element of the reduction is computed by."""
        return (*self.before.statements, *self.reduce.body.statements)

    @property
    def walks(self) -> bool:
        """Whether neighbouring rows lie apart where neighbours of one row do not.

        What is the same for all elements of a row, and is read once, counts for nothing.
        """
        row, element = self.kernel.space[-1].index.name, self.reduce.space[-1].index.name
        varying = neighbours.depends(self.read, element)
        again = [let for let in self.read if walk.free_names(fun.Body((let,), ())) & varying]
        return neighbours.rows_apart(again, row, element)

    @property
    def varying(self) -> frozenset[str]:
        """What depends on the last index, of what comes before the reduction."""
        return neighbours.depends(self.before.statements, self.kernel.space[-1].index.name)

    def has_even_rows(self) -> bool:
        """Whether rows that differ in the last index alone are equally long."""
        return self.varying.isdisjoint(self.reduce.space[0].extent.variables())

    def counter(self, e: Emitter) -> reductions.Counter:
        neutral = [e.atom(atom) for atom in self.reduce.neutral]
        return reductions.Counter(e, self.reduce.operator, neutral)

    def finish(self, e: Emitter, values: Sequence[imp.Expr]) -> None:
        """What is made of the reduction's values, stored at the indices that are bound."""
        for var, value in zip(self.reduced.pattern, values, strict=True):
            e.bind(var.name, e.declare(value))
        kernels.store(e, self.let, [e.atom(atom) for atom in lower_body(e, self.after)])
