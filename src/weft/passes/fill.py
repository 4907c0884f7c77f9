"""fill: arrays of no values yet are zeros, so that they can be cut.

    let x = empty f32 (n)    =>    let x = broadcast 0.0_f32 (n)

Removes: empty arrays, but for those inside of kernels.
Adds: arrays of zeros, of which a box can be made where it is wanted.
Requires: a checked program.
Ensures: the same values of all that is written before it is read.
"""

from __future__ import annotations

from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk


def fill(program: fun.Program) -> fun.Program:
    """The program with zeros for elements that do not matter."""
    body = _body(program.body)
    return program if body is program.body else replace(program, body=body)


def _body(body: fun.Body) -> fun.Body:
    return walk.with_statements(body, [_let(let) for let in body.statements])


def _let(let: fun.Let) -> fun.Let:
    match let.expr:
        case fun.Empty(dtype, shape):
            zero = fun.Const(dtype.numpy.type(0).item(), dtype)
            return replace(let, expr=fun.Broadcast(zero, shape))
        case fun.Loop() | fun.If():
            return walk.map_let(let, _body)
        case _:
            return let
