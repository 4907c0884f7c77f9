"""Dataclasses that are made quickly mean what those of the standard library mean."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import field
from typing import Any

import pytest

from weft import records


def classes(make: Any) -> dict[str, Any]:
    """Some classes, made by a decorator; each in all its options."""

    @make(frozen=True, slots=True)
    class Point:
        """A point."""

        x: int
        y: tuple[int, ...] = ()
        remark: str = field(default="", compare=False)

        def doubled(self) -> Any:
            return dataclasses.replace(self, x=2 * self.x)

    @make(frozen=True, slots=True)
    class Marked(Point):
        colour: str = "red"

        def __repr__(self) -> str:
            return f"<{self.x} in {self.colour}>"

    @make(slots=True)
    class Counter:
        counts: dict[str, int] = field(default_factory=dict)
        total: int = 0

        def __post_init__(self) -> None:
            self.total = sum(self.counts.values())

    @make(frozen=True, slots=True, eq=False)
    class Named:
        name: str

    @make(frozen=True, slots=True)
    class Nothing:
        pass

    return {kind.__name__: kind for kind in (Point, Marked, Counter, Named, Nothing)}


QUICK, STANDARD = classes(records.dataclass), classes(dataclasses.dataclass)


def outcome(action: Callable[[], Any]) -> Any:
    """What an action gives: a value's text, or the kind of its error."""
    try:
        return repr(action()).replace("records.", "").replace("dataclasses.", "")
    except (TypeError, AttributeError, ValueError) as error:
        return type(error)


ACTIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "repr": lambda c: c["Point"](1, (2, 3)),
    "by name": lambda c: c["Point"](y=(2,), x=1),
    "inherited": lambda c: (c["Marked"](1).colour, c["Marked"](1, (), "", "blue")),
    "too few": lambda c: c["Point"](),
    "too many": lambda c: c["Named"]("a", "b"),
    "unknown": lambda c: c["Named"](nam="a"),
    "equal": lambda c: c["Point"](1, (2,)) == c["Point"](1, (2,), "not compared"),
    "unequal": lambda c: c["Point"](1, (2,)) == c["Point"](1, (3,)),
    "of another class": lambda c: c["Point"](1) == c["Marked"](1),
    "with another type": lambda c: c["Point"](1) == 1,
    "nothing is equal": lambda c: (c["Nothing"]() == c["Nothing"](), c["Nothing"]()),
    "identity": lambda c: c["Named"]("a") == c["Named"]("a"),
    "equal hashes": lambda c: len({c["Point"](1), c["Point"](1, remark="x"), c["Point"](2)}),
    "no hash": lambda c: hash(c["Counter"]()),
    "hash by identity": lambda c: len({c["Named"]("a"), c["Named"]("a")}),
    "frozen": lambda c: setattr(c["Point"](1), "x", 2),
    "frozen against deletion": lambda c: delattr(c["Point"](1), "x"),
    "slots": lambda c: setattr(c["Counter"](), "z", 2),
    "fresh defaults": lambda c: c["Counter"]().counts is c["Counter"]().counts,
    "after init": lambda c: c["Counter"]({"a": 2, "b": 3}).total,
    "replace": lambda c: (c["Point"](1).doubled(), c["Marked"](1, (), "", "blue").doubled()),
    "fields": lambda c: [(f.name, f.type) for f in dataclasses.fields(c["Marked"])],
    "match": lambda c: c["Marked"].__match_args__,
    "copy": lambda c: (copy.copy(c["Point"](1)), copy.deepcopy(c["Point"](1, (2,)))),
    "document": lambda c: c["Point"].__doc__,
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIONS)
def test_as_the_standard_library(name: str) -> None:
    assert outcome(lambda: ACTIONS[name](QUICK)) == outcome(lambda: ACTIONS[name](STANDARD))


@records.dataclass(frozen=True, slots=True)
class Pickled:
    numbers: tuple[int, ...]
    name: str = "some"


def test_pickles() -> None:
    assert pickle.loads(pickle.dumps(Pickled((1, 2)))) == Pickled((1, 2))


def test_a_dataclass_of_the_standard_library_extends_one() -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Longer(Pickled):
        more: int = 0

    assert Longer((1,), more=2) == Longer((1,), "some", 2)
    assert Longer((1,)) != Pickled((1,))


def test_a_default_before_none() -> None:
    """Found when the first object is made."""

    @records.dataclass(slots=True)
    class Wrong:
        first: int = 1
        second: int  # type: ignore[misc]

    with pytest.raises(TypeError, match=r"Wrong\.second has no default"):
        Wrong(5)  # type: ignore[call-arg]
