"""The same program becomes the same text in every process: else it is compiled again in each."""

import os
import subprocess
import sys

PROGRAM = """
import hashlib
import sys
import numpy as np
import weft as wf
from weft.runtime import tiers

def noting(source, *rest):
    print(len(source), hashlib.sha256(source.encode()).hexdigest())
    sys.exit()  # before it is compiled

tiers.load_library = noting
wf.config(quick_start=False)

@wf.jit
def rows(x):
    def row(r):
        parts = [wf.cumulative_sum(r * k) for k in range(1, 9)]
        return sum(wf.cumulative_sum(part[::-1]) for part in reversed(parts))
    return wf.map(row, x)

rows(np.ones((600, 50), np.float32))
"""


def test_text_does_not_depend_on_the_order_of_sets():
    def text(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PROGRAM]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout

    texts = [text(seed) for seed in ("0", "1", "2")]
    assert int(texts[0].split()[0]) > 100_000
    assert texts[1:] == texts[:1] * 2
