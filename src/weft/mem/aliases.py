"""Which arrays of a body share memory, and when each is used last, before memory exists."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import field

from weft.fun import nodes as fun
from weft.fun import walk
from weft.records import dataclass
from weft.sizes import Poly

_REPEATING = (fun.Broadcast, fun.LmadSlice)


def looked_at(expr: fun.Expr) -> fun.Var | None:
    """The array of which an expression is a view, if it is one."""
    match expr:
        case fun.Slice(array) | fun.LmadSlice(array) | fun.Permute(array) | fun.Reshape(array):
            return array
        case fun.Broadcast(fun.Var(type=fun.Array()) as array):
            return array
        case _:
            return None


@dataclass(slots=True)
class Liveness:
    """Of one body: views belong to the class of the array that they look at.

    Attributes
    ----------
    owned : set of str
        Arrays made in this body, and the parameters of the loop whose body it is: memory
        that the body may overwrite when nothing uses it any more.
    root : dict
        The class of each array that is bound here, named by its first member.
    last : dict
        The last statement that uses a class; the number of statements for results.
    """

    owned: set[str]
    root: dict[str, str]
    last: dict[str, int]
    repeated: set[str] = field(default_factory=set)  # views that may meet an element twice

    @staticmethod
    def of(body: fun.Body, params: Iterable[fun.Var] = ()) -> Liveness:
        live = Liveness({param.name for param in params}, {}, {})
        for position, let in enumerate(body.statements):
            for name in walk.used_names(let.expr):
                live.last[live.class_of(name)] = position
            viewed = looked_at(let.expr)
            if viewed is not None:
                name = let.pattern[0].name
                live.root[name] = live.class_of(viewed.name)
                if isinstance(let.expr, _REPEATING) or viewed.name in live.repeated:
                    live.repeated.add(name)
            else:
                live.owned.update(var.name for var in let.pattern)
        for result in body.results:
            if isinstance(result, fun.Var):
                live.last[live.class_of(result.name)] = len(body.statements)
        return live

    def class_of(self, name: str) -> str:
        return self.root.get(name, name)

    def dies(self, array: fun.Atom, position: int, others: Iterable[str]) -> bool:
        """Whether a statement may overwrite an array that it uses as a whole.

        `others` are the names that the statement uses apart from that operand.
        """
        if not isinstance(array, fun.Var):
            return False
        name = self.class_of(array.name)
        return (
            name in self.owned
            and array.name not in self.repeated
            and self.last[name] <= position
            and all(self.class_of(other) != name for other in others)
        )


def is_made(loop: fun.Loop, number: int, live: Liveness) -> bool:
    """Whether each round of a loop makes its result in memory other than the parameter's.

    Not so where the result is, or is made in place of, what the round was given: by views,
    updates and loops, or by a kernel that reads nothing of it but at its own index.
    """
    body, result = loop.body, loop.body.results[number]
    made = {var.name: (n, let) for n, let in enumerate(body.statements) for var in let.pattern}
    while isinstance(result, fun.Var):
        if result.name not in made:
            return False
        position, let = made[result.name]
        match let.expr:
            case fun.Permute(array) | fun.Reshape(array):
                result = array
            case fun.Slice() | fun.LmadSlice() | fun.Broadcast(array=fun.Var(type=fun.Array())):
                return False
            case fun.Update() | fun.LmadUpdate() | fun.Scatter():
                for target, var, others in overwritten(let.expr, let.pattern):
                    if var.name == result.name and live.dies(target, position, others):
                        result = target
                        break
                else:
                    return True
            case fun.Loop() as inner:
                place = [var.name for var in let.pattern].index(result.name)
                inside = Liveness.of(inner.body, inner.params)
                first = inner.initial[place]
                if not live.dies(first, position, used_beside(inner, place)):
                    return True
                if is_made(inner, place, inside):
                    return True
                result = first
            case fun.If() as branch:
                place = [var.name for var in let.pattern].index(result.name)
                changed = changed_by(branch, position, live)[place]
                if changed is None:
                    return True
                result = changed
            case fun.Kernel() as kernel:
                return not _maps(kernel, position, result, loop.params[number], live)
            case _:
                return True
    return False


def changed_by(branch: fun.If, position: int, live: Liveness) -> list[fun.Var | None]:
    """For each result of an `If` the array that either branch changes, or leaves as it is.

    None where it makes another, or where that array may not be overwritten.
    """
    found: list[fun.Var | None] = []
    for results in zip(branch.then.results, branch.otherwise.results, strict=True):
        array = _one_root(branch, results)
        if array is not None:
            beside = walk.used_names(branch) - {array.name}
            if not live.dies(array, position, beside) or array in found:
                array = None
        found.append(array)
    return found


def _one_root(branch: fun.If, results: tuple[fun.Atom, fun.Atom]) -> fun.Var | None:
    first, second = map(_root, (branch.then, branch.otherwise), results)
    return first if first is not None and first == second else None


def _root(body: fun.Body, result: fun.Atom) -> fun.Var | None:
    """The array from outside a body of which a result is made by updates, loops and branches."""
    made = {var.name: let for let in body.statements for var in let.pattern}
    while isinstance(result, fun.Var) and result.name in made:
        let = made[result.name]
        place = [var.name for var in let.pattern].index(result.name)
        match let.expr:
            case fun.Update(array) | fun.LmadUpdate(array):
                result = array
            case fun.Scatter(destinations):
                result = destinations[place]
            case fun.Loop(_, initial):
                result = initial[place]
            case fun.If(_, then, otherwise) as branch:
                inner = _one_root(branch, (then.results[place], otherwise.results[place]))
                if inner is None:
                    return None
                result = inner
            case _:
                return None
    return result if isinstance(result, fun.Var) and isinstance(result.type, fun.Array) else None


def _maps(
    kernel: fun.Kernel, position: int, result: fun.Var, array: fun.Var, live: Liveness
) -> bool:
    """Whether a kernel may write its result over an array: it alone reads it, at its index."""
    return (
        result.type == array.type
        and live.last.get(live.class_of(array.name), -1) <= position
        and all(live.class_of(name) != array.name for name in live.root)
        and reads_own(kernel, {array.name})
    )


def reads_own(kernel: fun.Kernel, names: Collection[str]) -> bool:
    """Whether a kernel that gives scalars uses arrays at its own index alone (section 6.9)."""
    own = tuple(Poly.var(r.index.name) for r in kernel.space)
    if any(isinstance(atom.type, fun.Array) for atom in kernel.body.results):
        return False
    for let in walk.statements(kernel.body):
        if isinstance(let.expr, fun.Index) and let.expr.array.name in names:
            if let.expr.indices != own or any(let.expr.boundary):
                return False
        elif any(
            isinstance(atom, fun.Var) and atom.name in names for atom in walk.operands(let.expr)[0]
        ):
            return False
    return True


def used_beside(loop: fun.Loop, number: int) -> frozenset[str]:
    """Names that a loop uses apart from the initial value of one parameter."""
    nothing = tuple(fun.Const(0, param.type.dtype) for param in loop.params)
    rest = (*loop.initial[:number], *loop.initial[number + 1 :])
    used = walk.used_names(fun.Loop(loop.params, nothing, loop.form, loop.body))
    return used | {atom.name for atom in rest if isinstance(atom, fun.Var)}


def overwritten(
    expr: fun.Update | fun.LmadUpdate | fun.Scatter, pattern: Sequence[fun.Var]
) -> list[tuple[fun.Var, fun.Var, frozenset[str]]]:
    """Each array that an update changes, what it becomes, and the other names used."""
    match expr:
        case fun.Update(array, _, value) | fun.LmadUpdate(array, _, _, value):
            others = frozenset({value.name} if isinstance(value, fun.Var) else ())
            return [(array, pattern[0], others)]
        case fun.Scatter(destinations, _, body, operator):
            inside = walk.free_names(body)
            if operator is not None:
                inside |= walk.free_names(operator.body)
            return [
                (array, var, inside | {d.name for j, d in enumerate(destinations) if j != k})
                for k, (array, var) in enumerate(zip(destinations, pattern, strict=True))
            ]
