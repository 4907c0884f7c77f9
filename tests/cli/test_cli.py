"""The `weft` command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from weft.commands import weft
from weft.runtime.cache import open_cache


def run(*arguments: str) -> Result:
    return CliRunner().invoke(weft, arguments)


def test_help() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for name in ("devices", "explain", "bench", "cache", "demo"):
        assert name in result.output


def test_devices() -> None:
    result = run("devices")
    assert result.exit_code == 0, result.output
    assert "cpu" in result.output
    assert "compiler" in result.output


def test_cache() -> None:
    result = run("cache")
    assert result.exit_code == 0, result.output
    assert str(open_cache().directory) in result.output


def test_clear_cache(tmp_path: Path) -> None:
    script = (
        "from weft.runtime.cache import open_cache; open_cache().save('key', '.txt', b'x');"
        "from weft.commands import weft; weft(['cache', '--clear'], standalone_mode=False);"
        "print(open_cache().info().files)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "removed 1 files" in run.stdout
    assert run.stdout.split()[-1] == "0"


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "program.py").write_text(
        "import weft as wf\n"
        "def centred(x):\n"
        "    return x - wf.mean(x, axis=0)\n"
        "@wf.kernel\n"
        "def doubled(a, b):\n"
        "    for i in range(a.shape[0]):\n"
        "        b[i] = 2 * a[i]\n"
    )  # fmt: skip
    (tmp_path / "broken.py").write_text("def f(x):\n    return (\n")
    np.save(tmp_path / "x.npy", np.ones((4000, 100)))
    return str(tmp_path / "program.py")


def test_explain(program: str, tmp_path: Path) -> None:
    result = run("explain", f"{program}:centred", str(tmp_path / "x.npy"))
    assert result.exit_code == 0, result.output
    assert "x.npy" in result.output
    page = tmp_path / "plan.html"
    result = run("explain", f"{program}:centred", str(tmp_path / "x.npy"), "--html", str(page))
    assert result.exit_code == 0, result.output
    assert "<" in page.read_text()


def test_explain_a_kernel(program: str, tmp_path: Path) -> None:
    """Its data are arrays, of any file, and stay as they are."""
    before = (tmp_path / "x.npy").read_bytes()
    other = tmp_path / "y.h5"
    h5py = pytest.importorskip("h5py")
    with h5py.File(other, "w") as file:
        file["y"] = np.ones((4000, 100))
    result = run("explain", f"{program}:doubled", str(tmp_path / "x.npy"), f"{other}::y")
    assert result.exit_code == 0, result.output
    assert "in core, at once" in result.output
    assert (tmp_path / "x.npy").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("explain", "{program}"), "FILE.PY:FUNCTION"),
        (("explain", "missing.py:f"), "does not exist"),
        (("explain", "{program}:other"), "one of centred, doubled"),
        (("explain", "{program}:centred"), "0 inputs for"),
        (("explain", "{program}:centred", "{x}", "{x}"), "2 inputs for"),
        (("explain", "{program}:doubled", "{x}"), "1 input for"),
        (("explain", "{program}:centred", "{x}", "--html", "{x}/none/p.html"), "does not exist"),
        (("explain", "{program}:centred", "{x}", "--html", "/dev/full"), "file system is full"),
        (("explain", "{broken}:f"), "broken.py:2:12: return ("),
        (("explain", "{program}:centred", "missing.npy"), "cannot read"),
        (("demo", "--gib", "0"), "positive"),
        (("demo", "--gib", "nan"), "positive"),
        (("demo", "--gib", "inf"), "positive"),
        (("demo", "--gib", "0.001", "--out", "{x}"), "cannot write"),
        (("demo", "--gib", "0.001", "--out", "{x}/part"), "cannot write"),
        (("demo", "--gib", "0.001", "--out", "{folder}", "--memory", "x"), "not a size"),
    ],
)
def test_refusals(arguments: tuple[str, ...], message: str, program: str) -> None:
    folder = Path(program).parent
    files = {"program": program, "x": folder / "x.npy", "broken": folder / "broken.py",
             "folder": folder}
    result = run(*(argument.format(**files) for argument in arguments))
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert message in result.output
    assert "Traceback" not in result.output
    assert "click" not in result.output  # whose lines are not the user's


def test_without_click() -> None:
    script = "import sys; sys.modules['click'] = None; from weft.cli import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert "pip install" in run.stderr
    assert "Traceback" not in run.stderr


def test_as_a_module() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "weft", "--help"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "explain" in run.stdout
