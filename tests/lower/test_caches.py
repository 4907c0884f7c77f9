"""Sizes of caches are read from the system; where it says nothing, they are a guess."""

from __future__ import annotations

from pathlib import Path

from weft.lower.caches import Caches, caches, read_caches


def described(folder: Path, *entries: tuple[str, str, str, str]) -> Path:
    for number, texts in enumerate(entries):
        entry = folder / f"index{number}"
        entry.mkdir()
        for name, text in zip(
            ("type", "level", "size", "shared_cpu_list"), texts, strict=True
        ):
            (entry / name).write_text(text + "\n")
    return folder


def test_what_the_system_says(tmp_path: Path) -> None:
    folder = described(
        tmp_path, ("Data", "1", "32K", "0"), ("Instruction", "1", "32K", "0"),
        ("Unified", "2", "1024K", "0,8"), ("Unified", "3", "32M", "0-3,8-11"),
    )  # fmt: skip
    found = read_caches(folder)
    assert found == Caches(1 << 20, 4 << 20)
    assert found.blocks() == (5 << 19, 5 << 19)
    assert found.vector() == 24 << 10


def test_the_first_cache(tmp_path: Path) -> None:
    folder = described(
        tmp_path, ("Instruction", "1", "64K", "0"), ("Data", "1", "48K", "0"),
        ("Unified", "2", "2M", "0"),
    )  # fmt: skip
    assert read_caches(folder) == Caches(2 << 20, 2 << 20, first=48 << 10)
    assert read_caches(folder).vector() == 36 << 10


def test_a_block_takes_a_part_of_the_last_cache() -> None:
    assert Caches(1 << 19, 1 << 24).blocks() == (1 << 21, 5 << 20)
    assert Caches(1 << 20, 1 << 23).blocks() == (1 << 22, 5 << 20)
    assert Caches(1 << 20, 1 << 20).blocks() == (1 << 21, 1 << 21)
    assert Caches(1 << 20, 1 << 25, is_far=True).blocks() == (3 << 19, 1 << 21)


def test_parts_are_of_blocks_that_are_much_larger() -> None:
    assert Caches(1 << 20, 1 << 25).parts() == 7 << 17
    assert Caches(1 << 20, 1 << 25, is_far=True).parts() == 0


def test_what_is_missing_or_odd_is_passed_over(tmp_path: Path) -> None:
    assert read_caches(tmp_path) == Caches()
    described(tmp_path, ("Unified", "2", "large", "0"), ("Data", "1", "48K", "0"))
    assert read_caches(tmp_path) == Caches()
    assert min(caches().blocks()) > 0
