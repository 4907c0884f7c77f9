"""Linear memory access descriptors: offset + {(extent : stride), ...}."""

from __future__ import annotations

from dataclasses import dataclass

from weft.sizes import ZERO, Poly, Size, as_poly


@dataclass(frozen=True, slots=True)
class Lmad:
    """The index function i -> offset + sum of i_d * stride_d, in elements."""

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

    @property
    def shape(self) -> tuple[Size, ...]:
        return tuple(extent for extent, _ in self.dims)

    @property
    def strides(self) -> tuple[Size, ...]:
        return tuple(stride for _, stride in self.dims)

    def apply(self, indices: tuple[Size, ...]) -> Size:
        """The element offset of an index."""
        total = self.offset
        for index, (_, stride) in zip(indices, self.dims, strict=True):
            total = total + index * stride
        return total

    def __str__(self) -> str:
        dims = ", ".join(f"({extent} : {stride})" for extent, stride in self.dims)
        return f"{self.offset} + {{{dims}}}"
