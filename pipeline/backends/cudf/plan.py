"""Shares of a run's device memory, decided before allocation. Needs no GPU library."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import DeviceMemoryExhausted

_WRITERS = 4
_LARGEST_PART = 512 << 20
_SMALLEST_PART = 1 << 20
_WORTH_A_WRITER = 16 << 20
"""Smaller parts are better merged and written by fewer threads."""
LONG_FORM = 6
"""Size of `members/` relative to the lists on the device: key, name of the side with its offset, vertex."""
_ENCODED = 4
"""Memory for encoding a part, in parts: levels, pages, compressed pages, dictionaries."""
_MADE = 4
"""Parts on the way to the writers: a frame, its sorted copy, collected frames, their concatenation."""
_EIGHTHS = 6
"""Most eighths of the remaining memory for the writers. One eighth is for the engine, or for rows waiting to be sorted;
one is for unplanned needs: sums and keys, and blocks with parts still being written."""


@dataclass(frozen=True, slots=True)
class WritingPlan:
    """The sizes of outgoing rows.

    Attributes
    ----------
    piece_bytes : int
        In-memory bytes of rows to name, sum up and convert to a frame at once; also the size of a part.
    sort_bytes : int
        Rows kept on the device for sorting.
    n_writers : int
        Files written at once.
    """

    piece_bytes: int
    sort_bytes: int
    n_writers: int


@dataclass(frozen=True, slots=True)
class MemoryShares:
    """The shares of the engine and the output in the memory that a limit leaves besides the graph.

    Attributes
    ----------
    engine_bytes : int
        Bytes for the engine, including the blocks that it returns.
    """

    engine_bytes: int
    writing: WritingPlan

    @classmethod
    def of(cls, limit_bytes: int, used_bytes: int, encoder_bytes: int, *, members: bool, sort: bool) -> MemoryShares:
        """Give the engine half, or less if the writers need more; everything together fits the limit.

        Sorted rows are only written after the engine has finished, so the writers may use the engine's share.

        Parameters
        ----------
        limit_bytes, used_bytes : int
            Limit and current use of the run's device memory; used memory stays used.
        encoder_bytes : int
            Fixed need of each writer: `parquet.encoder_bytes`, 0 on the host.
        members : bool
            True if the long form is written too.

        Raises
        ------
        DeviceMemoryExhausted
            Not even one writer fits; the error names the smallest sufficient limit.
        """
        if limit_bytes < (needed_bytes := cls.least(used_bytes, encoder_bytes, members=members)):
            raise _too_little(limit_bytes, needed_bytes)
        eighth = (limit_bytes - used_bytes) // 8
        if sort:
            engine_bytes, writing_bytes = 4 * eighth, _EIGHTHS * eighth
        else:
            wanted = min(_EIGHTHS * eighth, max(3 * eighth, encoder_bytes + eighth))
            writing_bytes = max(_least_writer(encoder_bytes, members), wanted)
            engine_bytes = 7 * eighth - writing_bytes
        n_writers, piece_bytes = _cut(writing_bytes, encoder_bytes, _per_part(members))
        # Until the engine has finished, a sorted result only has the memory of a few pieces.
        piece_bytes = max(_SMALLEST_PART, min(piece_bytes, eighth // 2))
        return cls(engine_bytes, WritingPlan(piece_bytes, eighth if sort else 0, n_writers))

    @staticmethod
    def least(used_bytes: int, encoder_bytes: int, *, members: bool) -> int:
        """Return the smallest limit with room for a writer; parameters as in `of`."""
        return used_bytes + 8 * -(-_least_writer(encoder_bytes, members) // _EIGHTHS)

    @classmethod
    def smallest_limit(
        cls, engine_bytes: int, used_bytes: int, encoder_bytes: int, *, members: bool, sort: bool
    ) -> int:
        """Return the first limit, in whole MiB, that gives the engine that share; other parameters as in `of`."""

        def share(mebibytes: int) -> int:
            try:
                return cls.of(mebibytes << 20, used_bytes, encoder_bytes, members=members, sort=sort).engine_bytes
            except DeviceMemoryExhausted:
                return 0

        return bisect_left(range(1 << 30), engine_bytes, key=share) << 20


def with_set_aside(limit_bytes: int, used_bytes: int, wanted_bytes: int) -> int:
    """Return the used bytes including memory set aside for others: their wish, up to an eighth of the rest.

    Beyond that they use unplanned memory.
    """
    return used_bytes + min(wanted_bytes, max(0, limit_bytes - used_bytes) // 8)


def _per_part(members: bool) -> int:
    return 1 + LONG_FORM if members else 1


def _least_writer(encoder_bytes: int, members: bool) -> int:
    """Return the bytes of the smallest parts, with one writer."""
    return _in_works(1, encoder_bytes, _per_part(members) * _SMALLEST_PART)


def _in_works(n_writers: int, encoder_bytes: int, part_bytes: int) -> int:
    """Return the bytes in use while that many files are written: equally many parts wait."""
    return n_writers * (encoder_bytes + (2 + _ENCODED) * part_bytes) + _MADE * part_bytes


def _cut(budget_bytes: int, encoder_bytes: int, per_part: int) -> tuple[int, int]:
    """Return the largest useful number of writers, and the largest parts that fit them all."""
    n_writers, piece_bytes = 1, 0
    for n in range(1, _WRITERS + 1):
        fits = (budget_bytes - n * encoder_bytes) // (((2 + _ENCODED) * n + _MADE) * per_part)
        if n == 1 or fits >= _WORTH_A_WRITER:
            n_writers, piece_bytes = n, min(_LARGEST_PART, fits)
    return n_writers, piece_bytes


def _too_little(limit_bytes: int, needed_bytes: int) -> DeviceMemoryExhausted:
    return DeviceMemoryExhausted(
        f"device memory: the limit of {mebibytes(limit_bytes)} ({setting('execution.device_memory')}) is too "
        f"small to write the output beside the graph; raise it to {mebibytes(needed_bytes)} or more",
        may_pass=False,
    )


def mebibytes(n_bytes: int) -> str:
    """Format bytes as a limit for people, rounded up."""
    return f"{-(-n_bytes // 2**20):,} MiB"
