"""Inputs that are copied to scratch files first, which boxes read where they lie.

A cube whose chunks are its layers, and whose mean over all layers is asked for, is read by columns:
each box decodes all chunks that its columns meet, and where few columns fit, each chunk is decoded
for many boxes. A stage of its own then decodes each chunk once. And boxes whose windows are too
large for memory may fit where these are no buffers.

    let s = reduce[add] (j < m; i < n) { x[i, j] }
 => let y = copy x; let s = reduce[add] (j < m; i < n) { y[i, j] }, where y ends a stage
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.plan.block_rounds import Blocked
from weft.plan.nodes import Input, PlannedStage
from weft.plan.protocols import decoded_chunks, is_source

_OFTEN = 3
"""Times that a stage decodes an input, from which on a scratch file, written and read, is less."""


def without_address(inputs: Mapping[str, Input]) -> list[str]:
    """The inputs of which boxes have buffers."""
    return [name for name, x in inputs.items() if is_source(x) and x.direct() is None]


def decoded_often(stages: Sequence[PlannedStage], inputs: Mapping[str, Input]) -> list[str]:
    """The inputs that some stage decodes many times."""
    sizes = {
        name: math.prod(x.shape) * x.dtype.itemsize
        for name, x in inputs.items() if is_source(x) and decoded_chunks(x) is not None
    }  # fmt: skip
    return [
        name for name, size in sizes.items()
        if any(stage.read.get(name, 0) > _OFTEN * size for stage in stages)
    ]  # fmt: skip


def read_once(program: fun.Program, sizes: Mapping[str, int], wanted: Collection[str]) -> Blocked:
    """The program with the parameters that are wanted copied first."""
    names, ends = Names.of(program), dict[str, str]()
    copies: dict[str, fun.Atom] = {}
    lets: list[fun.Let] = []
    for param in program.params:
        if param.name in wanted:
            copy = fun.Var(names.fresh(f"{param.name}_copy"), param.type)
            copies[param.name] = copy
            ends[copy.name] = "read once, to a scratch file"
            lets.append(fun.Let((copy,), fun.Copy(param)))
    body = walk.Substitution(copies).body(program.body)
    body = replace(body, statements=(*lets, *body.statements))
    return Blocked(replace(program, body=body), dict(sizes), ends)
