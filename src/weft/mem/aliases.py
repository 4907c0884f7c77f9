"""Which arrays of a body share memory, and when each is used last, before memory exists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from weft.fun import nodes as fun
from weft.fun import walk

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


def is_made(body: fun.Body, result: fun.Atom, live: Liveness) -> bool:
    """Whether a statement of the body makes the array in fresh memory.

    Not so where the result is, or is made in place of, what the body was given.
    """
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
            case _:
                return True
    return False


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
