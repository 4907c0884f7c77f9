"""The blocks of Python on pages for users run, in order, as they stand."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

HOUSE = Path(__file__).parents[2]
PAGES = ("README.md", "docs/guide.md")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def code(text: str) -> str:
    """All blocks as one module, each line at its number on the page."""
    lines = [""] * (text.count("\n") + 1)
    for block in BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1))
        body = block[1].splitlines()
        lines[first : first + len(body)] = body
    return "\n".join(lines)


@pytest.mark.parametrize("page", PAGES)
def test_blocks_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("elevation.npy", "big.npy"):  # the README's own files
        np.save(name, np.random.default_rng(1).random((400, 300)))
    module = tmp_path / "page.py"
    module.write_text(code((HOUSE / page).read_text(encoding="utf-8")), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("page", module)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
