"""Random programs of sweeps: kernels whose iterations go along rows or columns of an array.

Each sweep makes a row or column from its elements of an array that dies there, in a loop, perhaps
going back in a second one, as a tridiagonal solver does. Whether the sweep's result may lie
over that array depends on which elements are read when: own ones or others', before or after
what the loop writes.
"""

from __future__ import annotations

import random
import re

import numpy as np

from programs.random_data import Case
from weft.fun.parse import parse

AHEAD = ("t",) * 12 + ("t + 1", "t + 1", "0", "E - 1")  # E: the extent that is swept along
BEHIND = ("t - 1", "E - 1 - t", "t - 1")
OWN = ("i",) * 16 + ("0", "F - 1 - i")  # F: the number of sweeps


def generate_sweeps(source: random.Random) -> Case:
    """A program with one or two sweeps, perhaps rounds of them, and arguments for it."""
    sizes = {name: source.choice((2, 3, 4)) for name in ("n", "m", "k")}
    lines = ["program random(a: f64[n, m, k])", "  sizes n, m, k", "{"]
    looped = source.random() < 0.5
    old = "v" if looped else "a"
    if looped:
        rounds = source.choice(("0", "1", "3", "n"))
        lines.append(
            f" let r: f64[n, m, k] = loop (v: f64[n, m, k] = a) for s from 0 to {rounds} {{"
        )
    made = old
    for number in range(source.randint(1, 2)):
        lines += _made(source, made, f"x{number}")
        lines += _sweep(source, f"x{number}", old, str(number))
        made = f"z{number}"
    if looped:
        lines += [f" in {made} }}", " in r", "}"]
    else:
        lines += [f" in {made}", "}"]
    values = np.arange(1.0, 1 + np.prod(list(sizes.values()))) * source.choice([1, -2, 3])
    return Case(parse("\n".join(lines)), (values.reshape(tuple(sizes.values())),), sizes)


def _renamed(lines: list[str], names: str, tag: str) -> list[str]:
    """The lines with a tag on these names, which other lines bind too."""
    return [re.sub(rf"\b([{names}])\b", rf"\g<1>{tag}", line) for line in lines]


def _made(source: random.Random, array: str, name: str) -> list[str]:
    """An array of its own from another one, in one of two orders of axes."""
    if source.random() < 0.3:
        lines = [
            f" let y{name}: f64[m, n, k] = kernel (i < m, j < n, l < k) {{",
            f"  let e: f64 = {array}[j, i, l] let f: f64 = add(e, 1_f64) in f }}",
            f" let {name}: f64[n, m, k] = permute y{name} (1, 0, 2)",
        ]
        return _renamed(lines, "ijlef", f"_{name}")
    lines = [
        f" let {name}: f64[n, m, k] = kernel (i < n, j < m, l < k) {{",
        f"  let e: f64 = {array}[i, j, l] let f: f64 = add(e, 1_f64) in f }}",
    ]
    return _renamed(lines, "ijlef", f"_{name}")


def _sweep(source: random.Random, array: str, old: str, tag: str) -> list[str]:
    """z = a kernel over rows or columns of an array, in a loop along each of them."""
    rows = source.random() < 0.5
    count, along = ("n", "m") if rows else ("m", "n")
    first = source.choice((0, 0, 1))

    def at(position: str, own: str) -> str:
        position, own = position.replace("E", along), own.replace("F", count)
        indices = (own, position) if rows else (position, own)
        return ", ".join(indices)

    def read(positions: tuple[str, ...]) -> str:
        column = source.choice(("l",) * 12 + ("k - 1 - l",))
        return f"[{at(source.choice(positions), source.choice(OWN))}, {column}]"

    last = f"{along} - 1" if source.random() < 0.2 else along
    positions = AHEAD if last.endswith("1") else tuple(p for p in AHEAD if "+" not in p)
    if first and source.random() < 0.3:
        positions += BEHIND
    more = [f"   let d: f64 = {old}{read(('t', '0'))}"] if source.random() < 0.4 else []
    carry = [f"   let c: f64 = q[t - {first}, l]"]
    if not first and source.random() < 0.8:
        carry = ["   let c: f64 = multiply(e, e)"]  # the start need not be there
    target = source.choice(("t",) * 8 + (f"{along} - 1 - t",))
    lines = [
        f" let w{tag}: f64[{count}, {along}, k] = kernel (i < {count}) {{",
        f"  let o: f64[{along}, k] = broadcast 2_f64 ({along}, k)",
        f"  let j: f64[k] = kernel (B < k) {{ let C: f64 = {array}[{at('0', 'i')}, B] in C }}",
        f"  let A: f64[{along}, k] = update o[0, 0 for k] = j",
        f"  let p: f64[{along}, k] = loop (q: f64[{along}, k] = {'A' if first else 'o'}) "
        f"for t from {first} to {last} {{",
        f"   let h: f64[k] = kernel (l < k) {{ let e: f64 = {array}{read(positions)}",
        *(more or ["   let d: f64 = multiply(e, 2_f64)"]),
        *carry,
        "   let f: f64 = add(e, d) let g: f64 = subtract(f, c) in g }",
        f"   let u: f64[{along}, k] = update q[{target}, 0 for k] = h in u }}",
    ]
    result = "p"
    if source.random() < 0.5:
        again = source.choice((f"p[{along} - 1 - t, l]", f"p[{along} - 2 - t, l]"))
        late = f"{array}[{at(f'{along} - 2 - t', 'i')}, l]" if source.random() < 0.2 else again
        lines += _renamed([
            f"  let b: f64[{along}, k] = loop (q: f64[{along}, k] = p) "
            f"for t from 0 to {along} - 1 {{",
            f"   let h: f64[k] = kernel (l < k) {{ let e: f64 = {late.replace('p[', 'q[')}",
            f"   let d: f64 = q[{along} - 2 - t, l] let f: f64 = subtract(d, e) in f }}",
            f"   let u: f64[{along}, k] = update q[{along} - 2 - t, 0 for k] = h in u }}",
        ], "qthledfu", f"_{tag}")  # fmt: skip
        result = "b"
    lines.append(f"  in {result} }}")
    whole = f"permute w{tag} (1, 0, 2)" if not rows else f"copy w{tag}"
    lines.append(f" let z{tag}: f64[n, m, k] = {whole}")
    return _renamed(lines, "iopbqthledcfgujABC", tag)
