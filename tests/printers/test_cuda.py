"""Every kernel of the library as CUDA C++: NVRTC compiles it for a GPU, where it is installed."""

from __future__ import annotations

from typing import Any

import pytest
from programs.library import EXAMPLES

from weft.compiler import compile_segment
from weft.fun import nodes as fun
from weft.fun import walk

COMPILED = [
    name
    for name, example in EXAMPLES.items()
    if not any(isinstance(let.expr, fun.Call) for let in walk.statements(example.program.body))
]
COMPLEX = {"constants", "complex_multiply", "while_mandelbrot"}


@pytest.fixture(scope="module")
def compile_text() -> Any:
    core: Any = pytest.importorskip("cuda.core")
    options = core.ProgramOptions(arch="sm_80", fma=False)

    def compile_text(text: str) -> bytes:
        return core.Program(text, "c++", options).compile("cubin").code  # type: ignore[no-any-return]

    try:
        compile_text("")
    except Exception as error:
        pytest.skip(f"no NVRTC: {error}")
    return compile_text


@pytest.mark.parametrize("name", COMPILED)
def test_nvrtc_compiles_it(name: str, compile_text: Any) -> None:
    segment = compile_segment(EXAMPLES[name].program, {}, "", "cuda")
    if name in COMPLEX:
        assert segment.dialect == "c"
        return
    assert segment.dialect == "cuda"
    assert len(compile_text(segment.source)) > 0
