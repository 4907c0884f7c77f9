"""Which compiled pieces of a program may write their results over arrays that they take."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

from weft.fun import nodes as fun
from weft.fun import walk
from weft.ops.routines import routine
from weft.plan.seams import CallPiece, CompiledPiece, Piece, ViewPiece
from weft.sizes import Poly


def donations(
    program: fun.Program, pieces: Sequence[Piece], donated: Mapping[str, int],
    windows: Collection[str] = (),
) -> list[dict[str, int]]:  # fmt: skip
    """For each piece, the parameters that it may overwrite, and the result that goes there.

    A piece may overwrite what the program may, and what another piece has made, if no later
    piece uses it, no view shows it, and it is no result of the program. What goes there is an
    update of it (through loops and scatters too), or the result to which it is donated. An array
    and what shows the whole of it in another shape are one.

    Parameters
    ----------
    program : fun.Program
    pieces : sequence of Piece
        Of the program, in the order in which they run.
    donated : mapping of str to int
        The program's parameters that may be overwritten, and the result that each is to hold.
    windows : collection of str
        Those that do not lie row-major: what goes there is taken by no other piece.
    """
    whole = _whole(pieces)
    views = (piece.let for piece in pieces if isinstance(piece, ViewPiece))
    seen = {
        whole.get(name, name)
        for let in views if let.pattern[0].name not in whole
        for name in walk.used_names(let.expr)
    }  # fmt: skip
    atoms = program.body.results
    results = {whole.get(atom.name, atom.name) for atom in atoms if isinstance(atom, fun.Var)}
    wanted = {
        whole.get(result.name, result.name): name
        for name, number in donated.items()
        if isinstance(result := atoms[number], fun.Var)
    }
    made = {name for piece in pieces for name in _makes(piece)}
    free = (made | donated.keys()) - seen - results
    taken: set[str] = set()
    ends = {name: name for name in results}  # the result that comes to lie where a value does
    found: list[dict[str, int]] = []
    for piece in reversed(pieces):
        own: dict[str, int] = {}
        if isinstance(piece, CompiledPiece):
            own = _of_piece(piece, free, wanted, windows)
        elif isinstance(piece, CallPiece) and (over := _overwritten(piece)) in free:
            own = {over: 0}
        for name, number in list(own.items()):
            made_there = _makes(piece)[number]
            end = ends.get(made_there)
            is_others = name in donated and end is not None and wanted.get(end) != name
            if is_others or (name in windows and made_there in taken):
                del own[name]
            elif end is not None:
                ends[name] = end
        found.append(own)
        uses = {whole.get(name, name) for name in _uses(piece)}
        free -= uses
        taken |= uses
    found.reverse()
    return found


def _whole(pieces: Sequence[Piece]) -> dict[str, str]:
    """For what shows the whole of an array in another shape, that array."""
    whole: dict[str, str] = {}
    for piece in pieces:
        if isinstance(piece, ViewPiece) and isinstance(piece.let.expr, fun.Reshape):
            array = piece.let.expr.array
            if isinstance(array, fun.Var):
                whole[piece.let.pattern[0].name] = whole.get(array.name, array.name)
    return whole


def _of_piece(
    piece: CompiledPiece, free: set[str], wanted: Mapping[str, str], windows: Collection[str]
) -> dict[str, int]:
    params = {p.name: p.type for p in piece.program.params if p.name in free}
    found: dict[str, int] = {}
    for number, result in enumerate(piece.program.body.results):
        if not isinstance(result, fun.Var):
            continue
        for name in (wanted.get(result.name), updated(piece.program.body, result)):
            if name in params and name not in found:
                same_shape = params[name] == result.type and _is_array(result)
                if same_shape or (name not in windows and are_as_large(params[name], result.type)):
                    found[name] = number
                    break
    return found


def _overwritten(piece: CallPiece) -> str:
    """What a library routine can update in place; empty for none."""
    call = piece.let.expr
    assert isinstance(call, fun.Call)
    if not routine(call.routine).updates:
        return ""
    first, *others = call.arguments
    return first.name if isinstance(first, fun.Var) and first not in others else ""


def updated(body: fun.Body, result: fun.Var) -> str | None:
    """What a result of a body is an update of, as far back as the body goes."""
    made = {var.name: let for let in body.statements for var in let.pattern}
    name = result.name
    while (let := made.get(name)) is not None:
        position = [var.name for var in let.pattern].index(name)
        match let.expr:
            case fun.Update(array) | fun.LmadUpdate(array):
                name = array.name
            case fun.Scatter(destinations):
                name = destinations[position].name
            case fun.Loop(_, initial) if isinstance(first := initial[position], fun.Var):
                name = first.name
            case _:
                return None
    return name


def are_as_large(type_: fun.Type, other: fun.Type) -> bool:
    """Whether these are row-major arrays that may take each other's memory."""
    if not isinstance(type_, fun.Array) or not isinstance(other, fun.Array):
        return False
    counts = {prod(array.shape, start=Poly.const(1)) for array in (type_, other)}
    return type_.dtype is other.dtype and len(counts) == 1


def _is_array(var: fun.Var) -> bool:
    return isinstance(var.type, fun.Array)


def _uses(piece: Piece) -> frozenset[str]:
    match piece:
        case CompiledPiece(program):
            return frozenset(param.name for param in program.params)
        case CallPiece(let) | ViewPiece(let):
            return walk.used_names(let.expr)


def _makes(piece: Piece) -> tuple[str, ...]:
    match piece:
        case CompiledPiece(_, results):
            return results
        case CallPiece(let):
            return tuple(var.name for var in let.pattern)
        case ViewPiece():
            return ()
