"""Reading FUNMEM from its text (the grammar is in `weft.mem.show`)."""

from __future__ import annotations

from weft.fun import nodes as fun
from weft.fun.parse import Parser
from weft.lmad import Lmad
from weft.mem.nodes import Block, Choice, MemArray, Program
from weft.sizes import Size


def parse(text: str) -> Program:
    """The program that `weft.mem.show.show` printed.

    Raises
    ------
    ArgumentError
        When the text does not follow the grammar; it names line and column.
    """
    parser = _Parser(text)
    program = parser.program()
    return Program(
        program, tuple(parser.blocks), tuple(parser.results), parser.strides,
        choices=tuple(parser.choices),
    )  # fmt: skip


class _Parser(Parser):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.blocks: list[Block] = []
        self.choices: list[Choice] = []
        self.results: list[fun.Type] = []
        self.strides: tuple[str, ...] = ()

    def header(self) -> bool:
        if self.take("strides"):
            self.strides = self.many(self.name)
        elif self.take("block"):
            name, size = self.name(), self.poly()
            per_thread = self.take("per")
            if per_thread:
                self.expect("thread")
            self.blocks.append(Block(name, size, per_thread))
        elif self.take("choice"):
            name, turn = self.name(), self.poly()
            self.expect("of")
            self.choices.append(Choice(name, turn, self.many(self.name)))
        elif self.take("result"):
            self.results.append(self.type())
        else:
            return False
        return True

    def type(self) -> fun.Type:
        type_ = super().type()
        if isinstance(type_, fun.Scalar) or not self.take("@"):
            return type_
        block = self.name()
        self.expect("[")
        offset, dims = self.poly(), []
        while self.take(";"):
            dims.append(self.pair())
        self.expect("]")
        return MemArray(type_.dtype, type_.shape, block, Lmad(offset, tuple(dims)))

    def pair(self) -> tuple[Size, Size]:
        self.expect("(")
        extent = self.poly()
        self.expect(":")
        stride = self.poly()
        self.expect(")")
        return extent, stride
