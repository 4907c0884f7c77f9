"""Threads that are kept: each on its cores, one job at a time, and gone in a child."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection

import pytest

from weft.runtime import workers
from weft.runtime.threads import cores


def do(function: Callable[[], None], cores: tuple[int, ...] = ()) -> None:
    (job,) = workers.begin([(function, cores)])
    job.join()


def ran_by(cores: tuple[int, ...] = ()) -> int:
    """The thread that did a job."""
    found: list[int] = []
    do(lambda: found.append(threading.get_native_id()), cores)
    return found[0]


def test_a_thread_that_has_ended_its_job_takes_the_next() -> None:
    assert ran_by() == ran_by() != threading.get_native_id()


def test_jobs_under_way_have_threads_of_their_own() -> None:
    together = threading.Barrier(5, timeout=30)

    def meet() -> None:
        together.wait()

    jobs = workers.begin([(meet, ())] * 4)
    together.wait()
    for job in jobs:
        job.join()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores cannot be chosen")
def test_threads_stay_on_their_cores() -> None:
    found: list[set[int]] = []
    for core in cores():
        do(lambda: found.append(os.sched_getaffinity(0)), (core,))
    assert found == [{core} for core in cores()]
    assert ran_by(cores()[:1]) != ran_by()


def test_a_job_that_raises_ends_its_thread_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    def fail() -> None:
        raise ValueError("what a job should not do")

    do(fail)
    assert ran_by() == ran_by()  # threads that are alive


def _in_child(answer: Connection) -> None:
    answer.send(ran_by())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_child_has_threads_of_its_own() -> None:
    ran_by()
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=_in_child, args=(there,))
    child.start()
    assert here.poll(30), "the child waits for a thread that it does not have"
    assert here.recv() != ran_by()
    child.join()
