"""Programs that the tests of several passes use, and how they are checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from passes.unfused import Unfused

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.fun.show import show

Pass = Callable[[fun.Program], fun.Program]


def before_after(text: str, *passes: Pass) -> str:
    """The golden text of passes on a printed program."""
    before = after = parse(text)
    for pass_ in passes:
        after = pass_(after)
    return f"{show(before)}\n=>\n\n{show(after)}"


def agree(
    before: fun.Program,
    after: fun.Program,
    arguments: Sequence[Any],
    rtol: float = 1e-12,
    **sizes: int,
) -> None:
    """Both programs give the same on some arguments."""
    expected, got = interpret(before, arguments, sizes), interpret(after, arguments, sizes)
    for left, right in zip(got, expected, strict=True):
        assert np.asarray(left).dtype == np.asarray(right).dtype
        assert np.shape(left) == np.shape(right)
        np.testing.assert_allclose(left, right, rtol=rtol)


def reductions(program: fun.Program) -> list[fun.Let]:
    """Those that are in no other."""
    lets = walk.sequential(program.body)
    return [let for let in lets if isinstance(let.expr, fun.Reduce)]


def agree_on_numbers(before: fun.Program, after: fun.Program, sizes: Mapping[str, int]) -> None:
    """Both give the same on arrays of numbers from 0 to 1; they may have fewer sizes than these."""
    random = np.random.default_rng(3)
    arguments = [
        random.random([extent.substitute(sizes).constant for extent in walk.type_sizes(p.type)])
        for p in before.params
    ]
    agree(before, after, arguments, **{name: sizes[name] for name in before.sizes})


def softmax() -> fun.Program:
    """Softmax of the rows of x: [n, m]."""
    u = Unfused("n", "m")
    x, n = u.param("x", "n", "m"), u.size("n")
    largest = u.reshape(u.reduce("maximum", x, [1]), n, 1)
    e = u.map("exp", u.map("subtract", x, largest))
    total = u.reshape(u.reduce("add", e, [1]), n, 1)
    return u.program(u.map("divide", e, total))


def black_scholes() -> fun.Program:
    """Prices of call and put options, 1-D."""
    u = Unfused("n")
    price, strike, years = (u.param(name, "n") for name in ("price", "strike", "years"))
    rate, volatility = 0.02, 0.3
    root = u.map("multiply", u.map("sqrt", years), volatility)
    drift = u.map("multiply", years, rate + volatility**2 / 2)
    d1 = u.map("divide", u.map("add", u.map("log", u.map("divide", price, strike)), drift), root)
    d2 = u.map("subtract", d1, root)

    def normal(x: fun.Var) -> fun.Var:
        return u.map(
            "multiply", u.map("add", u.map("erf", u.map("multiply", x, 0.5**0.5)), 1.0), 0.5
        )

    discounted = u.map("multiply", strike, u.map("exp", u.map("multiply", years, -rate)))
    call = u.map(
        "subtract", u.map("multiply", price, normal(d1)), u.map("multiply", discounted, normal(d2))
    )
    put = u.map("add", u.map("subtract", call, price), discounted)
    return u.program(call, put)


def normalise_columns() -> fun.Program:
    """(x - mean) / std of the columns of x: [n, m]."""
    u = Unfused("n", "m")
    x = u.param("x", "n", "m")
    count = u.param("count")
    mean = u.map("divide", u.reduce("add", x, [0]), count)
    centred = u.map("subtract", x, mean)
    variance = u.map("divide", u.reduce("add", u.map("pow", centred, 2.0), [0]), count)
    return u.program(u.map("divide", centred, u.map("sqrt", variance)))
