"""FUNMEM to IMP for a processor with threads and vector lanes.

Removes every FUNMEM expression; adds parallel loops over tiles, simd loops, and checks of
accesses that the launch cannot prove. Requires memory (`weft.mem.introduce`). A `Kernel`, a
`Scan` or a `Scatter` of the program's own statements (also inside its loops and branches)
becomes parallel loops; what is inside of them is sequential.

    let y = kernel (i < n) { let t = x[i] * 2 in t }
    =>  parallel tile thread below tiles { for simd j from lower to upper { y[j] = x[j] * 2 } }
"""

from __future__ import annotations

from typing import assert_never

from weft.errors import UnsupportedError
from weft.fun import nodes as fun
from weft.lower import bodies, columns, copies, kernels, reductions, register_tiles
from weft.lower.emitter import Emitter

# The forms that few programs have are imported there: a first call has to wait for imports.


def lower_statement(e: Emitter, let: fun.Let) -> None:
    """One statement, at the top or inside of a kernel."""
    match let.expr:
        case fun.Apply() | fun.Cast() | fun.SizeValue() | fun.Index():
            bodies.lower_scalar(e, let)
        case fun.Slice() | fun.LmadSlice() | fun.Permute():
            see(e, let, let.expr.array)
        case fun.Empty():
            e.depths["@" + let.pattern[0].name] = e.depth
        case fun.Copy():
            copies.lower_copy(e, let)
        case fun.Reshape(array) | fun.Broadcast(array):
            if copies.is_view(let):
                see(e, let, array)
            else:
                copies.lower_copy(e, let)
        case fun.Kernel() if columns.lower_columns(e, let):
            pass
        case fun.Kernel() if register_tiles.suits(e, let.expr):
            register_tiles.lower_contraction(e, let)
        case fun.Kernel():
            kernels.lower_kernel(e, let)
        case fun.Reduce():
            reductions.lower_reduce(e, let)
        case fun.Scan():
            from weft.lower.scans import lower_scan

            lower_scan(e, let)
        case fun.Scatter():
            from weft.lower.scatters import lower_scatter

            lower_scatter(e, let)
        case fun.Concat():
            copies.lower_concat(e, let)
        case fun.Update() | fun.LmadUpdate():
            copies.lower_update(e, let)
        case fun.If():
            bodies.lower_if(e, let)
        case fun.Loop(form=fun.For(tiled=(_, _))) if not e.in_tile and not e.serial:
            lower_tiled(e, let, let.expr)
        case fun.Loop():
            bodies.lower_loop(e, let)
        case fun.Call(routine):
            raise UnsupportedError(f"the library routine {routine} inside of a compiled segment")
        case _:
            assert_never(let.expr)


def lower_tiled(e: Emitter, let: fun.Let, loop: fun.Loop) -> None:
    """A loop that asks for tiles in time, in them if they are proved to give the same."""
    from weft.lower.time_tiling import time_tiling

    found = time_tiling(e.unit, loop)
    if isinstance(found, str):
        e.unit.kernels.append(f"loop {let.pattern[0].name}, a round at a time: {found}")
        bodies.lower_loop(e, let)
    else:
        from weft.lower.time_tiles import lower_loop

        lower_loop(e, let, found)


def see(e: Emitter, let: fun.Let, array: fun.Atom) -> None:
    """A view: its elements are there from when its array's are."""
    if isinstance(array, fun.Var):
        e.depths["@" + let.pattern[0].name] = e.depths.get("@" + array.name, 0)
