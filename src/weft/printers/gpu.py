"""IMP kernels to text: what the dialects of devices have in common.

A kernel takes the record of failures (three int64: code, index, extent), its blocks of memory,
then its integers. Once something has failed, kernels that begin later do nothing; those before
which nothing can fail do not ask, since every item would wait for the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.imp import nodes as imp
from weft.imp.walk import holds
from weft.ops import helpers
from weft.ops.dtypes import DType
from weft.printers.c_like import Frame, Printer


class KernelPrinter(Printer):
    """Prints kernels, one function each."""

    memory: str  # the qualifier of pointers to memory
    entry: str  # what stands before a kernel's name
    item: str  # the number of a work item
    long: str  # the type of an int64
    group_memory: str  # the qualifier of what a group shares
    barrier_text: str
    claim: str  # an expression that is 0 for the first to set the failure to {code}
    fence: str  # orders what a work item writes to memory, for other groups
    next: str  # an expression that is the int at {pointer}, which becomes one more

    def kernel(self, kernel: imp.Kernel) -> None:
        """The function of a kernel, added to `functions`."""
        self.frame, self.depth, self.shared = Frame(), 0, set()
        self.groups: set[str] = set()  # pointers to what a group shares
        self.may_fail = holds(kernel.body, imp.Fail)
        params = [f"{self.memory}{self.long} *failed"]
        params += [f"{self.memory}char *{_block(number)}" for number in kernel.blocks]
        params += [f"const {self.long} {var.name}" for var in kernel.integers]
        self.depth = 1
        # A barrier waits for every item: all find the same, unless some fail meanwhile.
        alike = not (holds(kernel.body, imp.Barrier) and self.may_fail)
        if kernel.follows_failures and alike:
            self.line("if (failed[0]) return;")
        number = self.number(kernel.resident[0]) if kernel.resident[0] else self.item
        self.line(f"const {self.long} {kernel.item.name} = {number};")
        self.depth = 0
        self.block(kernel.body)
        entry = self.entry + self.resident(*kernel.resident)
        head = f"{entry} {kernel.name}({', '.join(params)}) {{"
        self.functions.append("\n".join([head, *self.frame.lines, "}", ""]))

    def resident(self, group: int, groups: int) -> str:
        """What says that so many groups of so many items have their registers at once."""
        return ""

    def number(self, group: int) -> str:
        """That of a work item, in groups of so many items: of its group all know the same."""
        return self.item

    def element(self, dtype: DType) -> str:
        """The type of an element in memory: booleans are bytes."""
        return self.type(DType.U8 if dtype is DType.BOOL else dtype)

    def view(self, view: imp.View) -> None:
        pointer = view.pointer
        volatile = "volatile " if view.volatile else ""
        type_ = f"{volatile}{self.memory}{self.element(pointer.dtype)} *"
        offset = "" if view.offset == imp.ZERO else f" + {self.expr(view.offset)}"
        restrict = f"{self.dialect.restrict} " if view.alone else ""
        self.line(
            f"{type_}{restrict}const {pointer.name} = ({type_})({_block(view.block)}{offset});"
        )

    def advance(self, pointer: imp.Pointer, address: str) -> None:
        self.line(f"{self.memory}{self.element(pointer.dtype)} *const {pointer.name} = {address};")

    def shared_array(self, type_: str, name: str, extent: int) -> None:
        self.groups.add(name)
        self.line(f"{self.group_memory}{type_} {name}[{extent}];")

    def barrier(self) -> None:
        self.line(self.barrier_text)

    def poll(self) -> None:
        if not self.may_fail:  # while it runs, it alone can
            return
        self.line(f"if (*(volatile {self.memory}{self.long} *)failed) return;")

    def ticket(self, declared: str, pointer: str) -> None:
        self.line(f"{declared} = {self.next.format(pointer=pointer)};")

    def receive(self, type_: str, name: str, element: str) -> None:
        self.line(f"{type_} {name};")
        self.line(f"do {name} = {element}; while ({name} == 0);")
        self.line(f"{self.fence};")

    def publish(self, address: str, value: str) -> None:
        self.line(f"{self.fence};")
        self.line(f"*({address}) = {value};")

    def fail(self, code: int, index: str, extent: str, stays: bool) -> None:
        claim = self.claim.format(code=code)
        self.line(f"if ({claim} == 0) {{ failed[1] = {index}; failed[2] = {extent}; }}")
        if not stays:
            self.line("return;")


def _block(number: int) -> str:
    return "workspace" if number < 0 else f"block{number}"


def print_with(printer: KernelPrinter, kernels: Sequence[imp.Kernel], header: str) -> str:
    """The text of kernels, after the helpers that they call."""
    for kernel in kernels:
        printer.kernel(kernel)
    text = "\n".join(printer.functions)
    needed = helpers.needed_helpers(printer.dialect.name, text)
    return "\n".join([header, *needed, text])
