"""What a case costs in memory: its compiled segments on the heap evaluator, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

import weft as wf
from weft import execute
from weft.compiler import with_memory
from weft.launch.host import host_step
from weft.mem.costs import Costs
from weft.mem.interpret import traced
from weft.plan.decisions import decide
from weft.plan.seams import CompiledPiece, cut_at_calls
from weft.runtime.incore import derive


def costs_of(results: Sequence[wf.Array], optimise: str = "") -> Costs:
    """The costs of computing lazy arrays with one thread, memory passes left out as named."""
    computation, walk = execute.computation_of([array._node for array in results])
    sizes = {**walk.values, "threads": 1}
    decided = decide(computation.artifacts.choices, sizes, optimise)
    contiguous = frozenset(param.name for param in computation.program.params)
    program = computation.artifacts.finished(decided, contiguous)
    values: dict[str, Any] = {
        param.name: np.asarray(leaf.value, param.type.dtype.numpy)
        for param, leaf in zip(program.params, walk.leaves, strict=True)
    }
    total = Costs()
    for piece in cut_at_calls(program):
        if isinstance(piece, CompiledPiece):
            made = with_memory(piece.program, {}, optimise)
            given = [values[param.name] for param in piece.program.params]
            found, cost = traced(made, given, sizes)
            values.update(zip(piece.results, found, strict=True))
            total = plus(total, cost)
        else:
            step = host_step(piece.let)
            known = derive(sizes, program.derived)
            found = step.bind(known)([values[name] for name in step.params], None)
            values.update(zip(step.results, found, strict=True))
    return total


def plus(left: Costs, right: Costs) -> Costs:
    """The costs of two runs."""
    names = [field.name for field in fields(Costs)]
    return Costs(*(getattr(left, name) + getattr(right, name) for name in names))


def table(costs: dict[str, Costs]) -> str:
    """Costs side by side, as text."""
    names = [field.name for field in fields(Costs)]
    lines = [" " * 16 + "".join(f"{title:>20}" for title in costs)]
    for name in names:
        row = "".join(f"{getattr(cost, name):>20,}" for cost in costs.values())
        lines.append(f"{name:16}{row}")
    return "\n".join(lines) + "\n"
