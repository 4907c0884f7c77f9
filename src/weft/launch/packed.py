"""Programs on a device with only the parts of their arguments transferred that they read and write.

The accesses of a program are joined to groups (`weft.transfer`), whose elements go to the device
packed; of an argument that is updated in part, that part alone comes back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy.typing as npt

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.launch.computation import Computation
from weft.launch.packed_calls import PackedCall, Piece, Updated
from weft.passes.flatten import flatten
from weft.runtime.incore import derive
from weft.transfer.accesses import Access
from weft.transfer.groups import Group, components, elements, groups
from weft.transfer.guarded import Guarded, guarded, packed_rows
from weft.transfer.interiors import without_rules
from weft.transfer.packing import bounds
from weft.transfer.regions import Guards, Written, written
from weft.transfer.rewrite import rewrite
from weft.transfer.sites import Site, sites
from weft.transfer.trapezoids import PackedRows
from weft.transfer.views import Lie, read_in_kernels, views

NDArray: TypeAlias = npt.NDArray[Any]

_KEPT = 16  # launches of a computation that are remembered
_WORTH = 0.95  # of an argument's bytes: more is not worth the host's copy

_MOST_PIECES = 32  # of one memory: kernels take no more than a hundred arguments or so

_KEPT_PROGRAMS = 256  # on packed arguments: what lies alike shares what is compiled


def packed_call(
    computation: Computation,
    sizes: Mapping[str, int],
    inputs: Sequence[NDArray],
    out: Sequence[NDArray | None] | None,
    room: int | None = None,
) -> PackedCall | None:
    """The call with packed arguments; None where that transfers no less.

    `room`: bytes that the device has.
    """
    if computation.is_packed:
        return None
    owners = _owners(inputs)
    updated = tuple(
        number
        for name, number in computation.replaced.items()
        if out is not None and out[number] is inputs[computation.names.index(name)]
    )
    lies = tuple(
        (a.dtype.str, a.shape, a.strides, *owner) if owner is not None else None
        for a, owner in zip(inputs, owners, strict=True)
    )
    key = (tuple(sizes.items()), lies, updated, room)
    if key not in computation.transfers:
        while len(computation.transfers) >= _KEPT:
            computation.transfers.pop(next(iter(computation.transfers)))
        computation.transfers[key] = _made(computation, sizes, inputs, owners, updated, room)
    found: PackedCall | None = computation.transfers[key]
    return found


Owner: TypeAlias = tuple[int, int]
"""The first input that shares memory with one, and the address of its first index there."""


def _owners(inputs: Sequence[NDArray]) -> list[Owner | None]:
    """For each input that is an array of whole elements, whose memory it shares."""
    spans: list[tuple[int, int, int]] = []
    for number, array in enumerate(inputs):
        plain = array.ndim and array.size and array.flags.aligned and array.dtype.isnative
        if plain and not any(stride % array.itemsize for stride in array.strides):
            spans.append((*bounds(array), number))
    owners: list[Owner | None] = [None] * len(inputs)
    low = reach = first = 0
    for start, end, number in sorted(spans):
        array = inputs[number]
        like = array.dtype == inputs[first].dtype and (start - low) % array.itemsize == 0
        if start >= reach or not like:
            low, reach, first = start, end, number
        reach = max(reach, end)
        address = array.__array_interface__["data"][0] - low
        owners[number] = first, address // array.itemsize
    return owners


def _made(
    computation: Computation, sizes: Mapping[str, int], inputs: Sequence[NDArray],
    owners: Sequence[Owner | None], updated: Sequence[int], room: int | None,
) -> PackedCall | None:  # fmt: skip
    """The call with packed arguments; `room`: of the device."""
    program = _program(computation)
    known = derive(sizes, program.derived)
    places = {number: name for name, number in computation.replaced.items() if number in updated}
    make = partial(_packed, computation, sizes=sizes, known=known, inputs=inputs, owners=owners,
                   places=places)  # fmt: skip
    flat = flatten(program)
    guards = _guards(flat, places, known)
    if guards:
        found = make(flat, guards=guards)
        # A box has rows of two places: what else it reads is not cut well where all do not fit.
        if found is None or room is None or found.reads_packed_alone or found.bytes(inputs) <= room:
            return found
    return make(program, guards={})


def _guards(
    program: fun.Program, places: Mapping[int, str], sizes: Mapping[str, int]
) -> dict[str, tuple[Guarded, int]]:
    """The kernels that write trapezoids of arguments, and nothing else: by their results."""
    names = Names.of(program)
    found: dict[str, tuple[Guarded, int]] = {}
    for let in program.body.statements:
        guard = guarded(let, sizes, names)
        if guard is None:
            continue
        extents = (guard.space[axis].extent.evaluate(sizes) for axis in (guard.row, guard.column))
        if guard.trapezoid.count < _WORTH * math.prod(extents):
            found |= {var.name: (guard, number) for number, var in enumerate(let.pattern)}
    while found:
        chains = (written(program, n, name, sizes, found) for n, name in places.items())
        used = {
            w.value.name for chain in chains if chain is not None for w in chain[0]
            if w.guard is not None and isinstance(w.value, fun.Var)
        }  # fmt: skip
        unused = {id(guard) for name, (guard, _) in found.items() if name not in used}
        if not unused:
            break
        found = {name: pair for name, pair in found.items() if id(pair[0]) not in unused}
    return found


def _packed(
    computation: Computation, program: fun.Program, sizes: Mapping[str, int],
    known: Mapping[str, int], inputs: Sequence[NDArray], owners: Sequence[Owner | None],
    places: Mapping[int, str], guards: Guards, whole: Set[str] = frozenset(),
) -> PackedCall | None:  # fmt: skip
    """The call with packed arguments; `whole`: those that are not."""
    names = computation.names
    lies = {
        name: Lie(owner[0], owner[1], a.shape, tuple(s // a.itemsize for s in a.strides))
        for name, a, owner in zip(names, inputs, owners, strict=True)
        if owner is not None and name not in whole
    }
    own = set(lies)
    seen, roots = views(program, lies, known)
    roots |= {name: name for name in own}
    taken = read_in_kernels(program, seen)
    if not guards:  # which are of kernels as they are
        taken = without_rules(taken, lies | seen, known)
        known = derive(sizes, taken.derived)
    parts = {n: written(taken, n, name, known, guards) for n, name in places.items()}
    dropped = {name for found in parts.values() if found is not None for name in found[1]}
    values = {
        w.value for found in parts.values() if found is not None for w in found[0]
    }  # fmt: skip
    given = {value.name for value in values if isinstance(value, fun.Var)}
    lies = {name: lie for name, lie in (lies | seen).items() if roots[name] not in given}
    folds = {guard.let.pattern[0].name: guard for guard, _ in guards.values()}
    inside = [
        folds[let.pattern[0].name].inside() if let.pattern[0].name in folds else let
        for let in taken.body.statements
    ]
    made = replace(taken, body=replace(taken.body, statements=tuple(inside)))
    found = sites(made, known, lies, roots, dropped)
    rows = {
        number: packed_rows(folds[site.statement], site, known)
        for number, site in enumerate(found) if site.statement in folds
    }  # fmt: skip
    pieces, instead = _pieces(computation, found, lies, roots, inputs, owners, rows)
    apart = {roots[found[n].array] for piece in pieces for n in piece.group.members}
    if taken is not program and not apart >= own:  # what goes whole is read as it was
        return _packed(
            computation, program, sizes, known, inputs, owners, places, guards,
            whole | own - apart,
        )  # fmt: skip
    unread = any(
        array and not read
        for array, read in zip(computation.is_array, computation.is_read, strict=True)
    )
    if not (pieces or dropped or folds or unread):
        return None
    chains = {number: chain[0] for number, chain in parts.items() if chain is not None}
    results, placed = _placed(made.body.results, chains, known)
    unseen = dropped | {name for name, root in roots.items() if root in apart}
    rewritten = rewrite(
        made, sizes, found, [(p.group, p.dtype) for p in pieces], results, unseen,
        tuple(folds.values()),
    )  # fmt: skip
    packed = _computation(rewritten.program)
    origins = tuple(
        pieces[origin] if isinstance(origin, int) else names.index(origin)
        for origin in rewritten.params
    )
    return PackedCall(packed, rewritten.sizes, origins, tuple(placed), instead)


def _placed(
    atoms: Sequence[fun.Atom], chains: Mapping[int, Sequence[Written]], sizes: Mapping[str, int]
) -> tuple[list[fun.Atom], list[int | Updated]]:
    """The results of the packed program; and each of the whole one, as one of these or updates."""
    results: list[fun.Atom] = []
    placed: list[int | Updated] = []
    for number, atom in enumerate(atoms):
        chain = chains.get(number)
        if chain is None:
            placed.append(len(results))
            results.append(atom)
            continue
        updates: list[int | fun.Const] = []
        for each in chain:
            if isinstance(each.value, fun.Const):
                updates.append(each.value)
            else:
                updates.append(len(results))
                results.append(each.value)
        made = tuple(each.part(sizes) for each in chain)
        placed.append(Updated(made, tuple(updates), tuple(each.guard for each in chain)))
    return results, placed


@lru_cache(maxsize=_KEPT_PROGRAMS)
def _computation(program: fun.Program) -> Computation:
    made = Computation(program)
    made.is_packed = True
    return made


def _program(computation: Computation) -> fun.Program:
    """The program; fused where that tells what kernels read of parameters.

    Where views of these come into the kernels, and indices that are computed may be sizes:
    let i = kernel (k < n) { 0 + k } let d = kernel (k < n) { x[i[k], i[k]] }
        =>  let d = kernel (k < n) { x[k, k] }
    """
    program = computation.program
    params = {param.name for param in program.params}
    is_hidden = any(
        isinstance(let.expr, fun.LAYOUT_CHANGES)
        or (isinstance(let.expr, fun.Kernel) and _looks_up(let.expr, params))
        for let in program.body.statements
    )
    return computation.artifacts.fused if is_hidden else program


def _looks_up(kernel: fun.Kernel, params: Set[str]) -> bool:
    """Whether a kernel reads a parameter at indices that it computes."""
    lets = list(walk.statements(kernel.body))
    inner = {var.name for let in lets for var in let.pattern}
    return any(
        isinstance(let.expr, fun.Index) and let.expr.array.name in params
        and any(inner & index.variables() for index in let.expr.indices)
        for let in lets
    )


def _pieces(
    computation: Computation, found: Sequence[Site], lies: Mapping[str, Lie],
    roots: Mapping[str, str], inputs: Sequence[NDArray], owners: Sequence[Owner | None],
    rows: Mapping[int, PackedRows | None],
) -> tuple[list[Piece], int]:  # fmt: skip
    """The packed arguments, where they are less than the inputs that they stand for.

    `rows`: of sites inside trapezoids what these alone need.
    """
    by_memory: dict[int, list[int]] = {}
    for number, site in enumerate(found):
        by_memory.setdefault(lies[site.array].memory, []).append(number)
    accesses = [site.access for site in found]
    pieces: list[Piece] = []
    instead = 0
    for memory, members in by_memory.items():
        read = {found[number].array for number in members}
        arrays = {computation.names.index(roots[name]) for name in read}
        whole = sum(inputs[number].nbytes for number in arrays)
        inside: dict[PackedRows, list[int]] = {}
        for number in members:
            packed = rows.get(number)
            if packed is not None:
                inside.setdefault(packed, []).append(number)
        others = [number for number in members if rows.get(number) is None]
        alone = [Group(tuple(part), packed) for packed, part in inside.items()]
        made = min(_grouped(accesses, members), alone + _grouped(accesses, others), key=elements)
        if len(made) > _MOST_PIECES:
            continue
        if elements(made) * inputs[memory].itemsize < _WORTH * whole:
            param = computation.program.params[min(arrays)]
            # Whether packed or not: addresses count from where the first of them begins.
            shared = tuple(
                n for n, owner in enumerate(owners) if owner is not None and owner[0] == memory
            )
            pieces += [Piece(group, shared, param.type.dtype) for group in made]
            instead += whole
    return pieces, instead


def _grouped(accesses: Sequence[Access], members: Sequence[int]) -> list[Group]:
    """The groups of some accesses of one memory."""
    own = [accesses[number] for number in members]
    return [
        Group(tuple(members[n] for n in group.members), group.union)
        for component in components(own)
        for group in groups(own, component)
    ]
