"""Who may take how much of the device memory of a run, decided before it is allocated. Needs no GPU library."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import DeviceMemoryExhausted

__all__ = ["LONG_FORM", "MemoryShares", "WritingPlan", "mebibytes", "with_set_aside"]

_WRITERS = 4
_LARGEST_PART = 512 << 20
_SMALLEST_PART = 1 << 20
_WORTH_A_WRITER = 16 << 20
"""A part that is smaller is better written by fewer threads, in larger parts."""
LONG_FORM = 6
"""How much larger `members/` is than the lists, on the device: key, name of the side with its offset, vertex."""
_ENCODED = 4
"""Beside a part, what encoding it takes, in parts: levels, pages, as much again for them compressed, dictionaries."""
_MADE = 4
"""Parts on their way to the writers: a frame, the same sorted, frames that are collected, the same joined."""
_EIGHTHS = 6
"""Of what is left, what the writers may take at most. One eighth is for the engine, or for rows that wait to be sorted;
one is for what nobody plans to the byte: sums and keys in passing, a block of which some parts are still written."""


@dataclass(frozen=True, slots=True)
class WritingPlan:
    """How the rows on their way out are cut.

    Attributes
    ----------
    piece_bytes : int
        Rows that are named, summed up and made a frame at once, as bytes in memory; also a part's.
    sort_bytes : int
        Rows kept on the device where they are sorted.
    n_writers : int
        Files written at once.
    """

    piece_bytes: int
    sort_bytes: int
    n_writers: int


@dataclass(frozen=True, slots=True)
class MemoryShares:
    """What the engine and the way out may take of the memory that a limit leaves beside the graph.

    Attributes
    ----------
    engine_bytes : int
        With the blocks that it hands over.
    """

    engine_bytes: int
    writing: WritingPlan

    @classmethod
    def of(cls, limit_bytes: int, used_bytes: int, encoder_bytes: int, *, members: bool, sort: bool) -> MemoryShares:
        """Half for the engine, less where the writers need it: all of them and the rest fit the limit.

        Where rows are sorted nothing is written before the engine is done, so the writers may have what it had.

        Parameters
        ----------
        limit_bytes, used_bytes : int
            Of all device memory of the run; what is used by now stays used.
        encoder_bytes : int
            What each writer takes whatever it writes: `parquet.encoder_bytes`, 0 for one on the host.
        members : bool
            Whether the long form is written too.

        Raises
        ------
        DeviceMemoryExhausted
            Not even one writer fits; names the smallest limit that would do.
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
        # Before the engine is done a sorted result has the memory of a few pieces only.
        piece_bytes = max(_SMALLEST_PART, min(piece_bytes, eighth // 2))
        return cls(engine_bytes, WritingPlan(piece_bytes, eighth if sort else 0, n_writers))

    @staticmethod
    def least(used_bytes: int, encoder_bytes: int, *, members: bool) -> int:
        """The smallest limit that has room for a writer; parameters as in `of`."""
        return used_bytes + 8 * -(-_least_writer(encoder_bytes, members) // _EIGHTHS)

    @classmethod
    def smallest_limit(
        cls, engine_bytes: int, used_bytes: int, encoder_bytes: int, *, members: bool, sort: bool
    ) -> int:
        """The first limit, in whole MiB, of which the engine's share is so many bytes; the rest as in `of`."""

        def share(mebibytes: int) -> int:
            try:
                return cls.of(mebibytes << 20, used_bytes, encoder_bytes, members=members, sort=sort).engine_bytes
            except DeviceMemoryExhausted:
                return 0

        return bisect_left(range(1 << 30), engine_bytes, key=share) << 20


def with_set_aside(limit_bytes: int, used_bytes: int, wanted_bytes: int) -> int:
    """What is used, once others have what is set aside for them: what they want, at most an eighth of what is left.

    What they need beyond that they take from what nobody plans.
    """
    return used_bytes + min(wanted_bytes, max(0, limit_bytes - used_bytes) // 8)


def _per_part(members: bool) -> int:
    return 1 + LONG_FORM if members else 1


def _least_writer(encoder_bytes: int, members: bool) -> int:
    """What the smallest parts take, with one writer."""
    return _in_works(1, encoder_bytes, _per_part(members) * _SMALLEST_PART)


def _in_works(n_writers: int, encoder_bytes: int, part_bytes: int) -> int:
    """What is alive while so many files are written: as many parts wait as are encoded."""
    return n_writers * (encoder_bytes + (2 + _ENCODED) * part_bytes) + _MADE * part_bytes


def _cut(budget_bytes: int, encoder_bytes: int, per_part: int) -> tuple[int, int]:
    """As many writers as have parts worth it, and the largest parts that fit them all."""
    n_writers, piece_bytes = 1, 0
    for n in range(1, _WRITERS + 1):
        fits = (budget_bytes - n * encoder_bytes) // (((2 + _ENCODED) * n + _MADE) * per_part)
        if n == 1 or fits >= _WORTH_A_WRITER:
            n_writers, piece_bytes = n, min(_LARGEST_PART, fits)
    return n_writers, piece_bytes


def _too_little(limit_bytes: int, needed_bytes: int) -> DeviceMemoryExhausted:
    return DeviceMemoryExhausted(
        f"device memory: the limit of {mebibytes(limit_bytes)} ({setting('execution.device_memory')}) is too "
        f"little to write the output beside the graph; raise it to {mebibytes(needed_bytes)} or more",
        may_pass=False,
    )


def mebibytes(n_bytes: int) -> str:
    """So many bytes, as people say what a limit is or should be: rounded up."""
    return f"{-(-n_bytes // 2**20):,} MiB"
