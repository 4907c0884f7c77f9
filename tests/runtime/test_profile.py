"""Measured timelines."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from weft.runtime import profile as profiles
from weft.runtime.profile import Profile, in_event, profile, span


def test_nothing_is_recorded_outside() -> None:
    assert profiles.recorder is None
    with span("kernel", "cpu"):
        pass
    with profile() as measured:
        assert profiles.recorder is measured
        with span("kernel", "cpu", 1 << 30):
            pass
    assert profiles.recorder is None
    with span("after", "cpu"):
        pass
    assert [event.name for event in measured.events] == ["kernel"]


def test_parts_of_an_event_are_not_recorded_again() -> None:
    with profile() as measured, span("box", "compute"), in_event(), span("kernel", "cpu"):
        pass
    assert [event.name for event in measured.events] == ["box"]


def test_profiles_nest() -> None:
    with profile() as outer:
        with profile() as inner, span("a", "cpu"):
            pass
        with span("b", "cpu"):
            pass
    assert [event.name for event in inner.events] == ["a"]
    assert [event.name for event in outer.events] == ["a", "b"]


def test_profiles_of_threads_end_in_any_order() -> None:
    first, second = profile(), profile()
    one = first.__enter__()
    other = second.__enter__()
    with span("both", "cpu"):
        pass
    first.__exit__(None, None, None)
    with span("one left", "cpu"):
        pass
    second.__exit__(None, None, None)
    assert profiles.recorder is None
    assert [event.name for event in one.events] == ["both"]
    assert [event.name for event in other.events] == ["both", "one left"]


def test_library_calls_are_recorded() -> None:
    x = np.random.default_rng(1).random((300, 300))
    for name, function in (("sort", wf.sort), ("matmul", lambda a: a @ a)):
        compiled = wf.jit(function)
        for _ in range(2):
            with profile() as measured:
                compiled(x)
            found = [event for event in measured.events if event.name.startswith(name)]
            assert len(found) == 1, measured.events
            assert found[0].queue == "cpu"
            assert found[0].bytes >= 2 * x.nbytes
            assert measured.start <= found[0].start < found[0].end <= (measured.end or 0)


def test_pictures_by_their_name(tmp_path: Path) -> None:
    made().save(tmp_path / "timeline.SVG")
    assert (tmp_path / "timeline.SVG").read_text().startswith("<svg")


def made() -> Profile:
    measured = Profile()
    measured.start, measured.end = 10.0, 14.0
    measured.record("read", "read", 10.0, 12.0, 4 << 30)
    measured.record("kernel", "cpu", 11.0, 13.0, 1 << 30)
    measured.record("kernel", "cpu", 13.0, 13.5, 1 << 30)
    measured.record("nested", "cpu", 12.0, 12.5)
    return measured


def test_summary() -> None:
    lines = made().summary().splitlines()
    assert lines[0] == "4.000 s, 4 events"
    assert "2.00 GiB/s" in lines[1]
    assert "read" in lines[1]
    assert "2 x" in lines[2]
    assert "2 GiB" in lines[2]
    assert "busy 3.5000 s of 4.0000 s; 1.0000 s with more than one queue" in lines[-1]
    assert lines[-1].endswith("(overlap 1.29)")  # 2 s and 2.5 s, within 3.5 s
    assert made().overlap == pytest.approx(4.5 / 3.5)
    named = made()
    named.events.append(named.events[0]._replace(queue="opencl:0.0 compute"))
    *rows, _ = named.summary().splitlines()[1:]
    assert len({row.index(" x ") for row in rows}) == 1
    assert Profile().summary().endswith("0 events")
    assert Profile().overlap == 1


def test_trace_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    made().save(path)
    events = json.loads(path.read_text())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    kernels = [e for e in events if e["ph"] == "X" and e["name"] == "kernel"]
    assert sorted(names.values()) == ["cpu", "read"]
    assert {names[e["tid"]] for e in kernels} == {"cpu"}
    assert kernels[0]["ts"] == 1e6
    assert kernels[0]["dur"] == 2e6
    assert kernels[0]["args"] == {"bytes": 1 << 30}


def test_the_timeline_as_a_picture(tmp_path: Path) -> None:
    from xml.etree import ElementTree

    measured = made()
    measured.save(tmp_path / "timeline.svg")
    root = ElementTree.parse(tmp_path / "timeline.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    titles = [title.text for title in root.iter(f"{space}title")]
    assert len(titles) == len(measured.events)
    assert "read: 2 s, 4 GiB" in titles
    texts = [text.text for text in root.iter(f"{space}text")]
    assert {"read", "cpu", "50%"} <= set(texts)
    (heading,) = (text for text in texts if text and "4 events" in text)
    assert heading.startswith("4 s, 4 events; something at work ")
    bars = [bar for bar in root.iter(f"{space}rect") if bar.find(f"{space}title") is not None]
    widths = sorted(float(bar.get("width", 0)) for bar in bars)
    assert widths[-1] == 480.0  # two of four seconds


def test_rows_of_a_device_stand_together_in_the_order_of_a_box(tmp_path: Path) -> None:
    from xml.etree import ElementTree

    with profile() as measured:
        pass
    queues = ["b:0 out", "a:0 write", "b:0 in", "a:0 compute", "b:0 compute", "a:0 read"]
    for number, queue in enumerate(queues):
        measured.record("something", queue, measured.start + number, measured.start + number + 1)
    measured.end = measured.start + 6
    measured.save(tmp_path / "timeline.svg")
    root = ElementTree.parse(tmp_path / "timeline.svg").getroot()
    texts = list(root.iter("{http://www.w3.org/2000/svg}text"))
    at = {text.text: float(text.get("y", 0)) for text in texts if text.text in queues}
    order = ["a:0 read", "a:0 compute", "a:0 write", "b:0 in", "b:0 compute", "b:0 out"]
    assert sorted(at, key=at.__getitem__) == order
    assert at["b:0 in"] - at["a:0 write"] > at["b:0 compute"] - at["b:0 in"]
    width = float(root.get("width", 0))
    for bar in root.iter("{http://www.w3.org/2000/svg}rect"):
        assert float(bar.get("x", 0)) + float(bar.get("width", 0)) <= width


def test_a_picture_of_nothing(tmp_path: Path) -> None:
    with profile() as measured:
        pass
    measured.save(tmp_path / "timeline.svg")
    assert "0 events" in (tmp_path / "timeline.svg").read_text()
