"""A repeated call that is one compiled segment, by the shortest way.

Data that streamed through the caches has left little of the interpreter's own in them: the
next call then pays some ten microseconds for each function that it goes through, which a call
of a few milliseconds on all cores feels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.config import Settings, settings
from weft.launch.computation import Computation
from weft.launch.device import CPU, have_compiler, host_threads
from weft.records import dataclass
from weft.runtime.incore import Launch, run_launch
from weft.runtime.memory import host_pool


@dataclass(frozen=True, slots=True)
class Direct:
    """What a call has found out that holds for others of the same shapes and dtypes.

    Attributes
    ----------
    settings : Settings
    threads : int
    launch : Launch
    places : tuple of int
        Which of the computation's inputs the segment takes, in order.
    """

    settings: Settings
    threads: int
    launch: Launch
    places: tuple[int, ...]

    def call(self, inputs: Sequence[Any]) -> list[Any] | None:
        """The results; None where the settings are others, or an array is not row-major."""
        current = settings()
        if current is not self.settings and current != self.settings:
            return None
        if host_threads(current) != self.threads:
            return None
        taken = [inputs[place] for place in self.places]
        for array in taken:
            if not array.flags.carray:
                return None
        return run_launch(self.launch, taken, host_pool(), self.threads)


def direct(
    computation: Computation, sizes: Mapping[str, int], inputs: Sequence[Any]
) -> Direct | None:
    """For a call that has run; None where it is more than one segment on the CPU."""
    current = settings()
    if current.devices != (CPU,) or not have_compiler():
        return None
    if not all(array.flags.carray and array.dtype.isnative for array in inputs):
        return None
    threads = host_threads(current)
    ready, _ = computation.ready(sizes, inputs, threads, current.optimise)
    launch = ready.steps.single
    if launch is None or not ready.plain or ready.steps.peak_bytes > current.limit:
        return None
    places = tuple(computation.names.index(name) for name in launch.step.params)
    return Direct(current, threads, launch, places)
