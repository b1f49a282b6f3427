"""The machine of a table: its description, the speed of a fixed loop, and its idleness."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numba import njit

from mbe_stage.pipeline.publish.manifest import software_versions

__all__ = ["Calibration", "Idleness", "IdlenessMeter", "calibrate", "describe", "why_not_idle"]

_STEPS = 5 << 26
_TABLE_WORDS = 1 << 12
# The loop's result: every machine has then done the same work.
_CHECKSUM = 9730846469
_ATTEMPTS = 3

# An idle machine stays below these; see README.md.
_MOST_OTHERS, _MOST_STOLEN, _MOST_DRIFT = 0.05, 0.01, 0.05


@dataclass(frozen=True, slots=True)
class Calibration:
    """Seconds of the fixed loop.

    Attributes
    ----------
    one_thread : float
        Best of three.
    each_of_threads : dict
        By number of threads that run the whole loop at once: on as many real cores it takes no longer.
    """

    one_thread: float
    each_of_threads: dict[int, float]


@dataclass(frozen=True, slots=True)
class Idleness:
    """Load of the machine by others.

    Attributes
    ----------
    load_before, load_after : tuple of float, or None
        Load averages over 1, 5 and 15 minutes; those after count this benchmark itself.
    others_share : float or None
        CPU time that other processes took while the benchmark ran, as a share of all cores' time; None where the
        system does not say.
    stolen_share : float or None
        The same for time that the hypervisor gave to other machines.
    """

    load_before: tuple[float, ...] | None
    load_after: tuple[float, ...] | None
    others_share: float | None
    stolen_share: float | None


class IdlenessMeter:
    """Starts measuring when made; `read` returns the figures since then."""

    def __init__(self) -> None:
        self._load = _load()
        self._own = _own_cpu_seconds()
        self._machine = _machine_cpu_seconds()

    def read(self) -> Idleness:
        """Return the figures since the meter was made; ended child processes count as ours."""
        machine = _machine_cpu_seconds()
        others = stolen = None
        if machine is not None and self._machine is not None:
            total, busy, steal = (now - then for now, then in zip(machine, self._machine, strict=True))
            if total > 0:
                others = max(0.0, busy - (_own_cpu_seconds() - self._own)) / total
                stolen = steal / total
        return Idleness(self._load, _load(), others, stolen)


def calibrate(thread_counts: tuple[int, ...] = (1,), steps: int = _STEPS) -> Calibration:
    """Time the fixed loop: integer and bitwise operations on a table that fits the nearest cache.

    Raises
    ------
    RuntimeError
        The loop computed a wrong result.
    """
    _loop(1, np.zeros(_TABLE_WORDS, np.uint64))
    times = {n: min(_timed(n, steps) for _ in range(_ATTEMPTS)) for n in sorted({1, *thread_counts})}
    return Calibration(times[1], {n: seconds for n, seconds in times.items() if n > 1})


def why_not_idle(idleness: Idleness, before: Calibration, after: Calibration) -> list[str]:
    """Return reasons to doubt the figures; empty if the machine was idle."""
    reasons = []
    if idleness.others_share is not None and idleness.others_share > _MOST_OTHERS:
        reasons.append(f"other processes took {idleness.others_share:.1%} of the processor")
    if idleness.stolen_share is not None and idleness.stolen_share > _MOST_STOLEN:
        reasons.append(f"other virtual machines took {idleness.stolen_share:.1%} of the processor")
    drift = abs(after.one_thread - before.one_thread) / min(after.one_thread, before.one_thread)
    if drift > _MOST_DRIFT:
        reasons.append(f"the calibration loop took {drift:.0%} longer at one end of the benchmark than at the other")
    return reasons


def describe() -> dict[str, object]:
    """Return processor, memory, date, commit and versions."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "versions": software_versions(),
    }


@njit(cache=True, nogil=True)
def _loop(steps, table):
    state = np.uint64(0x9E3779B97F4A7C15)
    bits = np.uint64(0)
    for _ in range(steps):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        place = state & np.uint64(_TABLE_WORDS - 1)
        word = table[place] ^ state
        table[place] = word
        word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
        word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
        word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
        bits += (word * np.uint64(0x0101010101010101)) >> np.uint64(56)
    return bits


def _timed(n_threads: int, steps: int) -> float:
    sums: list[int] = []
    threads = [
        threading.Thread(target=lambda: sums.append(int(_loop(steps, np.zeros(_TABLE_WORDS, np.uint64)))))
        for _ in range(n_threads)
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    if len(sums) != n_threads or (steps == _STEPS and set(sums) != {_CHECKSUM}):
        raise RuntimeError(f"the calibration loop gave {sums}: expected {n_threads} times {_CHECKSUM}")
    return seconds


def _load() -> tuple[float, ...] | None:
    return os.getloadavg() if hasattr(os, "getloadavg") else None


def _own_cpu_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _machine_cpu_seconds() -> tuple[float, float, float] | None:
    """Return all cores' time so far, its busy part (without stolen time), and the stolen time."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return None
    ticks = [int(field) for field in stat.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    user, nice, system, idle, waiting, interrupts, soft_interrupts, stolen = ticks
    busy = user + nice + system + interrupts + soft_interrupts
    per_second = os.sysconf("SC_CLK_TCK")
    return (busy + idle + waiting + stolen) / per_second, busy / per_second, stolen / per_second


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _commit() -> str | None:
    """Return the measured commit, with a plus if files differ from it; None outside a git checkout."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        done = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
        changes = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    if done.returncode != 0:
        return None
    return done.stdout.strip() + ("+" if changes.stdout.strip() else "")
