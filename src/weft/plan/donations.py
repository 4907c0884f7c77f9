"""Which compiled pieces of a program may write their results over arrays that they take."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from weft.fun import nodes as fun
from weft.fun import walk
from weft.ops.routines import routine
from weft.plan.seams import CallPiece, CompiledPiece, Piece, ViewPiece


def donations(
    program: fun.Program, pieces: Sequence[Piece], donated: Mapping[str, int],
    windows: Collection[str] = (),
) -> list[dict[str, int]]:  # fmt: skip
    """For each piece, the parameters that it may overwrite, and the result that goes there.

    A piece may overwrite what the program may, and what another piece has made, if no later
    piece uses it, no view shows it, and it is no result of the program. What goes there is an
    update of it (through loops and scatters too), or the result to which it is donated.

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
    seen = {name for piece in pieces if isinstance(piece, ViewPiece) for name in _uses(piece)}
    results = {atom.name for atom in program.body.results if isinstance(atom, fun.Var)}
    wanted = {
        result.name: name
        for name, number in donated.items()
        if isinstance(result := program.body.results[number], fun.Var)
    }
    made = {name for piece in pieces for name in _makes(piece)}
    free = (made | donated.keys()) - seen - results
    taken: set[str] = set()
    ends = {name: name for name in results}  # the result that comes to lie where a value does
    found: list[dict[str, int]] = []
    for piece in reversed(pieces):
        own: dict[str, int] = {}
        if isinstance(piece, CompiledPiece):
            own = _of_piece(piece, free, wanted)
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
        free -= _uses(piece)
        taken |= _uses(piece)
    found.reverse()
    return found


def _of_piece(
    piece: CompiledPiece, free: set[str], wanted: Mapping[str, str]
) -> dict[str, int]:
    params = {p.name: p for p in piece.program.params if p.name in free and _is_array(p)}
    found: dict[str, int] = {}
    for number, result in enumerate(piece.program.body.results):
        if not isinstance(result, fun.Var) or not _is_array(result):
            continue
        for name in (wanted.get(result.name), updated(piece.program.body, result)):
            if name in params and name not in found and params[name].type == result.type:
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
