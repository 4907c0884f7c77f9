"""Einstein's summation: products and sums by names of axes.

Pairs of operands are contracted in the order that NumPy's `einsum_path` finds; each pair is a
product of matrices where both have axes of their own, else one fused pass.

    einsum("bij,bjk->bik", x, y)  =>  matmul(x, y)
    einsum("ij,ij->i", x, y)      =>  sum(x * y, axis=1)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from weft.array import Array
from weft.errors import ArgumentError, ArgumentTypeError, ShapeError, user_place
from weft.frontend import extent as extents
from weft.frontend import layout, lengths
from weft.frontend.elementwise import apply
from weft.frontend.extent import Extent
from weft.frontend.graph import Node, leading
from weft.frontend.guards import forget_guards
from weft.functions.creation import arange
from weft.functions.linear_algebra import matmul, promoted
from weft.functions.statistical import sum_node

__all__ = ["einsum"]

Labelled: TypeAlias = tuple[str, Node]
"""An operand, and a letter for each of its axes."""


def einsum(subscripts: str, /, *operands: Any) -> Array:
    """The sum over all axes that the result does not name of a product of operands.

    Parameters
    ----------
    subscripts : str
        As NumPy's: "ij,jk->ik"; a letter for each axis, "..." for axes that broadcast. Without
        "->" the result has the letters that occur once, in the order of the alphabet.
    *operands : array_like
        Of numbers; they take a common dtype.

    Raises
    ------
    ArgumentError
        For subscripts that name other than the operands' axes.
    ShapeError
        For axes of one letter that differ in length.
    """
    if not isinstance(subscripts, str):
        raise ArgumentTypeError(
            f"subscripts of type {type(subscripts).__name__}", "a str", place=user_place()
        )
    nodes = promoted(*operands) if operands else ()
    inputs, result = _parsed(subscripts, [len(node.shape) for node in nodes])
    nodes = _agreeing(inputs, nodes)
    labelled = [_without_repeats(*pair) for pair in zip(inputs, nodes, strict=True)]
    for positions in _order(labelled, result):
        taken = [labelled.pop(k) for k in sorted(positions, reverse=True)][::-1]
        kept = set(result).union(*(letters for letters, _ in labelled))
        one = _summed(taken[0], kept.union(*(letters for letters, _ in taken[1:])))
        for number, other in enumerate(taken[1:], 1):
            later = kept.union(*(letters for letters, _ in taken[number + 1 :]))
            one = _pair(one, _summed(other, later | set(one[0])), later)
        labelled.append(_summed(one, kept))
    letters, node = _summed(labelled[0], set(result))
    return Array(layout.permute(node, [letters.index(letter) for letter in result]))


# ---------------------------------------------------------------- subscripts


def _parsed(subscripts: str, ranks: list[int]) -> tuple[list[str], str]:
    """The letters of each operand and of the result; others than ASCII for the axes of "..."."""
    text = subscripts.replace(" ", "")
    given, arrow, named = text.partition("->")
    inputs = given.split(",")
    if len(inputs) != len(ranks):
        _refuse(subscripts, f"{len(inputs)} operands", f"{len(ranks)}, as many as there are")
    spread = max(
        (rank - len(part.replace("...", "")) for part, rank in zip(inputs, ranks, strict=True)
         if "..." in part), default=0,
    )  # fmt: skip
    anonymous = [chr(0x100 + k) for k in range(max(spread, 0))]
    expanded = []
    for part, rank in zip(inputs, ranks, strict=True):
        own = rank - len(part.replace("...", ""))
        if own < 0 or (own and "..." not in part):
            _refuse(subscripts, f"{part!r} for {rank} axes", "a letter for each, or ...")
        expanded.append(part.replace("...", "".join(anonymous[len(anonymous) - own :])))
    everything = "".join(expanded)
    once = [x for x in sorted(set(everything) - set(anonymous)) if everything.count(x) == 1]
    spread_over = "".join(anonymous)
    result = named.replace("...", spread_over) if arrow else spread_over + "".join(once)
    for letter in set(everything + result) - set(anonymous):
        if not (letter.isascii() and letter.isalpha()):
            _refuse(subscripts, repr(letter), "letters, commas, one ->, and ... once an operand")
    for letter in result:
        if letter not in everything or result.count(letter) > 1:
            _refuse(subscripts, f"{letter!r} in the result", "letters of operands, each once")
    if missing := set(anonymous) - set(result):
        _refuse(subscripts, f"{len(missing)} axes of ... that the result lacks", "... in it")
    return expanded, result


def _refuse(subscripts: str, found: str, expected: str) -> None:
    raise ArgumentError(f"einsum of {subscripts!r}: {found}", expected, place=user_place())


def _agreeing(inputs: Sequence[str], nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Operands whose axes of one letter have one length; those of "..." may be 1."""
    known: dict[str, Extent] = {}
    for letters, node in zip(inputs, nodes, strict=True):
        for letter, extent in zip(letters, node.shape, strict=True):
            first = known.setdefault(letter, extent)
            if not letter.isascii():
                continue
            common = lengths.one_length(first, extent)
            if common is None:
                forget_guards()
                raise ShapeError(
                    f"einsum of axes {letter} of lengths {first.value} and {extent.value}",
                    "one length for each letter", place=user_place(),
                )  # fmt: skip
            known[letter] = common
    return tuple(
        leading(node, tuple(
            known[letter] if letter.isascii() else extent
            for letter, extent in zip(letters, node.shape, strict=True)
        ))
        for letters, node in zip(inputs, nodes, strict=True)
    )  # fmt: skip


def _order(labelled: list[Labelled], result: str) -> list[tuple[int, ...]]:
    """Which operands are contracted next, again and again."""
    if len(labelled) <= 2:
        return [tuple(range(len(labelled)))]
    names = {letter: chr(ord("a") + k) if k < 26 else chr(ord("A") + k - 26) for k, letter in
             enumerate(sorted({x for letters, _ in labelled for x in letters}))}  # fmt: skip
    texts = ["".join(names[letter] for letter in letters) for letters, _ in labelled]
    shapes = [tuple(max(e.value, 1) for e in node.shape) for _, node in labelled]
    stand_ins = [np.broadcast_to(np.empty(()), shape) for shape in shapes]
    named = ",".join(texts) + "->" + "".join(names[letter] for letter in result)
    return [tuple(step) for step in np.einsum_path(named, *stand_ins, optimize="greedy")[0][1:]]


# ---------------------------------------------------------------- products and sums


def _without_repeats(letters: str, node: Node) -> Labelled:
    """A diagonal for each letter that an operand has several times."""
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            rest = [k for k in range(len(letters)) if k not in (first, second)]
            steps = arange(node.shape[first])
            node = Array(layout.permute(node, [*rest, first, second]))[..., steps, steps]._node
            letters = "".join(letters[k] for k in rest) + letter
    return letters, node


def _summed(one: Labelled, kept: set[str]) -> Labelled:
    """The sum over axes that nothing else names."""
    letters, node = one
    axes = tuple(k for k, letter in enumerate(letters) if letter not in kept)
    if not axes:
        return one
    return "".join(letter for letter in letters if letter in kept), sum_node(node, axes)


def _pair(one: Labelled, other: Labelled, kept: set[str]) -> Labelled:
    """The product of two operands, summed over what both have and nothing else names."""
    left, right = one[0], other[0]
    both = [letter for letter in left if letter in right and letter in kept]
    within = [letter for letter in left if letter in right and letter not in kept]
    down = [letter for letter in left if letter not in right]
    across = [letter for letter in right if letter not in left]
    if within and down and across:
        x, y = _grouped(one, both, down, within), _grouped(other, both, within, across)
        product = matmul(Array(x), Array(y))._node
        ends = [_shape(one, down), _shape(other, across)]
        product = layout.reshape(product, (*product.shape[: len(both)], *ends[0], *ends[1]))
    else:
        x, y = _arranged(one, [*both, *down, *within]), _arranged(other, [*both, *across, *within])
        for _ in across:
            x = layout.expand(x, len(both) + len(down))
        for _ in down:
            y = layout.expand(y, len(both))
        product = apply("multiply", x, y)
        outer = len(both) + len(down) + len(across)
        if within:
            product = sum_node(product, tuple(range(outer, outer + len(within))))
    return "".join([*both, *down, *across]), product


def _arranged(one: Labelled, order: list[str]) -> Node:
    return layout.permute(one[1], [one[0].index(letter) for letter in order])


def _shape(one: Labelled, letters: list[str]) -> tuple[Extent, ...]:
    return tuple(one[1].shape[one[0].index(letter)] for letter in letters)


def _grouped(one: Labelled, batch: list[str], rows: list[str], columns: list[str]) -> Node:
    """Matrices: axes of rows are one, and so are axes of columns."""
    sides = [extents.product(_shape(one, letters)) for letters in (rows, columns)]
    return layout.reshape(
        _arranged(one, [*batch, *rows, *columns]), (*_shape(one, batch), *sides)
    )
