"""FUNMEM as text: FUN's, each array type followed by `@ block + index function`.

type    = ... | dtype "[" polys "]" "@" block lmad
lmad    = "[" poly {";" "(" poly ":" poly ")"} "]"     -- offset; (extent : stride)
header  = ... | "block" name poly ["per thread"] | "choice" name poly "of" names | "result" type
"""

from __future__ import annotations

from weft.fun import nodes as fun
from weft.fun.show import INDENT, Printer
from weft.lmad import Lmad
from weft.mem.nodes import MemArray, Program


def show(program: Program, places: bool = False) -> str:
    """The text of a FUNMEM program; `places` as in `weft.fun.show.show`."""
    printer = _Printer(places)
    text = printer.program(program.program)
    head, brace, body = text.partition("\n{")
    lines = [head]
    if program.strides:
        lines.append(f"{INDENT}strides {', '.join(program.strides)}")
    for block in program.blocks:
        kind = " per thread" if block.per_thread else ""
        lines.append(f"{INDENT}block {block.name} {block.bytes}{kind}")
    for choice in program.choices:
        lines.append(f"{INDENT}choice {choice.name} {choice.turn} of {', '.join(choice.blocks)}")
    lines += [f"{INDENT}result {printer.type(type_)}" for type_ in program.destinations]
    return "\n".join(lines) + brace + body


def _lmad(index: Lmad) -> str:
    dims = "".join(f"; ({extent} : {stride})" for extent, stride in index.dims)
    return f"[{index.offset}{dims}]"


class _Printer(Printer):
    def type(self, type_: fun.Type) -> str:
        text = super().type(type_)
        if isinstance(type_, MemArray):
            text += f" @ {type_.block}{_lmad(type_.index)}"
        return text
