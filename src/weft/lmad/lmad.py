"""Linear memory access descriptors: offset + {(extent : stride), ...}."""

from __future__ import annotations

from weft.records import dataclass
from weft.sizes import ONE, ZERO, Poly, Size, as_poly, product


@dataclass(frozen=True, slots=True)
class Lmad:
    """The index function i -> offset + sum of i_d * stride_d, in elements.

    The algebra is that of figure 3.6 and section 3.4.1 of P. Munksgaard, *Static and Dynamic
    Analyses for Efficient GPU Execution* (2023).
    """

    offset: Size
    dims: tuple[tuple[Size, Size], ...]  # (extent, stride)

    @staticmethod
    def row_major(shape: tuple[Size, ...], offset: Size = ZERO) -> Lmad:
        dims: list[tuple[Size, Size]] = []
        stride: Poly = as_poly(1)
        for extent in reversed(shape):
            dims.append((extent, stride))
            stride = stride * extent
        return Lmad(offset, tuple(reversed(dims)))

    @staticmethod
    def column_major(shape: tuple[Size, ...], offset: Size = ZERO) -> Lmad:
        """The first index moves by 1."""
        return Lmad(offset, tuple(reversed(Lmad.row_major(shape[::-1]).dims)))

    @property
    def shape(self) -> tuple[Size, ...]:
        return tuple(extent for extent, _ in self.dims)

    @property
    def strides(self) -> tuple[Size, ...]:
        return tuple(stride for _, stride in self.dims)

    @property
    def is_dense(self) -> bool:
        """Whether elements lie one after another, in row-major order, from the offset on."""
        return self.dims == Lmad.row_major(self.shape).dims

    def apply(self, indices: tuple[Size, ...]) -> Size:
        """The element offset of an index."""
        total = self.offset
        for index, (_, stride) in zip(indices, self.dims, strict=True):
            total = total + index * stride
        return total

    # ------------------------------------------------------------ layout changes

    def fix(self, indices: tuple[Size, ...]) -> Lmad:
        """What is left when the first dimensions have these indices."""
        offset = self.offset
        for index, (_, stride) in zip(indices, self.dims, strict=False):
            offset = offset + index * stride
        return Lmad(offset, self.dims[len(indices) :])

    def slice(self, triplets: tuple[tuple[Size, Size, Size], ...]) -> Lmad:
        """Of each dimension the indices start, start + step, ...: (start, count, step)."""
        offset, dims = self.offset, []
        for (start, count, step), (_, stride) in zip(triplets, self.dims, strict=True):
            offset = offset + start * stride
            dims.append((count, step * stride))
        return Lmad(offset, tuple(dims))

    def slice_lmads(self, slices: tuple[Lmad, ...]) -> Lmad:
        """Of each dimension the indices of an LMAD, whose dimensions take its place."""
        offset = self.offset
        dims: list[tuple[Size, Size]] = []
        for indices, (_, stride) in zip(slices, self.dims, strict=True):
            offset = offset + indices.offset * stride
            dims += [(extent, step * stride) for extent, step in indices.dims]
        return Lmad(offset, tuple(dims))

    def compose(self, offset: Size, dims: tuple[tuple[Size, Size], ...]) -> Lmad:
        """The elements offset + {dims} of this, which has one dimension."""
        return self.slice_lmads((Lmad(offset, dims),))

    def permute(self, axes: tuple[int, ...]) -> Lmad:
        """Dimension d of the result is this one's axes[d]."""
        return Lmad(self.offset, tuple(self.dims[axis] for axis in axes))

    def unpermute(self, axes: tuple[int, ...]) -> Lmad:
        """The index function whose `permute` by the axes is this one."""
        dims = dict(zip(axes, self.dims, strict=True))
        return Lmad(self.offset, tuple(dims[d] for d in range(len(axes))))

    def broadcast(self, shape: tuple[Size, ...]) -> Lmad:
        """Repeated to a shape, dimensions aligned on the right: strides of 0.

        Dimensions of 1 are repeated; all others have the extent of the shape, if by a fact alone.
        """
        missing = len(shape) - len(self.dims)
        dims = [(extent, ZERO) for extent in shape[:missing]]
        for extent, (old, stride) in zip(shape[missing:], self.dims, strict=True):
            dims.append((extent, ZERO if old == ONE and extent != ONE else stride))
        return Lmad(self.offset, tuple(dims))

    def reshape(self, shape: tuple[Size, ...]) -> Lmad | None:
        """The same elements, in row-major order, in another shape; None where no LMAD is.

        Dimensions that are contiguous with each other are merged, then split anew.
        """
        groups = self._merged()
        if len(groups) <= 1:  # one run of equal steps takes any shape
            step = groups[0][1] if groups else ONE
            return Lmad(self.offset, _split(shape, step))
        dims: list[tuple[Size, Size]] = []
        rest = list(shape)
        for size, step in groups:
            part: list[Size] = []
            while rest and (not part or product(part) != size):
                part.append(rest.pop(0))
            if product(part) != size:
                return None
            dims += _split(tuple(part), step)
        if any(extent != 1 for extent in rest):
            return None
        return Lmad(self.offset, (*dims, *((extent, ONE) for extent in rest)))

    def _merged(self) -> list[tuple[Size, Size]]:
        """The dimensions without units, neighbours that form one run of equal steps merged."""
        merged: list[tuple[Size, Size]] = []
        for extent, stride in self.dims:
            if extent == 1:
                continue
            if merged and merged[-1][1] == extent * stride:
                merged[-1] = (merged[-1][0] * extent, stride)
            else:
                merged.append((extent, stride))
        return merged

    def same(self, other: Lmad) -> bool:
        """Whether both give the same offsets (strides of single elements do not matter)."""
        return self.offset == other.offset and all(
            mine == yours and (left == right or mine == 1)
            for (mine, left), (yours, right) in zip(self.dims, other.dims, strict=True)
        )

    def __str__(self) -> str:
        dims = ", ".join(f"({extent} : {stride})" for extent, stride in self.dims)
        return f"{self.offset} + {{{dims}}}"


def _split(shape: tuple[Size, ...], step: Size) -> tuple[tuple[Size, Size], ...]:
    """A run of equal steps as dimensions of a shape."""
    return tuple((extent, stride * step) for extent, stride in Lmad.row_major(shape).dims)
