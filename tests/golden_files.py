"""Golden files: text that a test expects, at a path that is the test's name.

`golden(text)` compares with `tests/golden/<test file>/<test name>.txt`;
`pytest --update-golden` writes the files anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

DIRECTORY = Path(__file__).parent / "golden"


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compares a text with the test's golden file, or writes the file."""
    name = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")
    tests = Path(__file__).parent
    path = DIRECTORY / request.path.relative_to(tests).with_suffix("") / f"{name}.txt"

    def check(text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif not path.exists():
            pytest.fail(f"no golden file {path}: run pytest --update-golden and read it")
        else:
            assert text == path.read_text(), f"{path} differs; --update-golden if that is right"

    return check
