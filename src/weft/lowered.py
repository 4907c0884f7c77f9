"""A program at each stage of compilation, as text: what `f.lower(*args)` gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.errors import ArgumentError, user_place

if TYPE_CHECKING:
    from weft.fun import nodes as fun
    from weft.plan.seams import CompiledPiece


class Lowered:
    """The stages of a program; each is made when it is asked for.

    Attributes
    ----------
    program : fun.Program
        As it was traced.
    """

    def __init__(self, program: fun.Program) -> None:
        self.program = program

    @property
    def traced(self) -> str:
        """FUN as it was traced, before any pass."""
        from weft.fun.show import show

        return show(self.program)

    def _pieces(self) -> list[CompiledPiece]:
        from weft.compiler import Compiled
        from weft.passes.pipeline import Decisions
        from weft.plan.seams import CompiledPiece

        version = Compiled(self.program).version(Decisions())
        return [piece for piece in version.pieces if isinstance(piece, CompiledPiece)]

    @property
    def fun(self) -> str:
        """FUN after the passes."""
        from weft.compiler import Compiled
        from weft.fun.show import show
        from weft.passes.pipeline import Decisions

        return show(Compiled(self.program).version(Decisions()).program)

    @property
    def funmem(self) -> str:
        """FUNMEM: each compiled segment with its memory."""
        from weft.compiler import with_memory
        from weft.fun.show import show

        return "\n".join(show(with_memory(p.program, {}).program) for p in self._pieces())

    @property
    def imp(self) -> str:
        """IMP: each compiled segment as loops."""
        from weft.compiler import ENTRY, with_memory
        from weft.imp.show import show
        from weft.lower.unit import lower_unit

        return "\n".join(
            show(lower_unit(with_memory(p.program, {}), ENTRY)) for p in self._pieces()
        )

    def source(self, dialect: str = "c") -> str:
        """The text of each compiled segment.

        Raises
        ------
        ArgumentError
            For a dialect that is not there.
        """
        from weft.compiler import compile_segment

        if dialect != "c":
            raise ArgumentError(f"dialect {dialect!r}", '"c"', place=user_place())
        return "\n".join(compile_segment(piece.program, {}).source for piece in self._pieces())

    def __repr__(self) -> str:
        return f"<lowered {self.program.name}: .fun, .funmem, .imp, .source('c')>"
