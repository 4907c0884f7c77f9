"""`weft build`: modules that need no compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from weft.commands import weft

MODULE = '''"""Heat, and more."""
import numpy as np
import weft as wf

FACTOR = 0.25


def weighted(x):
    return FACTOR * x


@wf.kernel
def smooth(a: wf.f64[:, :], b: wf.f64[:, :]):
    """Four neighbours."""
    for i in wf.prange(1, a.shape[0] - 1):
        for j in wf.prange(1, a.shape[1] - 1):
            b[i, j] = weighted(a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


@wf.kernel
def relax(a: wf.f64[:], b: wf.f64[:], steps: wf.i64, twice: wf.boolean):
    for _ in range(steps):
        b[1:-1] = 0.5 * (a[:-2] + a[2:])
        a[1:-1] = 0.5 * (b[:-2] + b[2:])
    if twice:
        a *= 2


@wf.kernel("f32[:, :], f32[:, :] -> f32[:, :]")
def product(a, b):
    return a @ b + 1


@wf.kernel
def total(x: wf.f64[:], index: wf.i64[:]) -> float:
    s = 0.0
    for i in range(index.shape[0]):
        s += x[index[i]]
    return s
'''

USE = '''
import warnings
warnings.simplefilter("error")
import numpy as np
import heat_built as built
from weft.errors import DTypeError, OutOfBoundsError
from weft.runtime.toolchain import find_compiler

assert find_compiler() is None
assert built.smooth.__doc__ == "Four neighbours." and built.FACTOR == 0.25
random = np.random.default_rng(3)
for shape in ((9, 8), (300, 200)):
    a, b = random.random(shape), random.random(shape)
    wanted = b.copy()
    built.smooth.function(a, wanted)
    built.smooth(a, b)
    np.testing.assert_allclose(b, wanted)
    across = random.random(shape[::-1]).T
    built.smooth.function(a, wanted)
    built.smooth(a, across)
    np.testing.assert_allclose(across[1:-1, 1:-1], wanted[1:-1, 1:-1])
for steps in (0, 1, 2, 7):
    for twice in (False, True):
        x, y = random.random(30), random.random(30)
        u, v = x.copy(), y.copy()
        built.relax.function(u, v, steps, twice)
        built.relax(x, y, steps, twice)
        np.testing.assert_allclose(x, u)
        np.testing.assert_allclose(y, v)
m = random.random((20, 30)).astype(np.float32)
np.testing.assert_allclose(built.product(m, m.T), m @ m.T + 1, rtol=1e-5)
assert abs(built.total(np.arange(9.0), np.array([1, 8])) - 9) < 1e-12
try:
    built.total(np.arange(9.0), np.array([1, 9]))
except OutOfBoundsError as error:
    assert "heat_built.py" in str(error)
else:
    raise AssertionError("no error")
try:
    built.smooth(a.astype(np.float32), b)
except DTypeError as error:
    assert "astype" in str(error)
else:
    raise AssertionError("no error")
print("all is well")
'''


def run(*arguments: str) -> Result:
    return CliRunner().invoke(weft, ["build", *arguments])


def python(folder: Path, text: str, **changed: str) -> subprocess.CompletedProcess[str]:
    """Run a script that finds no compiler, and no cache with anything in it."""
    environment = {
        **{k: v for k, v in os.environ.items() if k not in ("CC", "PATH")},
        "PATH": "", "WEFT_CACHE_DIR": str(folder / "cache"), **changed,
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-c", text], cwd=folder, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("built")
    (found / "heat.py").write_text(MODULE)
    result = run(str(found / "heat.py"))
    assert result.exit_code == 0, result.output
    assert "smooth, relax, product, total" in result.output
    return found


def test_a_built_module_needs_no_compiler(folder: Path) -> None:
    result = python(folder, USE)
    assert result.stdout == "all is well\n", result.stderr


def test_what_was_not_built_is_interpreted_with_a_warning(folder: Path) -> None:
    text = (
        "import numpy as np, heat_built as built\n"
        "a, b = np.ones((1, 5)), np.ones((1, 5))\nbuilt.smooth(a, b)\nprint(b.sum())"
    )
    result = python(folder, text)
    assert result.stdout == "5.0\n", result.stderr


@pytest.mark.parametrize("what", ["processor", "version"])
def test_a_library_for_another_machine_or_weft_is_left_alone(folder: Path, what: str) -> None:
    name = "runtime.built.cpu_features" if what == "processor" else "kernel.build.version"
    text = (
        "import unittest.mock, warnings\n"
        f"with unittest.mock.patch('weft.{name}', lambda: 'another'):\n"
        "    with warnings.catch_warnings(record=True) as caught:\n"
        "        warnings.simplefilter('always')\n"
        "        import heat_built\n"
        "print(caught[0].message)"
    )
    result = python(folder, text)
    assert f"another {'processor' if what == 'processor' else 'version of Weft'}" in result.stdout


def test_a_library_that_is_gone(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "heat_built.py").write_text((folder / "heat_built.py").read_text())
    result = python(tmp_path, "import heat_built\nprint(heat_built.FACTOR)")
    assert result.stdout == "0.25\n"
    assert "run `weft build` again" in result.stderr


WRONG = {
    "a parameter without a type": (
        "import weft as wf\n\n@wf.kernel\ndef f(a: wf.f64[:], n):\n    a[0] = n\n",
        ["parameter n of f has no type", "wrong.py:4:21", "def f(a: wf.f64[:], n):", "n: weft.f64"],
    ),
    "no kernels": ("def f(x):\n    return x\n", ["has no kernels", "@weft.kernel"]),
    "a kernel that cannot be compiled": (
        "import weft as wf\n\n@wf.kernel\ndef f(a: wf.f64[:]):\n    try:\n        a[0] = 1\n"
        "    finally:\n        pass\n",
        ["try in a kernel", "wrong.py:5:5"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_built(tmp_path: Path, name: str) -> None:
    text, messages = WRONG[name]
    (tmp_path / "wrong.py").write_text(text)
    result = run(str(tmp_path / "wrong.py"))
    assert result.exit_code == 1
    for message in messages:
        assert message in result.output
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["wrong.py"]


def test_no_file_and_the_same_file(tmp_path: Path) -> None:
    assert "does not exist" in run(str(tmp_path / "none.py")).output
    path = tmp_path / "one.py"
    path.write_text(MODULE)
    assert "which is the input" in run(str(path), "-o", str(path)).output
