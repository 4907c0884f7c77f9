"""Random kernels, as text, with what users write beside loop nests.

To the statements of `loops.random_nests` these add lists that grow, calls, tuples, results given
early, loops with `else`, views and what is written over what is read, and NumPy's functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from loops.random_nests import INTEGERS, PARAMETERS, SCALARS, Nest, Writer

RESULT = f"return {', '.join(SCALARS)}"

HELPERS = {
    "clipped": """
def clipped(p, q):
    if p > q:
        return p - q
    for j in range(3):
        if j * 2 > q:
            return q + j
    return p * 2
""",
    "before_large": """
def before_large(v):
    total = 0
    for e in v:
        if e < 0:
            continue
        if e > 3:
            break
        total += e
    else:
        total += 100
    return total
""",
    "pair": """
def pair(p):
    if p > 1:
        return p, 3
    return 2, p
""",
    "running": """
def running(v, p):
    if p > 4:
        return
    v[0] = p
    v[1:] += v[:-1]
""",
    "turned": """
def turned(v):
    v[::-1] += v
    v[-1] = v[0]
""",
}


@dataclass
class KernelWriter(Writer):
    """Text so far; lists that may be read, and the helpers that it calls."""

    lists: list[str] = field(default_factory=list)
    helpers: set[str] = field(default_factory=set)

    def statement(self) -> None:
        if self.number(0, 1):
            return super().statement()
        forms: list[Callable[[], None]] = [
            self.overlapping, self.whole, self.view, self.local, self.swap, self.call, self.pairs,
            self.read_list, self.reduced,
        ]  # fmt: skip
        if self.depth < 4:
            forms += [self.grow, self.grow, self.until, self.best, self.search, self.listed]
        if not any(not may_be_left for may_be_left in self.in_range):
            forms += [self.give]
        return self.pick(*forms)()

    def helper(self, name: str) -> str:
        self.helpers.add(name)
        return name

    def statements(self, most: int) -> None:
        known = len(self.lists)
        super().statements(most)
        del self.lists[known:]  # what a branch or round makes is not there after it

    def condition(self, depth: int = 1) -> str:
        if depth and self.number(0, 5) == 0:
            least, middle = self.number(-6, 1), self.value(INTEGERS, 1)
            return f"{least} {self.pick('<', '<=')} {middle} {self.pick('<', '!=')} {least + 5}"
        if depth and self.lists and self.number(0, 5) == 0:
            name = self.pick(*self.lists)
            return str(self.pick(name, f"len({name}) > 1 and {name}[-1] > {self.leaf(INTEGERS)}"))
        return super().condition(depth)

    # Lists.

    def grow(self) -> None:
        name, counter = self.fresh("q"), self.fresh("i")
        extent = self.pick("n", "m", "k")
        self.line(f"{name} = []")
        if self.extents[extent]:
            with self.block(f"for {counter} in range({extent}):"):
                self.counters[counter] = (0, self.extents[extent] - 1)
                with self.block(f"if {self.pick('True', self.condition())}:"):
                    self.line(f"{name}.append({self.value(INTEGERS, 1)})")
                if self.number(0, 3) == 0:
                    with self.block(f"if len({name}) > 2:"):
                        self.line(self.pick(f"{name}.pop()", f"s += {name}.pop(0)", "break"))
                del self.counters[counter]
        self.lists.append(name)

    def read_list(self) -> None:
        if not self.lists:
            return self.grow() if self.depth < 4 else self.swap()
        name, element = self.pick(*self.lists), self.fresh("e")
        form = self.number(0, 5)
        if form == 0:
            with self.block(f"while {name}:"):
                self.line(f"s += {name}.pop()")
        elif form == 1:
            with self.block(f"for {element} in {name}:"):
                self.line(f"t = max(t, {element})")
        elif form == 2:
            with self.block(f"if {name}:"):
                self.line(f"{name}[{self.pick(0, -1)}] = {self.leaf(INTEGERS)}")
        elif form == 3:
            with self.block(f"for {element}, f{element} in zip({name}, y):"):
                self.line(f"r += {element} % 5 * f{element}")
        elif form == 4:
            self.line(f"s += sum({name}) - len({name})")
        else:
            self.line(f"t = {name}[-1] if len({name}) > 0 else t")
        return None

    def listed(self) -> None:
        name, element = self.fresh("q"), self.fresh("e")
        made = self.pick(
            f"[{element} * 2 for {element} in x]",
            f"[{element} for {element} in x if {element} > 1]",
            f"[x[{element}] - {element} for {element} in range(n) if x[{element}] != {element}]",
        )
        self.line(f"{name} = {made}")
        self.lists.append(name)

    # Arrays.

    def overlapping(self) -> None:
        name = self.pick("x", "y", "a", "b")
        operator = self.pick("=", "+=", "-=")
        self.line(self.pick(
            f"{name}[1:] {operator} {name}[:-1]", f"{name}[:-1] {operator} {name}[1:]",
            f"{name}[::-1] {operator} {name}", f"{name} {self.pick('+=', '-=')} {name}[::-1]",
            f"{name}[1:-1] = {name}[:-2] - {name}[2:]", f"{name}[::2] {operator} 1",
            f"{name}[...] = {name}[::-1]", f"{name}[[0, -1]] = {name}[[-1, 0]]",
        ))  # fmt: skip

    def whole(self) -> None:
        name = self.pick("x", "y")
        other = self.pick("x", f"a[:, {self.subscript('m')}]") if name == "x" else "y"
        index = self.subscript("n")
        self.line(f"{name}[:] = " + self.pick(
            f"np.sort({other})", f"np.cumsum({other})", f"np.roll({other}, {self.number(-2, 2)})",
            f"np.where({other} > {name}[{index}], {other}, {name} - 1)",
            f"np.minimum({other}, {name}[::-1])", f"{other}[np.argsort(x, kind='stable')]",
            f"{name}[x % n]", f"np.abs({other})", f"np.maximum.accumulate({other})",
        ))  # fmt: skip

    def reduced(self) -> None:
        element = self.fresh("e")
        index = self.subscript("n")
        self.line("s += " + self.pick(
            "np.argmax(x)", f"np.sum(a[{index}])", "x[x > 0].sum()", "x[::-2].sum()",
            f"np.count_nonzero(x > {self.leaf(INTEGERS)})", "np.max(a[:, 0]) - np.min(x)",
            f"sum({element} % 7 for {element} in x)",
            f"any({element} == {self.leaf(INTEGERS)} for {element} in x)",
            f"(x[{index}:] % 9).sum()", f"np.dot(x, a[:, {self.subscript('m')}])",
        ))  # fmt: skip

    def view(self) -> None:
        name = self.fresh("v")
        self.line(f"{name} = " + self.pick("x[::-1]", f"a[:, {self.subscript('m')}]", "x"))
        self.line(f"{name}[{self.subscript('n')}] {self.pick('=', '+=')} {self.leaf(INTEGERS)}")
        if self.number(0, 1):
            self.line(f"x {self.pick('+=', '-=')} {name}")

    def local(self) -> None:
        name = self.fresh("w")
        self.line(f"{name} = " + self.pick("x.copy()", "np.zeros(n, np.int64)", "x - x[::-1]"))
        self.line(f"{name}[{self.subscript('n')}] = {self.value(INTEGERS, 1)}")
        self.line(f"{name}[{name} > {self.leaf(INTEGERS)}] {self.pick('=', '+=')} 2")
        self.line(self.pick(f"s += {name}.sum()", f"x[:] = {name}[::-1]", f"x += {name}"))

    def swap(self) -> None:
        one, other = self.subscript("n"), self.subscript("n")
        self.line(self.pick(
            f"x[{one}], x[{other}] = x[{other}], x[{one}]", "s, t = t, s + 1",
            f"a[{one}], a[{other}] = a[{other}].copy(), a[{one}].copy()",
        ))  # fmt: skip

    # Calls and results.

    def call(self) -> None:
        array = self.pick("x", "a[:, 0]", "x[::-1]", f"a[{self.subscript('n')}]")
        name = self.helper(self.pick(*HELPERS))
        if name == "clipped":
            self.line(f"s += {name}({self.leaf(INTEGERS)}, {self.leaf(INTEGERS)})")
        elif name == "before_large":
            self.line(f"t = {name}({array})")
        elif name == "pair":
            first, second = self.fresh("p"), self.fresh("p")
            self.line(f"{first}, {second} = {name}({self.leaf(INTEGERS)})")
            self.line(f"s += {first} - 2 * {second}")
        elif name == "running":
            self.line(f"{name}({array}, {self.leaf(INTEGERS)})")
        else:
            self.line(f"{name}({array})")

    def pairs(self) -> None:
        name = self.fresh("p")
        self.line(f"{name} = {self.value(INTEGERS, 1)}, {self.value(INTEGERS, 1)}")
        self.line(f"s += {name}[{self.pick('0', 's % 2')}]")

    def give(self) -> None:
        with self.block(f"if {self.condition()}:"):
            self.line(RESULT)

    # Loops.

    def until(self) -> None:
        name = self.fresh("w")
        self.line(f"{name} = 0")
        with self.block("while True:"):
            self.line(f"{name} += 1")
            with self.block(f"if {name} > 3 or {self.condition()}:"):
                self.line("break")
            self.counters[name] = (1, 3)
            self.in_range.append(True)
            self.statements(1)
            self.in_range.pop()
            del self.counters[name]

    def best(self) -> None:
        name, element, place = self.fresh("b"), self.fresh("e"), self.fresh("i")
        self.line(f"{name} = None")
        rounds = f"for {place}, {element} in enumerate(x):"
        with self.block(rounds), self.block(f"if {name} is None or {element} > {name}:"):
            self.line(f"{name} = {element}")
            self.line(f"t = {place}")
        with self.block(f"if {name} is not None:"):
            self.line(f"s += {name}")

    def search(self) -> None:
        """A loop that something ends early, with an `else`."""
        name = self.fresh("i")
        extent = self.pick("n", "m")
        with self.block(f"for {name} in range({extent}):"):
            self.counters[name] = (0, self.extents[extent] - 1)
            self.in_range.append(True)
            with self.block(f"if {self.condition()}:"):
                returns = all(self.in_range) and self.number(0, 1)
                self.line(RESULT if returns else self.pick("break", "continue", "break"))
            self.statements(1)
            self.in_range.pop()
            del self.counters[name]
        with self.block("else:"):
            self.statements(1)


def write_kernel(number: Callable[[int, int], int]) -> Nest:
    """A function of the arrays and sizes of `Nest.arguments`, by drawn numbers."""
    extents = {"n": number(1, 6), "m": number(1, 6), "k": number(0, 5)}
    writer = KernelWriter(number, extents)
    for name, kind in SCALARS.items():
        writer.line(f"{name} = {0 if kind == INTEGERS else 0.0}")
    for _ in range(3):
        writer.statements(2)
    writer.line(RESULT)
    helpers = [HELPERS[name] for name in sorted(writer.helpers)]
    text = "\n".join([*helpers, f"def nest({', '.join(PARAMETERS)}):", *writer.lines, ""])
    return Nest(text, **extents)
