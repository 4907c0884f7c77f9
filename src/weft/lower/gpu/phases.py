"""Launches that each do several rounds of a loop, between buffers that take turns."""

from __future__ import annotations

from collections.abc import Callable

from weft.fun import nodes as fun
from weft.lower.gpu import versions
from weft.lower.gpu.host import Host
from weft.lower.time_tiling import TimeTiling
from weft.plan import launches
from weft.sizes import ZERO, Poly, as_poly


def in_phases(
    host: Host, let: fun.Let, time: TimeTiling, most: int, launch: Callable[[str], bool]
) -> bool:
    """Phases of at most so many rounds, each of which leaves its results where a round would.

    loop (v = x, b = 0) for k < t do { .. in w, 1 - b }
        =>  b = 0; repeat p from 0 to t / most { launch; b = 1 - b }

    Parameters
    ----------
    launch : callable
        Launches the phase whose number the host's integer of a name is; False if it cannot.

    Returns
    -------
    bool
        What `launch` gives.
    """
    loop = time.loop
    phase = host.unit.fresh("phase.")
    for number, first in time.turns.flips:
        assert isinstance(first, fun.Const)
        host.define(loop.params[number].name, as_poly(int(first.value.real)))
    with host.inside() as launched:
        host.host_integer(phase)
        if not launch(phase):
            return False
        for number, _ in time.turns.flips:
            name = loop.params[number].name
            host.steps.append(launches.Define(name, 1 - Poly.var(name)))
    rounds = versions.maximum(host, time.stencil.rounds, ZERO)
    phases = versions.ceil(host, rounds, most)
    host.steps.append(launches.Repeat(phase, ZERO, phases, tuple(launched)))
    for number, _ in time.turns.flips:
        host.define(let.pattern[number].name, Poly.var(loop.params[number].name))
    return True
