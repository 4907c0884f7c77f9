"""Errors name the lines of the graph that is run, not of the first one of its kind."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

import weft as wf


def test_a_failed_check_names_the_line_of_its_own_graph() -> None:
    x = wf.asarray(np.ones((400, 300)))
    index = np.array([400])
    lines = []
    for _ in range(2):
        first = wf.take(x, wf.asarray(index), axis=0); lines.append(_line())  # noqa: E702
        second = wf.take(x, wf.asarray(index), axis=0); lines.append(_line())  # noqa: E702
    for result, line in ((first, lines[2]), (second, lines[3])):
        with pytest.raises(wf.WeftError) as caught:
            result.numpy()
        place = caught.value.place
        assert place is not None
        assert (Path(place.file).name, place.line) == ("test_places.py", line)
        assert f"test_places.py:{line}" in str(caught.value)


def test_a_refused_plan_names_the_line_of_its_own_graph(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((2000, 1500)))
    x = wf.open(tmp_path / "x.npy")
    first = wf.sort(x, axis=0); lines = [_line()]  # noqa: E702
    second = wf.sort(x, axis=0); lines.append(_line())  # noqa: E702
    with wf.config(memory_limit="8 MiB"):
        for result, line in zip((first, second), lines, strict=True):
            with pytest.raises(MemoryError) as caught:
                result.numpy()
            assert f"test_places.py:{line}" in str(caught.value)


def test_modules_beside_weft_whose_names_begin_alike_are_the_users() -> None:
    file = f"{Path(wf.__file__).parent}_extra/module.py"
    names = {"wf": wf, "x": wf.asarray(np.ones(3))}
    exec(compile("\n\ny = wf.take(x, wf.asarray([7]))", file, "exec"), names)
    with pytest.raises(wf.WeftError) as caught:
        names["y"].numpy()
    assert f"{file}:3" in str(caught.value)


def _line() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno
