"""The passes, in order, each with why it stands where it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.passes.fuse import fuse
from weft.passes.remove_dead import remove_dead
from weft.passes.share import share
from weft.passes.simplify import simplify

Pass: TypeAlias = Callable[[fun.Program], fun.Program]


@dataclass(frozen=True, slots=True)
class Decisions:
    """What the passes are told of the arrays and sizes that a program will run on."""


def passes(decisions: Decisions) -> list[tuple[Pass, str]]:
    """The pipeline for these decisions: each pass, and why it stands there."""
    return [
        (simplify, "first, so that reads go straight to what they read, through views"),
        (share, "before fusion, which must not see one producer as two"),
        (remove_dead, "before fusion counts the uses of a producer"),
        (fuse, "once every statement is in its simplest form"),
    ]


def optimise(program: fun.Program, decisions: Decisions | None = None) -> fun.Program:
    """The program after all passes."""
    for pass_, _ in passes(decisions or Decisions()):
        program = pass_(program)
    return program
