"""What a call in core does, for `explain`: no boxes, and results in place where they can be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.plan.nodes import Value, duration_text, size_text
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class AtOnce:
    """A call that runs in core, one step after another.

    Attributes
    ----------
    inputs : tuple of Value
        The arrays that it reads.
    results : tuple of (Value, str)
        What it gives, and where that goes.
    peak_bytes : int
        What it allocates at most.
    seconds : float
        How long it takes, predicted.
    """

    name: str
    threads: int
    inputs: Sequence[Value]
    results: Sequence[tuple[Value, str]]
    kernels: tuple[str, ...]
    remarks: tuple[str, ...]
    peak_bytes: int
    limit: int
    seconds: float = 0.0

    @property
    def bytes_read(self) -> int:
        return sum(value.bytes for value in self.inputs)

    @property
    def bytes_written(self) -> int:
        return sum(value.bytes for value, _ in self.results)

    @property
    def bytes_moved(self) -> int:
        """Bytes read from inputs and written to results."""
        return self.bytes_read + self.bytes_written

    @property
    def passes(self) -> dict[str, float]:
        return {value.name: 1.0 for value in self.inputs}

    def lines(self) -> Iterator[tuple[int, str]]:
        """The explanation, line by line, each with its depth."""
        yield 0, f"{self.name}: in core, at once, {self.threads} threads"
        peak, limit = size_text(self.peak_bytes), size_text(self.limit)
        yield 1, f"allocates at most {peak} of a limit of {limit}"
        yield 1, (
            f"moves {size_text(self.bytes_moved)}: reads {size_text(self.bytes_read)}, "
            f"writes {size_text(self.bytes_written)}"
        )
        yield 1, f"takes roughly {duration_text(self.seconds)}"
        yield 1, "inputs"
        for value in self.inputs:
            yield 2, f"{value}, memory; read where it lies"
        yield 1, "steps"
        for kernel in self.kernels:
            yield 2, kernel
        for remark in self.remarks:
            yield 2, remark
        yield 1, "results"
        for value, place in self.results:
            yield 2, f"{value} {place}"
