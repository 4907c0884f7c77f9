"""What operations ask of data, of which only the run knows whether it holds: assertions of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.array import Array, node_of
from weft.errors import ArgumentError, LinearAlgebraError, Place, ShapeError
from weft.frontend import given_lengths, lengths
from weft.functions import elimination
from weft.kernel.frame import Frame


@contextmanager
def asked(frame: Frame, node: ast.AST, name: str = "") -> Iterator[None]:
    """What a function of a name, or an operator, asks becomes assertions of the run."""
    known, in_any_case = frame.trace.measured.known, not frame.memory.regions
    with (
        lengths.asking() as of_lengths, elimination.whether_regular() as regular,
        given_lengths.measuring(known, in_any_case),
    ):  # fmt: skip
        yield
    if not of_lengths and not regular:
        return
    wanted: list[tuple[Array, Exception]] = [
        *(_of_length(one, frame.place(node)) for one in of_lengths),
        *((held, LinearAlgebraError(f"{name}: {otherwise}")) for held, otherwise in regular),
    ]
    for held, error in wanted:
        frame.trace.assertions.note(frame.memory, held, error, frame.place(node))


def _of_length(wanted: lengths.Asked, place: Place) -> tuple[Array, Exception]:
    if isinstance(wanted, lengths.NotEmpty):
        return Array(node_of(wanted.extent)) > 0, ValueError(wanted.numpys)
    if isinstance(wanted, lengths.NotNegative):
        return Array(node_of(wanted.extent)) >= 0, ArgumentError(
            "a length that only the run knows, and that is less than 0 in some round", "0 or more",
            "max(length, 0), or an argument that is an int (n: wf.i64)", place=place,
        )  # fmt: skip
    held: Any = Array(node_of(wanted.left)) == Array(node_of(wanted.right))
    return held, ShapeError(
        "lengths that only the run knows, and that are not equal in some round",
        "one length", "slices of one length (one of a single element is not repeated here)",
        place=place,
    )  # fmt: skip
