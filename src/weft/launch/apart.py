"""Stages that a device's memory is too small for: the CPU runs them, and a remark says so."""

from __future__ import annotations

from collections.abc import Sequence

from weft.errors import MemoryLimitError
from weft.fun import nodes as fun
from weft.plan.code import HostCode, StageCode
from weft.plan.segment import Layout
from weft.plan.setting import Compile


def compile_apart(error: MemoryLimitError, on_cpu: Compile) -> Compile:
    """How a stage is compiled that a device refused with an error."""

    def compile(
        program: fun.Program, layouts: tuple[Layout, ...], private: Sequence[str] = ()
    ) -> StageCode:
        return _Remarked(on_cpu(program, layouts), f"runs on the cpu: {error.found}")

    return compile


class _Remarked(HostCode):
    """The code of a stage with one more remark."""

    def __init__(self, code: StageCode, remark: str) -> None:
        self.integers, self.derived, self.workspace = code.integers, code.derived, code.workspace
        self.kernels, self.remarks = code.kernels, (remark, *code.remarks)
        self.strided = code.strided
        self.compile, self.run = code.compile, code.run  # type: ignore[method-assign]
        self.check = code.check
