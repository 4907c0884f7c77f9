"""permute_layouts: intermediate arrays lie in memory as neighbouring work items meet them.

block mem_t 8*n*m                                 block mem_t 8*n*m
let t: f64[n, m] @ mem_t[0; (n : m); (m : 1)]     let t: f64[n, m] @ mem_t[0; (n : 1); (m : n)]
  = scan (i < n, j < m) { x[j, i] }            =>   = scan (i < n, j < m) { x[j, i] }
let y = kernel (j < m, i < n) { t[i, j] }         let y = kernel (j < m, i < n) { t[i, j] }

A work item is an index of a parallel statement, and its neighbour the next one of the last
dimension (or, of a reduction or scan that a group does together, of the dimension that is
reduced). An access is *apart* where these neighbours meet elements that are not; see
`weft.mem.neighbours`. The permutation of dimensions is taken by which the fewest accesses of the
program are apart, the row-major one if there are several.

What is coalesced figure 2.1 of Munksgaard's thesis shows; its FUNMEM has index functions, by which
a layout is no matter of an array's type, so that nothing is moved here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import permutations
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.fun import walk
from weft.lmad import Lmad
from weft.mem import neighbours
from weft.mem.nodes import MemArray, Program
from weft.mem.rename import map_memory
from weft.sizes import ONE, ZERO, Poly, Size, product

_RANK = 4  # of arrays whose permutations are tried, at most
_KNOWN = (
    fun.Kernel, fun.Reduce, fun.Scan, fun.Permute, fun.Copy, fun.Index, fun.Apply, fun.Cast,
    fun.SizeValue,
)  # fmt: skip

Dim: TypeAlias = tuple[Size, Size]


def permute_layouts(program: Program) -> Program:
    """The program with other index functions of its intermediate arrays.

    Removes and adds no statement and no block. Requires one array in a block, with its views
    (before `merge_blocks`). Ensures the same meaning: where every array of a block is dense
    or a permutation of one that is, its dimensions' strides are exchanged in all of them
    alike. Blocks of which statements need more than single elements (updates, concatenations,
    reshapes, loops that carry them) stay as they are, as do parameters and results.
    """
    for block, dims in _dense(program).items():
        found = min(_layouts(dims), key=lambda strides: _apart(_moved(program, block, strides)))
        if _apart(_moved(program, block, found)) < _apart(program):
            program = _moved(program, block, found)
    return program


def _dense(program: Program) -> dict[str, tuple[Dim, ...]]:
    """Blocks whose arrays are one dense array and its permutations, and that one's dimensions."""
    own = {block.name for block in program.blocks if not block.per_thread}
    own -= {name for choice in program.choices for name in choice.blocks}
    found: dict[str, MemArray] = {}
    refused: set[str] = set()
    for let, sequential in _statements(program.program.body, True):
        # Inside of parallel statements, arrays are other memory: views of a part are refused.
        for type_ in _arrays(let):
            first = found.setdefault(type_.block, type_)
            same = first.dtype is type_.dtype and sorted(map(str, type_.index.dims)) == sorted(
                map(str, first.index.dims)
            )
            plain = sequential and isinstance(let.expr, _KNOWN)
            if not (same and type_.index.offset == ZERO and (plain or _is_read(let, type_))):
                refused.add(type_.block)
    return {
        name: type_.index.dims
        for name, type_ in found.items()
        if name in own - refused and 1 < len(type_.index.dims) <= _RANK
        and type_.index == Lmad.row_major(type_.shape)
        and len({stride for _, stride in type_.index.dims}) == len(type_.index.dims)
    }  # fmt: skip


def _statements(body: fun.Body, sequential: bool) -> Iterator[tuple[fun.Let, bool]]:
    """Every statement, and whether it is no part of a parallel one."""
    for let in body.statements:
        yield let, sequential
        inside = sequential and isinstance(let.expr, fun.If | fun.Loop)
        for inner in walk.bodies(let.expr):
            yield from _statements(inner, inside)


def _arrays(let: fun.Let) -> Iterator[MemArray]:
    """The arrays that a statement makes, takes, or hands on."""
    atoms, _, bound = walk.operands(let.expr)
    results = [atom for body in walk.bodies(let.expr) for atom in body.results]
    for var in (*let.pattern, *atoms, *bound, *results):
        if isinstance(var, fun.Var) and isinstance(var.type, MemArray):
            yield var.type


def _is_read(let: fun.Let, type_: MemArray) -> bool:
    """Whether a statement reads an element of the array, and no more."""
    return isinstance(let.expr, fun.Index) and let.expr.array.type == type_


def _layouts(dims: tuple[Dim, ...]) -> Iterator[tuple[Size, ...]]:
    """The strides of every permutation, the row-major one first."""
    extents = [extent for extent, _ in dims]
    for order in permutations(range(len(dims))):
        yield tuple(
            product(extents[other] for other in order[order.index(d) + 1 :])
            for d in range(len(dims))
        )


def _moved(program: Program, block: str, strides: tuple[Size, ...]) -> Program:
    """The program whose dense array in a block has other strides."""
    dims = _dense(program)[block]
    to: Mapping[Dim, Dim] = {
        dim: (dim[0], stride) for dim, stride in zip(dims, strides, strict=True)
    }

    def changed(type_: MemArray) -> MemArray:
        if type_.block != block:
            return type_
        return replace(type_, index=Lmad(ZERO, tuple(to[dim] for dim in type_.index.dims)))

    return map_memory(program, changed)


def _apart(program: Program) -> int:
    """Accesses of the program whose neighbours lie apart."""
    return sum(_of_statement(let) for let in walk.sequential(program.program.body))


def _of_statement(let: fun.Let) -> int:
    match let.expr:
        case fun.Kernel(space, body) if space:
            return neighbours.apart(body.statements, space[-1].index.name, _written(let, space))
        case fun.Reduce(space, reduced, body) if reduced < len(space):
            kept = space[: len(space) - reduced]
            return _of_rows(body, kept[-1], space[-1], _written(let, kept))
        case fun.Scan(space, body) if len(space) > 1:
            return _of_rows(body, space[-2], space[-1], _written(let, space))
        case fun.Copy(fun.Var(_, MemArray() as source)):
            target = let.pattern[0].type
            assert isinstance(target, MemArray)
            last = [array.index.dims[-1][1] for array in (source, target) if array.index.dims]
            return sum(stride not in (ZERO, ONE, -ONE) for stride in last)
        case _:
            return 0


def _of_rows(
    body: fun.Body, row: fun.Range, element: fun.Range, written: list[neighbours.Access]
) -> int:
    """Items are rows, or the elements of one: whichever is better."""
    return min(
        neighbours.apart(body.statements, r.index.name, written) for r in (row, element)
    )


def _written(let: fun.Let, space: tuple[fun.Range, ...]) -> list[neighbours.Access]:
    """The elements that a statement makes at each index; of arrays at each, none."""
    indices = tuple(Poly.var(r.index.name) for r in space)
    return [
        (var.type, indices)
        for var in let.pattern
        if isinstance(var.type, MemArray) and len(var.type.index.dims) == len(indices)
    ]
