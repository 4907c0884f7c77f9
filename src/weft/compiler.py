"""From FUN to segments: the pipeline, its versions for a launch, and their cache.

    FUN --passes--> FUN --introduce, reuse_blocks--> FUNMEM --lower--> IMP --print--> C
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.fun import nodes as fun
from weft.lower.segment import compile_segment as lower_segment
from weft.mem import nodes as mem
from weft.mem.introduce import introduce
from weft.mem.reuse_blocks import reuse_blocks
from weft.passes.pipeline import Decisions, optimise
from weft.plan.seams import CallPiece, CompiledPiece, Piece, ViewPiece, cut_at_calls
from weft.plan.segment import Layout, Segment

ENTRY = "weft_entry"


def with_memory(program: fun.Program, layouts: Mapping[str, Layout]) -> mem.Program:
    """The FUNMEM form of an optimised program whose array parameters lie as `layouts` says."""
    return reuse_blocks(introduce(program, layouts))


def compile_segment(program: fun.Program, layouts: Mapping[str, Layout]) -> Segment:
    """An optimised program without library calls, as one segment of C.

    Parameters
    ----------
    program : fun.Program
    layouts : mapping of str to Layout
        How each array parameter lies in memory; row-major where it is not named.
    """
    return lower_segment(with_memory(program, layouts), ENTRY)


@dataclass(frozen=True, slots=True)
class Version:
    """A program optimised under certain decisions, cut at its library calls."""

    program: fun.Program
    pieces: tuple[Piece, ...]


class Compiled:
    """A traced program, and the versions of it that launches have asked for."""

    def __init__(self, program: fun.Program) -> None:
        self.source = program
        self._versions: dict[Decisions, Version] = {}

    def decide(self, values: Mapping[str, int]) -> Decisions:
        """What the passes should do for these sizes."""
        return Decisions()

    def version(self, decisions: Decisions) -> Version:
        """The program optimised under `decisions` (made once)."""
        found = self._versions.get(decisions)
        if found is None:
            program = optimise(self.source, decisions)
            found = self._versions[decisions] = Version(program, cut_at_calls(program))
        return found


__all__ = [
    "CallPiece", "Compiled", "CompiledPiece", "Decisions", "Piece", "Version", "ViewPiece",
    "compile_segment", "with_memory",
]  # fmt: skip
