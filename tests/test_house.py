"""Which room of the house may import which: the table of ARCHITECTURE.md, enforced."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft

SOURCE = Path(__file__).parent.parent / "src" / "weft"

FUN_AND_BELOW = {"errors", "ops", "sizes", "lmad", "fun"}
COMPILER_AND_BELOW = FUN_AND_BELOW | {
    "frontend", "passes", "plan", "mem", "imp", "lower", "printers", "compiler"
}  # fmt: skip
EXECUTE_AND_BELOW = COMPILER_AND_BELOW | {"transfer", "runtime", "io", "execute"}
USER_FACING = {
    "array", "functions", "fft", "linalg", "jit", "kernel", "config", "launch", "progress",
}  # fmt: skip

MAY_IMPORT: dict[str, set[str]] = {
    "records": set(),
    "errors": set(),
    "ops": {"errors"},
    "sizes": {"errors"},
    "lmad": {"sizes", "errors"},
    "fun": {"ops", "sizes", "lmad", "errors"},
    "frontend": FUN_AND_BELOW,
    "passes": FUN_AND_BELOW,
    "plan": FUN_AND_BELOW,
    "transfer": FUN_AND_BELOW | {"passes", "plan"},
    "mem": FUN_AND_BELOW,
    "imp": {"ops", "errors"},
    "lower": FUN_AND_BELOW | {"mem", "imp", "plan"},
    "printers": {"imp", "ops", "errors"},
    "compiler": COMPILER_AND_BELOW,
    "runtime": {"plan", "sizes", "lmad", "errors"},
    "io": {"plan", "errors"},
    "config": {"errors", "runtime"},
    "progress": {"errors", "runtime"},
    "launch": EXECUTE_AND_BELOW | {"config"},
    "execute": EXECUTE_AND_BELOW | {"config", "launch", "progress"},
}

# The only modules of a room that others may see, where it is not the whole room.
WINDOWS: dict[tuple[str, str], set[str]] = {
    # Compiled segments, plans and protocols are data that several rooms hand on; those that
    # hold them may evaluate the sizes in them.
    ("runtime", "plan"): {
        "plan.segment", "plan.launches", "plan.launch_counts", "plan.protocols", "plan.nodes",
        "plan.code", "plan.rounds",
    },
    ("lower", "plan"): {"plan.segment", "plan.launches"},
    ("io", "plan"): {"plan.protocols"},
    ("transfer", "passes"): {"passes.fission"},
    ("transfer", "plan"): {"plan.footprint"},
}


def rooms() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py"))


def room_of(name: str) -> str:
    return name.split(".")[0]


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """The modules below `weft` that a file imports, and the line of each import."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(node)
        for test in ast.walk(tree)
        if isinstance(test, ast.If) and ast.unparse(test.test) == "TYPE_CHECKING"
        for node in ast.walk(test)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            module = node.module or ""
            inside = SOURCE.joinpath(*module.split(".")[1:])
            names = [
                f"{module}.{alias.name}" if is_module(inside / alias.name) else module
                for alias in node.names
            ]
        else:
            continue
        for name in names:
            if name == "weft" or name.startswith("weft."):
                yield name.removeprefix("weft").removeprefix("."), node.lineno


def is_module(path: Path) -> bool:
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


@pytest.mark.parametrize("path", rooms(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports(path: Path) -> None:
    here = path.relative_to(SOURCE).with_suffix("").parts
    room = here[0]
    if room in ("__init__", "__main__", "cli", "commands", "demo"):
        return
    allowed = MAY_IMPORT.get(room)
    if allowed is None:
        assert room in USER_FACING, f"{room} is not in the table: add it there"
        allowed = EXECUTE_AND_BELOW | USER_FACING
    for name, line in imported(path):
        target = room_of(name)
        if target in (room, "records"):
            continue
        if room == "array" and not name:
            continue  # __array_namespace__ gives the package itself
        assert name, f"{path}:{line}: import from the room, not from the package"
        assert target in allowed, f"{path}:{line}: {room} may not import {target}"
        seen = WINDOWS.get((room, target))
        assert seen is None or name in seen, f"{path}:{line}: {room} may not import {name}"


def public() -> Iterator[tuple[str, object]]:
    for name in weft.__all__:
        value = getattr(weft, name)
        if isinstance(value, type) and value.__module__.startswith("weft."):
            for member in sorted(vars(value).keys() | dir(value)):
                if not member.startswith("_") and not hasattr(Exception, member):
                    yield f"{name}.{member}", getattr(value, member)
        if callable(value):
            yield name, value
    for module in (weft.fft, weft.linalg):
        for name in module.__all__:
            yield f"{module.__name__}.{name}", getattr(module, name)


def test_what_is_public_says_what_it_does() -> None:
    assert not [name for name, value in public() if not inspect.getdoc(value)]


def test_the_table_names_rooms_that_exist() -> None:
    existing = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in rooms()}
    assert set(MAY_IMPORT) | USER_FACING <= existing


def test_files_that_pages_of_the_design_name_exist() -> None:
    house = SOURCE.parent.parent
    pages = [house / "ARCHITECTURE.md", *sorted((house / "docs").rglob("*.md"))]
    names: set[str] = set()
    missing = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        named = set(re.findall(r"`([\w/]+(?:\.py|\.c|/))`", text))
        linked = set(re.findall(r"\]\(([^)#:]+\.md)\)", text))
        names |= named | linked
        missing += [
            f"{page.name}: {name}" for name in sorted(named)
            if not (house / name).exists() and not (SOURCE / name).exists()
            and not any(SOURCE.rglob(name))
        ]  # fmt: skip
        missing += [f"{page.name}: {name}" for name in linked if not (page.parent / name).exists()]
    assert len(names) > 100
    assert not missing


def test_no_room_is_called_utils() -> None:
    assert not [path for path in rooms() if "util" in path.name]


@pytest.mark.parametrize(
    "path",
    [path for path in rooms() if path.name != "__init__.py"],
    ids=lambda p: str(p.relative_to(SOURCE)),
)
def test_every_module_says_what_it_is(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), f"{path} has no docstring"


GOLDEN_ELSEWHERE = {
    "fuse_horizontal": "test_fuse/test_horizontal_golden.txt",  # a half of `fuse`
    "fuse_vertical": "test_fuse/test_vertical_golden.txt",  # the other one
    "remove_dead": "test_simplify/test_dead_results.txt",  # what `simplify` leaves
    "share": "test_simplify/test_share.txt",  # likewise
}


def passes() -> Iterator[str]:
    """The modules that have a pass: a function of their name of a program, or of statements."""
    yield "triangles"
    for path in sorted((SOURCE / "passes").glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name == path.stem and node.args.args:
                first = node.args.args[0].annotation
                if first is not None and ast.unparse(first) == "fun.Program":
                    yield path.stem


@pytest.mark.parametrize("name", list(passes()))
def test_every_pass_has_a_golden(name: str) -> None:
    goldens = Path(__file__).parent / "golden" / "passes"
    if name in GOLDEN_ELSEWHERE:
        assert (goldens / GOLDEN_ELSEWHERE[name]).exists()
    else:
        found = list((goldens / f"test_{name}").glob("*.txt"))
        assert found, f"tests/passes/test_{name}.py compares nothing with a golden file"
