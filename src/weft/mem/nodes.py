"""FUNMEM: FUN in which every array lives in a memory block under an index function.

The nodes are FUN's. Two things are added:

    type    = ... | MemArray      -- an array type that names its block and index function
    program = FUN program, blocks -- the temporary blocks, all allocated before it starts

The annotation has no meaning of its own: erasing it (`weft.mem.erase`) gives the FUN
program back. Parameters live in blocks of their own name, which the caller gives; so do
the results, in blocks "result_0", "result_1", ..., or in that of a parameter that is donated
to them. A statement that creates an array
(kernel, scan, concat, copy, ...) writes it to the block and index function of its pattern;
a layout change only gives its pattern another index function on the same block; an update
or scatter whose pattern names its argument's block happens in place.

Two variables may occur in index functions beside those of FUN: "threads", how many threads
run at once, and inside of kernels "thread", which of them runs the iteration (see
`weft.mem.expand`).
"""

from __future__ import annotations

from dataclasses import field

from weft.errors import Place
from weft.fun import nodes as fun
from weft.lmad import Lmad
from weft.records import dataclass
from weft.sizes import Size

THREADS = "threads"
"""The size variable that holds the number of threads of the pool."""

THREAD = "thread"
"""Inside of kernels, the number of the thread that runs: 0 <= thread < threads."""


@dataclass(frozen=True, slots=True)
class MemArray(fun.Array):
    """An array in memory: element i is at `index.apply(i)` elements into `block`."""

    block: str
    index: Lmad


@dataclass(frozen=True, slots=True)
class Block:
    """Temporary memory of `bytes` bytes (a polynomial of size variables).

    `per_thread`: one such block for each thread of the pool, of which code inside a kernel
    sees its own; what an array inside a kernel body needs.
    """

    name: str
    bytes: Size
    per_thread: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """Memory that is one of some blocks: `blocks[turn]`.

    Its name stands for a block in the types of arrays. `turn` is a polynomial of int64
    scalars, which are in scope wherever an array is bound in it.
    """

    name: str
    turn: Size
    blocks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Remark:
    """A copy or an allocation that remains, and why.

    Attributes
    ----------
    what : str
        "copy of a into result_0", "block mem_b of 8*n bytes".
    condition : str
        Of short-circuiting, the one that failed: "creation", "layout", "scope", "overlap".
    found : str
        In words, what it failed on.
    place : Place or None
        In the user's code.
    """

    what: str
    condition: str
    found: str
    place: Place | None = None

    def __str__(self) -> str:
        where = f" at {self.place}" if self.place else ""
        return f"{self.what}{where}: {self.condition}: {self.found}"


@dataclass(frozen=True, slots=True)
class Program:
    """A FUNMEM program: a FUN program whose array variables have `MemArray` types.

    Attributes
    ----------
    program : fun.Program
        With `MemArray` types everywhere, also on parameters and on results.
    blocks : tuple of Block
        Temporary memory, in order of introduction. `place_blocks` gives each an offset.
    destinations : tuple of fun.Type
        For each result its memory: a `MemArray` in block "result_k" of the shape of the
        result (for a scalar result: the scalar, stored there as one element), or the memory
        of a parameter, which is then *donated*: the program may overwrite it.
    strides : tuple of str
        Size variables "<param>.stride<d>" that the layouts of parameters brought in.
    remarks : tuple of Remark
        What short-circuiting left, and why.
    conditions : tuple of (Lmad, Lmad)
        Sets of elements, over sizes, that must have none in common: where the sizes of a
        call say otherwise, the program must not be run, but another version of it.
    choices : tuple of Choice
        Memory that is now one block, now another (`weft.mem.choose_buffers`).
    """

    program: fun.Program
    blocks: tuple[Block, ...]
    destinations: tuple[fun.Type, ...]
    strides: tuple[str, ...] = ()
    remarks: tuple[Remark, ...] = field(default=(), compare=False)
    conditions: tuple[tuple[Lmad, Lmad], ...] = ()
    choices: tuple[Choice, ...] = ()

    @property
    def donated(self) -> dict[str, int]:
        """Parameters whose memory holds a result, and the number of that."""
        names = {param.name for param in self.program.params}
        return {
            type_.block: number
            for number, type_ in enumerate(self.destinations)
            if isinstance(type_, MemArray) and type_.block in names
        }

    @property
    def alternatives(self) -> dict[str, tuple[str, ...]]:
        """For each choice the blocks that it may be."""
        return {choice.name: choice.blocks for choice in self.choices}
