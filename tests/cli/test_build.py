"""`weft build`: modules that need no compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from weft.commands import weft
from weft.errors import SinkError
from weft.kernel.build import build, load_module
from weft.kernel.most_general import partitions

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


@wf.kernel
def count(h: wf.i64[:], g: wf.f64[:], index: wf.i64[:], x: wf.f64[:, :]):
    for i in wf.prange(index.shape[0]):
        h[index[i]] += 1
        g += x[i]
        for j in range(index[i]):
            g[j] += 1
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
for rounds in (5, 5000):
    index, x = random.integers(0, 4, rounds), np.ones((rounds, 4))
    found, wanted = ([np.zeros(4, np.int64), np.zeros(4)] for _ in range(2))
    built.count(*found, index, x)
    built.count.function(*wanted, index, x)
    np.testing.assert_array_equal(found, wanted)
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
    assert "smooth, relax, product, total, count" in result.output
    return found


def test_a_built_module_needs_no_compiler(folder: Path) -> None:
    result = python(folder, USE)
    assert result.stdout == "all is well\n", result.stderr


GENERAL = '''import numpy as np
import weft as wf


@wf.kernel
def lower(a: wf.f64[:, :], n: wf.i64):
    for i in range(n):
        for j in range(i):
            a[i, j] = 2 * a[i, j] + a[j, i]


@wf.kernel
def stepped(x: wf.f64[:], n: wf.i64, s: wf.i64):
    for i in range(0, n, s):
        x[i] += 1


@wf.kernel
def backwards(x: wf.f64[:], y: wf.f64[:], s: wf.i64):
    t = 0.0
    for i in range(x.shape[0] - 1, -1, s):
        t += x[i]
        y[i] = t


@wf.kernel
def add(x: wf.f64[:], y: wf.f64[:], z: wf.f64[:]):
    for i in range(x.shape[0]):
        z[i] = x[i] + y[i]


@wf.kernel
def around(a: wf.f64[:, :], b: wf.f64[:, :]):
    b[1:-1, 1:-1] = a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]


@wf.kernel
def product(a: wf.f64[:, :], b: wf.f64[:, :], c: wf.f64[:, :]):
    for i in wf.prange(c.shape[0]):
        for j in wf.prange(c.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s


@wf.kernel
def of_bits(x: wf.f64[:], k: wf.i64):
    for i in range(k.bit_length()):
        x[i] += 1
'''

EVERY = '''
import warnings
warnings.simplefilter("error")
import numpy as np
import general_built as built

random = np.random.default_rng(3)


def look(name, *given):
    """A call does what plain Python does; arguments that are one array are one there too."""
    kernel, copies = getattr(built, name), {}
    wanted = [copies.setdefault(id(a), np.copy(a)) if isinstance(a, np.ndarray) else a
              for a in given]
    kernel.function(*wanted)
    kernel(*given)
    for one, other in zip(given, wanted):
        np.testing.assert_allclose(one, other, err_msg=name)


for n in (0, 1, 2, 6):
    look("lower", random.random((6, 6)), n)
for n, s in ((20, 1), (20, 2), (20, 7), (7, 2), (1, 2), (0, 5)):
    look("stepped", random.random(20), n, s)
x = random.random(9)
for s in (-1, -2, -5):
    look("backwards", random.random(9), random.random(9), s)
    look("backwards", x, x, s)
for y, z in ((x, x), (x, random.random(9)), (random.random(9), x), (random.random(11), x)):
    look("add", x, y, z)
for n in (0, 1, 5):
    look("add", random.random(n), random.random(5), random.random(7))
for shape in ((1, 1), (1, 5), (5, 1), (2, 5), (5, 2), (5, 6)):
    look("around", random.random(shape), random.random(shape))
square = random.random((6, 6))
look("around", square, square)
for n, k, m in ((5, 6, 7), (1, 6, 7), (5, 1, 7), (5, 6, 1), (1, 1, 1)):
    look("product", random.random((n, k)), random.random((k, m)), random.random((n, m)))
look("product", square, square, random.random((6, 6)))
print("all is well")
'''


@pytest.fixture(scope="module")
def general(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("general")
    (found / "general.py").write_text(GENERAL)
    result = run(str(found / "general.py"))
    assert result.exit_code == 0, result.output
    return found


def test_calls_of_any_lengths_steps_and_arrays_that_are_one(general: Path) -> None:
    result = python(general, EVERY)
    assert result.stdout == "all is well\n", result.stderr


def test_what_was_not_built_is_interpreted_with_a_warning(general: Path) -> None:
    text = (
        "import numpy as np, general_built as built\n"
        "x = np.ones(9)\nbuilt.of_bits(x, 5)\nprint(x.sum())"
    )
    result = python(general, text)
    assert result.stdout == "12.0\n", result.stderr
    assert "of_bits was not built for arguments like these" in result.stderr


def test_a_general_program_checks_its_indices(general: Path) -> None:
    text = (
        "import numpy as np, general_built as built\n"
        "built.add(np.ones(9), np.ones(1), np.ones(9))"
    )
    assert "leave axis 0 of y, which has 1 elements" in python(general, text).stderr


def test_ways_in_which_arguments_are_one_array() -> None:
    """Of those that are written: reading one array twice is as reading two."""
    found = list(partitions(["a", "a", "b", "a", None], {3}))
    assert set(found) == {
        (0, 1, 2, 3, 4), (0, 1, 2, 0, 4), (0, 1, 2, 1, 4), (0, 0, 2, 0, 4),
    }  # fmt: skip
    assert found[0] == (0, 1, 2, 3, 4)
    assert len(found) == len(set(found))
    assert list(partitions(["a", "a"], set())) == [(0, 1)]


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
    "no Python": (
        "import weft as wf\n\ndef f(:\n    pass\n",
        ["wrong.py is no Python: invalid syntax", "wrong.py:3:7: def f(:"],
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


ADD = """import weft as wf

@wf.kernel
def add(x: wf.f64[:], y: wf.f64[:]):
    for i in range(x.shape[0]):
        y[i] += x[i]
"""


def test_modules_of_all_sorts(tmp_path: Path) -> None:
    """Data classes, parameters by keyword alone, names without .py, other encodings."""
    text = (
        "# -*- coding: latin-1 -*-\nfrom __future__ import annotations\n"
        "from dataclasses import dataclass\nimport weft as wf\n"
        "@dataclass\nclass Point:\n    x: float = 0.0\n    name: str = 'caf\u00e9'\n"
        "@wf.kernel\ndef scale(x: wf.f64[:], *, k: wf.f64 = 4.0, n: wf.i64 = 1):\n"
        "    for i in range(x.shape[0]):\n        x[i] = x[i] * k + n\n"
    )
    (tmp_path / "sorts").write_text(text, encoding="latin-1")
    result = run(str(tmp_path / "sorts"))
    assert result.exit_code == 0, result.output
    use = (
        "import warnings\nwarnings.simplefilter('error')\n"
        "import numpy as np, sorts_built as built\n"
        "x = np.ones(50)\nbuilt.scale(x)\nbuilt.scale(x, n=3, k=2.0)\n"
        "print(x[0], x[-1], len(built.Point().name))"
    )
    found = python(tmp_path, use)
    assert found.stdout == "13.0 13.0 4\n", found.stderr


def test_kernels_with_assertions(tmp_path: Path) -> None:
    """One that the first numbers to trace it with fail, and one that the data decide."""
    text = ADD.replace("    for", "    assert n > 8\n    for").replace("[:])", "[:], n: wf.i64)")
    text = text.replace("        y", "        assert x[i] < n, 'too large'\n        y")
    (tmp_path / "checked.py").write_text(text)
    result = run(str(tmp_path / "checked.py"))
    assert result.exit_code == 0, result.output
    use = (
        "import numpy as np, checked_built as built\nx, y = np.arange(20.0), np.ones(20)\n"
        "built.add(x, y, 20)\nprint(y.sum())\nbuilt.add(x, y, 12)"
    )
    found = python(tmp_path, use)
    assert found.stdout == "210.0\n", found.stderr
    assert "AssertionError: too large\nat " in found.stderr


def test_a_module_of_a_name_that_python_has(tmp_path: Path) -> None:
    before = sys.modules["json"]
    (tmp_path / "json.py").write_text(ADD)
    assert run(str(tmp_path / "json.py")).exit_code == 0
    assert sys.modules["json"] is before


def test_outputs_that_can_be_no_file(tmp_path: Path) -> None:
    """Nothing is compiled for them."""
    path = tmp_path / "add.py"
    path.write_text(ADD + "\nraise AssertionError('this was run')\n")
    for output, message in (
        (tmp_path / "none" / "x.py", "none does not exist"), (tmp_path, "is a folder"),
    ):  # fmt: skip
        result = run(str(path), "-o", str(output))
        assert result.exit_code == 1
        assert isinstance(result.exception, SystemExit)
        assert message in result.output


def test_a_module_that_fails_is_no_module(tmp_path: Path) -> None:
    (tmp_path / "failing_module.py").write_text("import weft_none\n")
    with pytest.raises(ModuleNotFoundError):
        load_module(tmp_path / "failing_module.py")
    assert "failing_module" not in sys.modules


def test_an_output_that_cannot_be_written_after_all(tmp_path: Path) -> None:
    """As on a disk that is full: the file that would be written is there, but takes nothing."""
    (tmp_path / ".libfull.so.part").mkdir()
    (tmp_path / "simple.py").write_text(
        "from weft import f64, kernel\n\n@kernel\ndef twice(x: f64[:]):\n    x *= 2\n"
    )
    with pytest.raises(SinkError, match=r"cannot write .*libfull\.so: Is a directory"):
        build(str(tmp_path / "simple.py"), str(tmp_path / "full.py"))
    assert not (tmp_path / "full.py").exists()
