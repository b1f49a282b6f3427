"""The plan of a run's output, made before the engine starts: where files are encoded, and the shares of memory."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from mbe_stage.pipeline.backends.backend import FrameWriter
from mbe_stage.pipeline.backends.cudf.memory import DevicePool
from mbe_stage.pipeline.backends.cudf.parquet import encoder_bytes, write_frame, write_frame_on_host
from mbe_stage.pipeline.backends.cudf.plan import MemoryShares, WritingPlan, mebibytes, with_set_aside
from mbe_stage.pipeline.problems.installed import derived_of

if TYPE_CHECKING:
    from mbe_stage.pipeline.problems.base import Collecting

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineShare:
    """The engine's share of memory.

    Attributes
    ----------
    limit_for : callable
        Returns the run's limit that gives the engine a share of that many bytes.
    """

    bytes: int
    limit_for: Callable[[int], int]


@dataclass(frozen=True, slots=True)
class Writing:
    """The sizes of rows, the writer of files, and the engine's share."""

    plan: WritingPlan
    write_file: FrameWriter
    engine: EngineShare


def writing_of(collecting: Collecting, *, members: bool = False) -> Writing:
    """Plan a run's memory by its configuration, including the needs of derived outputs.

    Raises
    ------
    DeviceMemoryExhausted
        See `plan_writing`.
    """
    output = collecting.config.output
    set_aside_bytes = sum(each.device_bytes(collecting) for each in derived_of(collecting.config))
    pool = collecting.backend.pool
    return plan_writing(pool, output.compression, members=members, sort=output.sort, set_aside_bytes=set_aside_bytes)


def plan_writing(pool: DevicePool, compression: str, *, members: bool, sort: bool, set_aside_bytes: int = 0) -> Writing:
    """Divide the memory once the graph is there.

    Parameters
    ----------
    members, sort : bool
        See `MemoryShares.of`.
    set_aside_bytes : int
        For others that do not hold it yet: see `pipeline.backends.cudf.plan.with_set_aside`.

    Raises
    ------
    DeviceMemoryExhausted
        Not even one writer fits.
    """
    known, write_file = _encoding(pool, compression, set_aside_bytes, members=members, sort=sort)
    shares = MemoryShares.of(pool.limit_bytes, **known)
    log.debug("device memory: limit %d, %s; %s", pool.limit_bytes, known, shares)
    engine = EngineShare(shares.engine_bytes, lambda needed: MemoryShares.smallest_limit(needed, **known))
    return Writing(shares.writing, write_file, engine)


def _encoding(
    pool: DevicePool, compression: str, set_aside_bytes: int, *, members: bool, sort: bool
) -> tuple[dict[str, Any], FrameWriter]:
    """Return the parameters of `MemoryShares` besides the limit, and the writer of files.

    Files are encoded on the device if the limit has room for one encoder, else on the host.
    """
    limit = pool.limit_bytes
    needed = encoder_bytes(pool, compression)
    used = with_set_aside(limit, pool.used_bytes(), set_aside_bytes)
    known = {"used_bytes": used, "members": members, "sort": sort}
    if needed is not None and MemoryShares.least(used, needed, members=members) <= limit:
        return known | {"encoder_bytes": needed}, partial(write_frame, compression=compression)
    log.info(
        "encoding on the host: the limit of %s (execution.device_memory) has no room for an encoder of %s on the "
        "device; a larger limit, or another codec (output.compression), is faster",
        mebibytes(limit),
        compression,
    )
    return known | {"encoder_bytes": 0}, partial(write_frame_on_host, compression=compression)
