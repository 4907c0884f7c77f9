"""A program at each stage of compilation, as text: what `f.lower(*args)` gives."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from weft.config import settings
from weft.errors import ArgumentError, user_place

if TYPE_CHECKING:
    from weft.fun.nodes import Program
    from weft.plan.segment import Dialect


class Lowered:
    """The stages of a program; each is made when it is asked for.

    Parameters
    ----------
    program : Program
        As it was traced.
    """

    def __init__(self, program: Program) -> None:
        self.program = program

    @cached_property
    def _optimised(self) -> Program:
        from weft.compiler import finish
        from weft.passes.pipeline import optimise
        from weft.plan.decisions import Choices, decide
        from weft.runtime.threads import threads

        fused = optimise(self.program)
        contiguous = frozenset(param.name for param in self.program.params)
        given = Choices(fused.derived, (), ())  # nothing is left to sizes
        decided = decide(given, {"threads": threads()}, settings().optimise)
        return finish(fused, given, decided, contiguous)

    @property
    def traced(self) -> str:
        """FUN as it was traced, before any pass."""
        from weft.fun.show import show

        return show(self.program)

    @property
    def fun(self) -> str:
        """FUN after the passes."""
        from weft.fun.show import show

        return show(self._optimised)

    def _pieces(self) -> list[Program]:
        from weft.plan.seams import CompiledPiece, cut_at_calls

        pieces = cut_at_calls(self._optimised)
        return [piece.program for piece in pieces if isinstance(piece, CompiledPiece)]

    @property
    def funmem(self) -> str:
        """FUNMEM: each compiled segment with its memory."""
        from weft.compiler import with_memory
        from weft.mem.show import show

        optimise = settings().optimise
        return "\n".join(show(with_memory(piece, {}, optimise)) for piece in self._pieces())

    @property
    def imp(self) -> str:
        """IMP: each compiled segment as loops."""
        from weft.compiler import ENTRY, with_memory
        from weft.imp.show import show
        from weft.lower.segment import lower_program

        optimise = settings().optimise
        programs = [
            lower_program(with_memory(piece, {}, optimise), ENTRY)[0] for piece in self._pieces()
        ]
        return "\n".join(map(show, programs))

    def source(self, dialect: Dialect = "c") -> str:
        """The text of each compiled segment, in C, OpenCL C or CUDA C++.

        What a dialect has no form for (complex numbers in OpenCL) is in C.

        Raises
        ------
        ArgumentError
            For a dialect that is not there.
        """
        from weft.compiler import compile_segment

        if dialect not in ("c", "opencl", "cuda"):
            expected = '"c", "opencl" or "cuda"'
            raise ArgumentError(f"dialect {dialect!r}", expected, place=user_place())
        optimise = settings().optimise
        segments = [compile_segment(p, {}, optimise, dialect) for p in self._pieces()]
        return "\n".join(segment.source for segment in segments)

    def __repr__(self) -> str:
        return f"<lowered {self.program.name}: .fun, .funmem, .imp, .source('c')>"
