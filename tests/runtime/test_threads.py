"""Thread counts, and the C pool under calls from threads, forks, signals."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from runtime import segments

from weft.errors import OutOfBoundsError
from weft.runtime import threads
from weft.runtime.devices.cpu import CpuDevice
from weft.runtime.threads import CancelFlag, Cancelled
from weft.runtime.toolchain import find_compiler

TESTS = str(Path(__file__).parents[1])

pytestmark = pytest.mark.skipif(not CpuDevice.available(), reason="no C compiler")


@pytest.fixture(scope="module")
def device() -> CpuDevice:
    return CpuDevice()


def run_script(
    script: str, *arguments: str, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own, with the hand-written segments importable."""
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {TESTS!r})\n"
         + textwrap.dedent(script), *arguments],
        capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip


def doubled(device: CpuDevice, n: int, tile: int, count: int) -> None:
    x, y = np.arange(float(n)), np.zeros(n)
    device.load(segments.double()).call((n, tile, count), (x.ctypes.data, y.ctypes.data, 0))
    np.testing.assert_array_equal(y, 2 * x)


# ---------------------------------------------------------------- counts


def test_default_is_affinity_capped_by_omp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)))
    monkeypatch.setattr(threads, "_cgroup_cpus", lambda: None)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert threads.default_threads() == 6
    monkeypatch.setenv("OMP_NUM_THREADS", "4,2")
    assert threads.default_threads() == 4
    monkeypatch.setenv("OMP_NUM_THREADS", "nonsense")
    assert threads.default_threads() == 6
    monkeypatch.setattr(threads, "_cgroup_cpus", lambda: 2.5)
    assert threads.default_threads() == 3


@pytest.mark.parametrize(
    ("files", "membership", "expected"),
    [
        ({"cpu.max": "150000 100000"}, "0::/", 1.5),
        ({"cpu.max": "max 100000"}, "0::/", None),
        ({"cpu.max": "400000 100000", "a/cpu.max": "max 100000", "a/b/cpu.max": "200000 100000"},
         "0::/a/b", 2.0),
        ({"cpu/a/cpu.cfs_quota_us": "300000", "cpu/a/cpu.cfs_period_us": "100000"},
         "4:cpu,cpuacct:/a", 3.0),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, "4:cpu:/x/y", None),
    ],
)  # fmt: skip
def test_cgroup_quotas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], membership: str,
    expected: float | None,
) -> None:  # fmt: skip
    for name, text in files.items():
        path = tmp_path / "sys" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    (tmp_path / "cgroup").write_text(membership + "\n")
    directories = threads.cgroup_directories
    monkeypatch.setattr(
        threads, "cgroup_directories",
        lambda controller, root: directories(controller, root, str(tmp_path / "cgroup")),
    )  # fmt: skip
    assert threads._cgroup_cpus(str(tmp_path / "sys")) == expected


# ---------------------------------------------------------------- the pool


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(("n", "tile"), [(0, 4), (1, 4), (4, 4), (5, 4), (10007, 13)])
def test_every_tile_runs_once(device: CpuDevice, n: int, tile: int, count: int) -> None:
    doubled(device, n, tile, count)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_thread_indices_are_unique(device: CpuDevice, count: int) -> None:
    cell = np.zeros(2, np.int64)
    device.load(segments.spin()).call((60, count), (cell.ctypes.data, 0))
    assert cell[0] == 60  # -1 if two running tiles shared an index


def test_workers_share_the_tiles(device: CpuDevice) -> None:
    cell = np.zeros(2, np.int64)
    device.load(segments.spin()).call((400, 3), (cell.ctypes.data, 0))
    assert cell[1] in (1, 2)
    assert threads.pool().workers() >= 2


@pytest.mark.parametrize("tiles", [1, 2, 7, 101, 4096])
@pytest.mark.parametrize("count", [2, 3, 200])
def test_a_thread_leaves_a_share_when_it_is_done(
    device: CpuDevice, tiles: int, count: int
) -> None:
    cells = np.full((tiles, 2), -1, np.int64)
    device.load(segments.order()).call((tiles, 0, count), (cells.ctypes.data, 0))
    assert sorted(cells[:, 1]) == list(range(tiles))
    parts = min(tiles, count, 64)
    bounds = [tiles // parts * i + tiles % parts * i // parts for i in range(parts + 1)]
    share = np.searchsorted(bounds, np.arange(tiles), side="right")
    in_order = np.argsort(cells[:, 1])
    for thread in np.unique(cells[:, 0]):
        mine = in_order[cells[in_order, 0] == thread]
        entered = [share[tile] for tile in mine]
        runs = [s for i, s in enumerate(entered) if i == 0 or entered[i - 1] != s]
        assert len(set(runs)) == len(runs)  # never back to a share that it left
        assert all(np.diff(mine)[np.diff(entered) == 0] > 0)  # and in order within one


@pytest.mark.parametrize("count", [1, 2, 7])
def test_ordered_tiles_begin_in_order(device: CpuDevice, count: int) -> None:
    cells = np.full((999, 2), -1, np.int64)
    device.load(segments.order()).call((999, 1, count), (cells.ctypes.data, 0))
    assert sorted(cells[:, 1]) == list(range(999))
    in_order = np.argsort(cells[:, 1])
    for thread in np.unique(cells[:, 0]):
        assert all(np.diff(in_order[cells[in_order, 0] == thread]) > 0)


def test_calls_from_many_threads(device: CpuDevice) -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for round_ in range(60):
                doubled(device, 1000 + 37 * seed + round_, 50, 1 + (seed + round_) % 4)
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()
    assert not failures


def test_a_failure_names_array_index_and_place(device: CpuDevice) -> None:
    gather = device.load(segments.gather())
    indices = np.arange(500, dtype=np.int64)
    gather.call((500, 2), (indices.ctypes.data, 0))
    indices[321] = 500
    with pytest.raises(OutOfBoundsError, match=r"index 500 .* axis 0 of p0.* 500") as caught:
        gather.call((500, 2), (indices.ctypes.data, 0))
    assert caught.value.place is not None
    assert caught.value.place.file == segments.__file__


def test_a_flag_cancels_from_another_thread(device: CpuDevice) -> None:
    cell = np.zeros(2, np.int64)
    flag = CancelFlag()
    timer = threading.Timer(0.1, flag.set)
    timer.start()
    start = time.perf_counter()
    with pytest.raises(Cancelled):
        device.load(segments.spin()).call((100_000, 2), (cell.ctypes.data, 0), cancel=flag)
    assert time.perf_counter() - start < 5
    assert flag
    assert 0 < cell[0] < 100_000


# ---------------------------------------------------------------- interrupts


INTERRUPTED = """
    import os, signal, threading, time
    import numpy as np
    from runtime import segments
    from weft.runtime.devices.cpu import CpuDevice
    cell = np.zeros(2, np.int64)
    spin = CpuDevice().load(segments.spin())
    spin.call((4, 2), (cell.ctypes.data, 0))
    {setup}
    sent = []
    def interrupt():
        time.sleep(0.2)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    try:
        spin.call(({tiles}, 2), (cell.ctypes.data, 0))
        print("finished", end=" ")
    except KeyboardInterrupt:
        print("interrupted", time.perf_counter() - sent[0] < 1.0, end=" ")
    {after}
"""


def test_interrupt_stops_a_long_kernel() -> None:
    result = run_script(INTERRUPTED.format(
        setup="before = signal.getsignal(signal.SIGINT)", tiles=200_000,
        after="print(signal.getsignal(signal.SIGINT) is before)\n"
        "    spin.call((4, 2), (cell.ctypes.data, 0)); print('again')",
    ))  # fmt: skip
    assert result.stdout.split() == ["interrupted", "True", "True", "again"], result.stderr


AGAIN = """
    threading.Thread(target=interrupt).start()
    try:
        spin.call((200_000, 2), (cell.ctypes.data, 0))
    except KeyboardInterrupt:
        print("twice")
    """


def test_a_second_interrupt_works_as_the_first() -> None:
    result = run_script(INTERRUPTED.format(setup="", tiles=200_000, after=AGAIN))
    assert result.stdout.split() == ["interrupted", "True", "twice"], result.stderr


LIKE_LLVM = """
#include <signal.h>
#include <unistd.h>
static struct sigaction before;
static int installed, calls;
static void handler(int number) {
    sigset_t every;
    if (++calls > 9) _exit(9);
    if (installed) sigaction(number, &before, NULL);
    installed = 0;
    sigfillset(&every);
    sigprocmask(SIG_UNBLOCK, &every, NULL);
    raise(number);
}
void install(void) {
    struct sigaction own = {0};
    own.sa_handler = handler;
    installed = 1;
    sigaction(SIGINT, &own, &before);
}
"""
"""Its handler puts back the one before it, and raises the signal again."""


def test_a_handler_that_takes_itself_out_stays_out(tmp_path: Path) -> None:
    """LLVM's does, which OpenCL's compilers install."""
    source, library = tmp_path / "like_llvm.c", tmp_path / "like_llvm.so"
    source.write_text(LIKE_LLVM)
    compiler = find_compiler()
    assert compiler is not None
    subprocess.run([*compiler.command, "-shared", "-fPIC", source, "-o", library], check=True)
    result = run_script(INTERRUPTED.format(
        setup=f"import ctypes; ctypes.CDLL({str(library)!r}).install()", tiles=200_000, after=AGAIN,
    ))  # fmt: skip
    assert result.stdout.split() == ["interrupted", "True", "twice"], result.stderr


def test_a_handler_of_the_user_keeps_its_meaning() -> None:
    result = run_script(INTERRUPTED.format(
        setup="seen = []; signal.signal(signal.SIGINT, lambda *_: seen.append(1))", tiles=600,
        after="print(len(seen))",
    ))  # fmt: skip
    assert result.stdout.split() == ["finished", "1"], result.stderr


def test_interrupt_outside_a_call_is_python_s_own() -> None:
    result = run_script("""
        import os, signal
        import numpy as np
        from runtime import segments
        from weft.runtime.devices.cpu import CpuDevice
        cell = np.zeros(2, np.int64)
        CpuDevice().load(segments.spin()).call((4, 2), (cell.ctypes.data, 0))
        try:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000): pass
            print("missed")
        except KeyboardInterrupt:
            print("raised")
    """)
    assert result.stdout.split() == ["raised"], result.stderr


# ---------------------------------------------------------------- fork


def test_forked_children_work_also_while_a_job_runs() -> None:
    result = run_script("""
        import os, threading, time
        import numpy as np
        from runtime import segments
        from weft.runtime.devices.cpu import CpuDevice
        device = CpuDevice()
        cell = np.zeros(2, np.int64)
        spin, double = device.load(segments.spin()), device.load(segments.double())
        busy = threading.Thread(target=lambda: spin.call((600, 2), (cell.ctypes.data, 0)))
        busy.start()
        x, y = np.arange(1000.0), np.zeros(1000)
        for _ in range(20):
            time.sleep(0.005)
            child = os.fork()
            if child == 0:
                for _ in range(50):
                    y[:] = 0
                    double.call((1000, 10, 2), (x.ctypes.data, y.ctypes.data, 0))
                    if not (y == 2 * x).all(): os._exit(1)
                mine = np.zeros(2, np.int64)
                spin.call((20, 2), (mine.ctypes.data, 0))
                os._exit(0 if mine[0] == 20 else 2)
            assert os.waitpid(child, 0)[1] == 0
        busy.join()
        print(cell[0])
    """)
    assert result.stdout.split() == ["600"], result.stderr


def test_a_child_forked_by_a_thread_during_a_call_can_be_interrupted() -> None:
    result = run_script("""
        import os, signal, sys, threading, time
        import numpy as np
        from runtime import segments
        from weft.runtime.devices.cpu import CpuDevice
        cell = np.zeros(2, np.int64)
        spin = CpuDevice().load(segments.spin())
        spin.call((1, 1), (cell.ctypes.data, 0))
        status = []
        def fork():
            time.sleep(0.05)
            child = os.fork()
            if child == 0:
                try:
                    spin.call((200_000, 2), (cell.ctypes.data, 0))
                except KeyboardInterrupt:
                    os._exit(7)
                os._exit(1)
            time.sleep(0.2)
            os.kill(child, signal.SIGINT)
            status.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        thread = threading.Thread(target=fork)
        thread.start()
        spin.call((300, 2), (cell.ctypes.data, 0))  # on the main thread, while the fork happens
        thread.join()
        print(status)
    """)
    assert result.stdout.split() == ["[7]"], result.stderr


# ---------------------------------------------------------------- mapped files


SHRUNK = """
    import os, sys
    import numpy as np
    from runtime import segments
    from weft.errors import SourceError
    from weft.runtime.devices.cpu import CpuDevice
    double = CpuDevice().load(segments.double())
    n = 1 << 16
    path = sys.argv[1]
    np.zeros(n).tofile(path)
    mapped, y = np.memmap(path, np.float64), np.zeros(n)
    addresses = (mapped.ctypes.data, y.ctypes.data, 0)
    double.call((n, 512, 2), addresses)
    os.truncate(path, 4096)
    for tile, threads in ((512, 2), (n, 2), (512, 1)):
        for _ in range(20):
            try:
                double.call((n, tile, threads), addresses)
                print("missed")
            except SourceError as error:
                assert "p0" in str(error), error
    double.call((512, 16, 2), addresses)
    print("works")
    {more}
"""


def test_a_mapped_file_that_shrank_is_a_source_error(tmp_path: Path) -> None:
    result = run_script(SHRUNK.format(more=""), str(tmp_path / "x"))
    assert result.stdout.split() == ["works"], result.stderr


WATCHED = """
    import os, sys
    import numpy as np
    from weft.errors import SourceError
    from weft.runtime.watch import watched
    path = sys.argv[1]
    np.ones(1 << 16).tofile(path)
    mapped = np.memmap(path, np.float64, "r")
    with watched([mapped]):
        assert mapped.sum() == 1 << 16
    os.truncate(path, 4096)
    for part in (mapped[:512], np.ones(3), mapped[:0]):
        with watched([part]):
            part.sum()
    try:
        with watched([np.ones(3), mapped[::-2][:20000]]):
            print(mapped[32768:40000].sum())
    except SourceError:
        print("works", flush=True)
    with watched([mapped[: 1 << 15]]):
        mapped[-1 {more}]
"""


def test_watched_memory_of_a_file_that_shrank(tmp_path: Path) -> None:
    result = run_script(WATCHED.format(more="- 60000"), str(tmp_path / "x"))
    assert (result.stdout.split(), result.returncode) == (["0.0", "works"], 1), result.stderr
    assert "SourceError" in result.stderr


def test_memory_that_is_not_watched_is_a_bus_error(tmp_path: Path) -> None:
    result = run_script(WATCHED.format(more=""), str(tmp_path / "x"))
    assert (result.stdout.split(), result.returncode) == (["0.0", "works"], -7), result.stderr


def test_bus_errors_elsewhere_still_end_the_process(tmp_path: Path) -> None:
    result = run_script(SHRUNK.format(more="mapped[-1]"), str(tmp_path / "x"))
    assert result.stdout.split() == ["works"], result.stderr
    assert result.returncode == -7


AWAY = """
    import os, time
    import numpy as np
    import weft as wf
    wf.config(threads=2, interpret_below=0)
    total = wf.jit(lambda x: x.sum())
    x = np.ones(1 << 22)
    before = set(os.listdir("/proc/self/task"))
    total(x)
    time.sleep(0.05)  # it sleeps
    assert total(x) == x.size
    allowed = os.sched_getaffinity(0)
    started = set(os.listdir("/proc/self/task")) - before  # those of compilers too
    kept_off = [len(allowed - os.sched_getaffinity(int(thread))) for thread in started]
    print(*(count for count in kept_off if count))
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two processors",
)
def test_workers_are_kept_off_the_processor_of_the_caller() -> None:
    result = run_script(AWAY)
    assert result.stdout.split() == ["1"], result.stderr
