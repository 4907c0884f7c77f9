"""Contractions on a device: tiles of both sides in a group's memory, and of sums in registers.

A group of items computes a tile of rows and columns. For each 8 or 16 reduced indices, what
the rows give (the left side) and what the columns give (the right side) is computed once, into
memory that the group shares (`weft.lower.gpu.slices`); then each item, for each of these indices,
combines its rows with its columns into sums of its own.

    for start below extent step 16 {
      left[k, r] = a[row + r, start + k]; right[k, c] = b[start + k, column + c]; barrier
      for k, r < 8, c < 8 { sum[r, c] = fma(left[k, ..], right[k, ..], sum[r, c]) }
    }

An element is folded from left to right in blocks of `contractions.BLOCK`, which are combined in
order, as on the CPU (`weft.lower.register_tiles`), so that its bits depend on the reduced extent
alone, and not on which of these forms a launch chooses:

- large tiles, 128 x 128 by 256 items or 64 x 128 by 128, mostly of 8 x 8 for each
  (`product_shapes.LARGE`), where there are as many as keep a device busy;
- tiles of 64 x 64, 4 x 4 for each of 256 items, where there are as many of them;
- tiles of 16 x 16 where there are fewer; where even of them there are few, and blocks are several,
  each block by a group of its own, whose folds go to the workspace;
- one item for each element, in what the launch does not know the size of, or where a read may fail:
  as the launch finds it, where sizes alone say so.

Of these items (`product_tiles`) two groups have their registers at once on a GPU's multiprocessor,
or four of smaller tiles of 32 bits, so that one computes while others wait; sums of blocks, which
are used once in 256 reduced indices, lie in memory. Slices that are whole in full tiles, as most
are, have a loop that asks nothing. The tiles are those of V. Volkov and J. Demmel, "Benchmarking
GPUs to Tune Dense Linear Algebra", SC 2008, section 5.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from weft.fun import nodes as fun
from weft.fun.contractions import BLOCK, Contraction, contraction
from weft.imp import nodes as imp
from weft.imp.walk import may_leave
from weft.lower import register_tiles, spaces
from weft.lower.emitter import Emitter
from weft.lower.gpu import versions
from weft.lower.gpu.elements import lower_element
from weft.lower.gpu.host import Host
from weft.lower.gpu.lane_tiles import by_lane_tiles
from weft.lower.gpu.product_shapes import shapes
from weft.lower.gpu.product_tiles import Parts, Tiles
from weft.lower.gpu.slices import vectors_of
from weft.lower.gpu.vectors import BYTES, aligned
from weft.lower.panels import in_sequence
from weft.lower.unit import memory
from weft.sizes import ONE, ZERO, Size, product

_BUSY = 1 << 15  # items that keep a device busy
_SHARED_BYTES = 40  # of all values of a row and a column, at most: 48 KiB are shared on any GPU


def suits(host: Host, kernel: fun.Kernel) -> bool:
    """Whether a kernel of the program's own statements is lowered here."""
    return register_tiles.suits(host.e, kernel)


def lower(host: Host, let: fun.Let) -> None:
    """A kernel that `suits`, in every form that a launch may choose."""
    kernel = let.expr
    assert isinstance(kernel, fun.Kernel)
    found = contraction(kernel)
    assert found is not None
    extents = [r.extent for r in kernel.space]
    host.know(*extents, found.reduce.space[0].extent)
    values = (*found.left.values, *found.right.values)
    small = sum(value.type.dtype.itemsize for value in values) <= _SHARED_BYTES
    known = all(host.is_sized(size) for size in (*extents, found.reduce.space[0].extent))

    def by_elements(whether: Size = ONE) -> None:
        each = partial(lower_element, let=let, kernel=kernel, found=found)
        host.launch(let, "product", kernel.space, each, whether)

    def in_groups(gpu: Size = ONE) -> None:
        rest = ONE - _in_tiles(host, let, kernel, found, gpu) if small and known else ONE
        if rest != ZERO:
            by_elements(rest)

    if host.dialect == "opencl" and known:
        with host.inside() as on_processor:
            few = by_lane_tiles(host, let, kernel, found)
            if few is not None:
                by_elements(few)
        if few is not None:
            with host.inside() as otherwise:
                in_groups(1 - host.is_processor)
            host.by_device(on_processor, otherwise)
            return
    in_groups()


def _in_tiles(
    host: Host, let: fun.Let, kernel: fun.Kernel, found: Contraction, gpu: Size
) -> Size:
    """Launch tiles; not where an item could fail, which the others would wait for.

    Parameters
    ----------
    gpu : Size
        1 where the device may be one, else 0; then nothing takes memory.

    Returns
    -------
    Size
        1 where tiles are launched, as the launch finds it by sizes, else 0.
    """
    whole = _aligned(host, kernel, found) if host.dialect == "cuda" else ZERO
    *coarse, fine = (
        Tiles(host, let, kernel, found, shape, by_vectors)
        for shape in shapes(found)
        for by_vectors in ((whole, ZERO) if shape.resident and whole != ZERO else (ZERO,))
    )
    forms: list[tuple[Tiles, tuple[Emitter, imp.Var], Size, str]] = []
    with host.unit.foreseeing() as facts:
        lowered = [(tiles, tiles.suit(), tiles.lower()) for tiles in coarse]
        if any(may_leave(k.levels[0]) for _, _, (k, _) in lowered):
            return ZERO
        inside = rest = _hold(host, facts)  # 1 where no form so far is launched
        for tiles, suits, code in lowered:
            how = f"tiles of {tiles.shape}" + (", by vectors" if tiles.by_vectors else "")
            forms.append((tiles, code, rest * suits * tiles.tiles, how))
            rest -= rest * suits
        reduced = found.reduce.space[0].extent
        blocks = versions.ceil(host, reduced, BLOCK)
        several = 1 - versions.below(host, reduced, 2 * BLOCK + 1)
        few = rest * versions.below(host, fine.tiles * fine.shape.group, _BUSY) * several
        parts = versions.maximum(host, few * blocks, ONE)
        bytes_ = fine.shape.group * fine.dtype.itemsize
        folds = host.unit.region(gpu * few * fine.tiles * blocks * bytes_)
        how = f"tiles of {fine.shape}, of {BLOCK} reduced where they are few"
        of_parts = fine.lower(Parts(folds, few, parts))
        forms.append((fine, of_parts, rest * fine.tiles * parts, how))
        forms.append((fine, fine.combine(folds, blocks), few * fine.tiles, ""))
    for tiles, (k, item), groups, how in forms:
        if groups != ZERO:
            if how:
                label = spaces.describe("product", kernel.space, let.pattern)
                host.unit.kernels.append(f"{label}, in {how}")
            group = tiles.shape.group
            host.add(k, "product", item, groups * group, group, tiles.shape.resident)
    return inside


def _hold(host: Host, facts: Iterable[Size]) -> Size:
    """1 where the launch finds that all of some sizes are >= 0, else 0."""
    every = product(1 - versions.is_negative(host, fact) for fact in facts)
    return versions.minimum(host, every, ONE)  # under one name: others multiply it


def _aligned(host: Host, kernel: fun.Kernel, found: Contraction) -> Size:
    """1 where both sides lie so that items may fetch vectors, as the launch finds it, else 0."""
    (reduced,), result = found.reduce.space, ONE
    for side, range_ in ((found.left, found.row), (found.right, found.column)):
        read = vectors_of(side, range_, reduced)
        if read is None:
            return ZERO
        array = memory(read.array)
        space = (*kernel.space, reduced)
        along = range_ if in_sequence(side, range_) else reduced
        outer = [r for r in space if r is not along]
        lanes = BYTES // array.dtype.itemsize
        address = array.index.apply(read.indices)
        result *= aligned(host, lanes, [array], [address], space, outer)
    return result
