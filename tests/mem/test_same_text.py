"""The same program becomes the same text in every process: else it is compiled again in each."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import hashlib
import numpy as np
import weft as wf
from weft.runtime import tiers

texts = []
load = tiers.load_library

def noting(source, *rest):
    texts.append(source)
    return load(source, *rest)

tiers.load_library = noting
wf.config(quick_start=False)  # each text once

@wf.jit
def rows(x):
    def row(r):
        parts = [wf.cumulative_sum(r * k) for k in range(1, 9)]
        return sum(wf.cumulative_sum(part[::-1]) for part in reversed(parts))
    return wf.map(row, x)

rows(np.ones((600, 50), np.float32))
assert texts
print(hashlib.sha256("".join(texts).encode()).hexdigest())
"""


@pytest.mark.parametrize("seed", ["1", "2"])
def test_text_does_not_depend_on_the_order_of_sets(seed, tmp_path):
    def text(seed: str) -> str:
        environment = {
            **os.environ, "PYTHONHASHSEED": seed, "WEFT_CACHE_DIR": str(tmp_path / seed),
        }  # fmt: skip
        command = [sys.executable, "-c", PROGRAM]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert text(seed) == text("0")
