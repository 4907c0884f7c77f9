"""Options and fixtures that all tests share."""

from __future__ import annotations

import pytest
from golden_files import add_option, golden

__all__ = ["golden"]


def pytest_addoption(parser: pytest.Parser) -> None:
    add_option(parser)
