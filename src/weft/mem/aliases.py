"""Which arrays of a body share memory, and when each is used last, before memory exists."""

from __future__ import annotations

from collections.abc import Iterable
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
