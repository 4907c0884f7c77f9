"""Weft beside its peers: `python bench/run.py in-core | out-of-core | memory | stencils | ...`."""

from __future__ import annotations

import argparse

import applications
import devices
import first_calls
import gpu
import in_core
import loops
import measure
import memory
import out_of_core
import overheads
import programs
import scientists
import stencils
import streaming
import tiling

import weft as wf

WHAT = (
    "in-core", "out-of-core", "memory", "loops", "scientists", "devices", "stencils",
    "streaming", "tiling", "gpu", "first-calls", "overheads", "all",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("names", nargs="*", help="programs; all where none is named")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes in memory")
    parser.add_argument("--only", default="", help="contenders, separated by commas")
    parser.add_argument("--limit-mib", type=int, default=64, help="out of core: the limit")
    parser.add_argument("--device", default="opencl:0", help="streaming, tiling, gpu: which")
    parser.add_argument("--directory", help="out of core: where the files are made")
    given = parser.parse_args()
    chosen = given.only.lower().split(",") if given.only else []
    known = {
        "in-core": programs.NAMES, "out-of-core": tuple(out_of_core.TITLES),
        "memory": applications.NAMES, "loops": loops.NAMES,
        "scientists": scientists.NAMES,
        "devices": devices.NAMES, "stencils": stencils.NAMES,
        "streaming": streaming.NAMES, "tiling": tiling.NAMES, "gpu": gpu.NAMES,
        "first-calls": first_calls.NAMES,
    }  # fmt: skip
    for name in given.names:
        if name not in known.get(given.what, ()):
            parser.error(f"{name} is none of {', '.join(known.get(given.what, ('no names',)))}")
    names = tuple(given.names)
    if given.what in ("in-core", "all"):
        contenders = tuple(
            c for c in in_core.CONTENDERS if not chosen or in_core.label(c).lower() in chosen
        )
        in_core.run(names, given.scale, given.rounds, contenders)
    if given.what in ("out-of-core", "all"):
        contenders = [c for c in out_of_core.RUNNERS if not chosen or c in chosen]
        print()
        out_of_core.run(names, given.limit_mib << 20, given.rounds, given.directory, contenders)
    if given.what in ("memory", "all"):
        print()
        memory.run(names, given.scale, given.rounds)
    if given.what in ("loops", "all"):
        print()
        loops.run(names, given.scale, given.rounds)
    if given.what in ("scientists", "all"):
        print()
        scientists.run(names, given.scale, given.rounds)
    if given.what in ("devices", "all"):
        print()
        devices.run(names, given.scale, given.rounds)
    if given.what in ("stencils", "all"):
        print()
        stencils.run(names, given.scale, given.rounds, chosen, given.directory)
    here = given.what != "all" or given.device in wf.devices()
    if not here:
        measure.note(f"streaming and tiling: there is no device {given.device}")
    if given.what in ("streaming", "all") and here:
        print()
        streaming.run(names, given.scale, given.rounds, given.device, chosen)
    if given.what in ("tiling", "all") and here:
        print()
        tiling.run(names, given.scale, given.rounds, given.device)
    if given.what == "gpu":  # not of all: its sizes are a GPU's
        gpu.run(names, given.scale, given.rounds, given.device)
    if given.what in ("first-calls", "all"):
        print()
        first_calls.run(names, min(given.rounds, 3))
    if given.what in ("overheads", "all"):
        print()
        overheads.run()


if __name__ == "__main__":
    main()
