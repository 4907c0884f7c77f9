"""Several sources of one shape as one array with a new first axis."""

from __future__ import annotations

from collections.abc import Sequence

from weft.errors import DTypeError, ShapeError
from weft.io.files import Array, window
from weft.io.held import held
from weft.plan.protocols import Box, DecodingSource, Source


class StackSource:
    """Element [i, ...] is element [...] of the i-th source."""

    def __init__(self, sources: Sequence[Source]) -> None:
        first = sources[0]
        for source in sources[1:]:
            if source.shape != first.shape:
                raise ShapeError(
                    f"{source.describe()} has shape {source.shape}",
                    f"{first.shape}, that of {first.describe()}",
                )
            if source.dtype != first.dtype:
                raise DTypeError(
                    f"{source.describe()} holds {source.dtype}",
                    f"{first.dtype}, as {first.describe()}",
                )
        self._sources = tuple(sources)
        self.held = tuple(part for source in sources for part in held(source))
        self.shape = (len(sources), *first.shape)
        self.dtype = first.dtype
        self.chunks = None if first.chunks is None else (1, *first.chunks)
        self.decoding = max(
            source.decoding if isinstance(source, DecodingSource) else 0 for source in sources
        )

    def direct(self) -> Array | None:
        return None

    def check(self) -> None:
        for source in self._sources:
            source.check()

    def read(self, box: Box, out: Array) -> None:
        for position, index in enumerate(range(box[0].start, box[0].stop)):
            self._sources[index].read(box[1:], window(out, (position,)))

    def describe(self) -> str:
        names = [source.describe() for source in (self._sources[0], self._sources[-1])]
        return names[0] if len(self._sources) == 1 else f"{names[0]} ... {names[1]}"

    def __repr__(self) -> str:
        return f"StackSource({self.describe()!r}, {self.shape}, {self.dtype})"
