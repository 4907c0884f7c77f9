"""Cut a program at its library calls: compiled pieces, calls, and views between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.fun import walk
from weft.ops.dtypes import DType
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class CompiledPiece:
    """Statements that become one segment; its parameters and results go by name."""

    program: fun.Program
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CallPiece:
    """One library call on the host; `over` is the array whose memory its result takes, if any."""

    let: fun.Let
    over: str | None = None


@dataclass(frozen=True, slots=True)
class ViewPiece:
    """A layout change that the caller of a library routine or of the program sees."""

    let: fun.Let


Piece: TypeAlias = CompiledPiece | CallPiece | ViewPiece


def cut_at_calls(program: fun.Program) -> tuple[Piece, ...]:
    """The pieces of a program in an order in which they can run.

    let a = kernel; let b = call(a); let c = kernel(b)  =>  [a], call, [c]

    Layout changes are repeated inside the pieces that use them (they cost nothing there)
    and stand as pieces of their own where a call or a result of the program needs them. So are
    integers that are computed of others: what they are says how large arrays may be.
    """
    defined = {var.name: let for let in program.body.statements for var in let.pattern}
    pieces: list[Piece] = []
    current: list[fun.Let] = []
    groups: list[list[fun.Let] | fun.Let] = []
    pending: set[str] = set()
    for let in program.body.statements:
        if isinstance(let.expr, fun.LAYOUT_CHANGES):
            continue
        if isinstance(let.expr, fun.Call):
            needed = _through_views(walk.used_names(let.expr), defined)
            if needed & pending:
                groups.append(current)
                current, pending = [], set()
            groups.append(let)
        else:
            current.append(let)
            pending.update(var.name for var in let.pattern)
    if current:
        groups.append(current)
    whole = len(groups) == 1 and isinstance(groups[0], list)
    if whole and not _results_are_views(program, defined):
        return (CompiledPiece(program, tuple(_names(program.body.results))),)
    uses_after = _uses_after(program, groups, defined)
    shown: set[str] = set()
    for group, after in zip(groups, uses_after, strict=True):
        if isinstance(group, fun.Let):
            pieces.extend(_views_for(walk.used_names(group.expr), defined, shown))
            pieces.append(CallPiece(group))
        else:
            pieces.append(_compiled(program, group, defined, after))
    pieces.extend(_views_for(frozenset(_names(program.body.results)), defined, shown))
    return tuple(pieces)


def _names(atoms: tuple[fun.Atom, ...]) -> list[str]:
    return [atom.name for atom in atoms if isinstance(atom, fun.Var)]


def _results_are_views(program: fun.Program, defined: dict[str, fun.Let]) -> bool:
    params = {param.name for param in program.params}
    results = program.body.results
    return len(set(_names(results))) != len(results) or any(
        name in params or isinstance(defined[name].expr, fun.LAYOUT_CHANGES)
        for name in _names(results)
    )


def _through_views(names: frozenset[str], defined: dict[str, fun.Let]) -> set[str]:
    """The names, with views replaced by (added to) what they are views of."""
    return _through(names, defined, _is_view)


def _is_view(let: fun.Let) -> bool:
    return isinstance(let.expr, fun.LAYOUT_CHANGES)


def _is_repeated(let: fun.Let) -> bool:
    """Whether each piece that needs it has a statement of its own."""
    is_integer = let.pattern[0].type == fun.Scalar(DType.I64)
    return _is_view(let) or (is_integer and isinstance(let.expr, fun.Apply | fun.SizeValue))


def _through(
    names: frozenset[str], defined: dict[str, fun.Let], is_repeated: Callable[[fun.Let], bool]
) -> set[str]:
    """The names, with those added that statements of a kind among their definitions use."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        let = defined.get(name)
        if let is not None and is_repeated(let):
            todo.extend(walk.used_names(let.expr))
    return found


def _uses_after(
    program: fun.Program, groups: list[list[fun.Let] | fun.Let], defined: dict[str, fun.Let]
) -> list[set[str]]:
    """For each group, the names that later groups or the program's results use."""
    used = _through_views(frozenset(_names(program.body.results)), defined)
    after: list[set[str]] = []
    for group in reversed(groups):
        after.append(set(used))
        for let in [group] if isinstance(group, fun.Let) else group:
            used |= _through(walk.used_names(let.expr), defined, _is_repeated)
    after.reverse()
    return after


def _views_for(
    names: frozenset[str], defined: dict[str, fun.Let], shown: set[str]
) -> list[ViewPiece]:
    """The layout changes behind `names`, arguments first, each once."""
    pieces: list[ViewPiece] = []
    for name in sorted(names):
        let = defined.get(name)
        if let is None or name in shown or not isinstance(let.expr, fun.LAYOUT_CHANGES):
            continue
        pieces.extend(_views_for(walk.used_names(let.expr), defined, shown))
        shown.add(name)
        pieces.append(ViewPiece(let))
    return pieces


def _compiled(
    program: fun.Program, group: list[fun.Let], defined: dict[str, fun.Let], after: set[str]
) -> CompiledPiece:
    wanted: set[str] = set()
    for let in group:
        wanted |= _through(walk.used_names(let.expr), defined, _is_repeated)
    own = {var.name for let in group for var in let.pattern}
    statements = [
        let
        for let in program.body.statements
        if any(var.name in own for var in let.pattern)
        or (_is_repeated(let) and let.pattern[0].name in wanted)
    ]
    bound = {var.name for let in statements for var in let.pattern}
    variables = {param.name: param for param in program.params}
    variables |= {var.name: var for let in program.body.statements for var in let.pattern}
    params = tuple(
        var for name, var in variables.items() if name in wanted and name not in bound
    )
    results = tuple(
        var for let in statements for var in let.pattern if var.name in own and var.name in after
    )
    body = fun.Body(tuple(statements), results)
    # Sizes that were bound by parameters this piece does not have are still given by name.
    return CompiledPiece(
        replace(program, params=params, body=body), tuple(var.name for var in results)
    )
