"""From an input to clean edges in device memory: the rules of `pipeline.ingest`, at the device's speed.

What is regular is read and cleaned on the device. Everything else (a null that is to be refused, a key that is none,
types that cuDF takes differently) goes to the host's reader, which has the rules and the messages; a warning says so.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import cupy as cp
import numpy as np
import pylibcudf as plc

from mbe_stage.bicliques.cuda.keys import edge_fingerprint
from pipeline import ingest as host
from pipeline.config import InputConfig
from pipeline.edges import InputFacts
from pipeline.rapids.buffers import kind_of, text_buffers
from pipeline.rapids.edges import DeviceEdges
from pipeline.rapids.filters import Measure, heavy_enough, in_window, times_of, weights_of
from pipeline.rapids.ids import as_keys, key_hashes, number_keys
from pipeline.rapids.read import readers
from pipeline.rapids.refusals import HostNeeded
from pipeline.rapids.rows import DeviceRows
from pipeline.rapids.utf8 import is_utf8

__all__ = ["clean", "ingest"]

log = logging.getLogger(__name__)


def ingest(config: InputConfig, source: object | None = None) -> DeviceEdges:
    """Read edges and bring them into the form that everything after works on.

    Parameters
    ----------
    config : InputConfig
    source : object, optional
        Taken instead of `config.path`: a `cudf.DataFrame`, or whatever `pipeline.ingest.ingest` takes.

    Returns
    -------
    DeviceEdges
        The same edges, keys and facts as `pipeline.ingest.ingest` gives.

    Raises
    ------
    InputError
        As `pipeline.ingest.ingest`, or there are more rows than a cuDF column holds.
    """
    on_device, on_host = readers(config, source)
    try:
        return clean(on_device(), config)
    except HostNeeded as reason:
        warning = f"read and cleaned on the host, because of {reason}"
        log.warning("%s", warning)
    edges = host.clean(on_host(), config)
    facts = replace(edges.facts, warnings=(*edges.facts.warnings, warning))
    return DeviceEdges.from_host(replace(edges, facts=facts))


def clean(rows: DeviceRows, config: InputConfig) -> DeviceEdges:
    """Bring rows as they stand into the form that everything after works on; the second half of `ingest`.

    Raises
    ------
    HostNeeded
        The rows are to be judged by the host's rules.
    """
    _check_text(rows)
    keys = {side: as_keys(rows.columns[side], config.key_type) for side in ("left", "right")}
    measures = _measures(rows)
    kept = _Kept(rows.n_rows)
    present = [valid for _, valid in keys.values()] + [measure.present for measure in measures.values()]
    kept.keep("null", _all_present(present, config))
    if "weight" in measures:
        kept.keep("weight", heavy_enough(kept.of(measures["weight"].values), config.min_weight))  # type: ignore[arg-type]
    if "timestamp" in measures:
        times = measures["timestamp"]
        kept.keep("time", in_window(kept.of(times.values), times.moments, config))
    if not kept.n:
        raise HostNeeded("no row that is left")
    left_ids, left_keys = number_keys(kept.of(keys["left"][0]), config.key_type, rows.keys)
    right_ids, right_keys = number_keys(kept.of(keys["right"][0]), config.key_type, rows.keys)
    left_ids, right_ids = _distinct(left_ids, right_ids, len(right_keys))
    hashes = key_hashes(left_keys, "left"), key_hashes(right_keys, "right")
    facts = InputFacts(
        source=rows.source,
        format=rows.format,
        rows_read=rows.n_rows,
        rows_dropped_null=kept.dropped["null"],
        rows_dropped_weight=kept.dropped["weight"],
        rows_dropped_time=kept.dropped["time"],
        duplicate_edges=kept.n - left_ids.size,
        n_left=len(left_keys),
        n_right=len(right_keys),
        n_edges=int(left_ids.size),
        fingerprint=edge_fingerprint(left_ids, right_ids, *hashes),
        warnings=rows.warnings,
    )
    size = f"{facts.n_left} x {facts.n_right}, {facts.n_edges} edges"
    log.info("read %s (%s, by %s): %s", facts.source, facts.format, rows.reader, size)
    return DeviceEdges(left_ids, right_ids, left_keys, right_keys, facts)


class _Kept:
    """Which rows are still in, and how many each rule took out."""

    def __init__(self, n_rows: int) -> None:
        self.n = n_rows
        self.dropped = dict.fromkeys(("null", "weight", "time"), 0)
        self._positions: cp.ndarray | None = None

    def keep(self, rule: str, passing: cp.ndarray | None) -> None:
        """Take out the rows that do not pass; `passing` is over the rows still in, None where all of them do."""
        n_passing = self.n if passing is None else int(cp.count_nonzero(passing))
        self.dropped[rule] = self.n - n_passing
        if n_passing < self.n:
            self._positions = cp.flatnonzero(passing) if self._positions is None else self._positions[passing]
            self.n = n_passing

    def of(self, column):
        """The values of a cuDF column or of an array in the rows still in."""
        if self._positions is None:
            return column
        if isinstance(column, cp.ndarray):
            return column[self._positions]
        return column.take(self._positions).reset_index(drop=True)


def _check_text(rows: DeviceRows) -> None:
    for role, column in rows.columns.items():
        if kind_of(column) == plc.TypeId.STRING and not is_utf8(*text_buffers(column)):
            raise HostNeeded(f"bytes that are not UTF-8 in the column for {role}")


def _measures(rows: DeviceRows) -> dict[str, Measure]:
    convert = {"weight": weights_of, "timestamp": times_of}
    return {role: convert[role](rows.columns[role]) for role in convert if role in rows.columns}


def _all_present(present: list[cp.ndarray], config: InputConfig) -> cp.ndarray | None:
    """Which rows have no null, or None where all of them have none."""
    whole = present[0]
    for valid in present[1:]:
        whole = whole & valid
    if bool(whole.all()):
        return None
    if config.nulls == "error":
        raise HostNeeded("nulls")
    return whole


def _distinct(left_ids: cp.ndarray, right_ids: cp.ndarray, n_right: int) -> tuple[cp.ndarray, cp.ndarray]:
    """Each pair once, ordered by left id and then right id."""
    codes = left_ids.astype(np.int64) * n_right + right_ids
    if bool((codes[:-1] < codes[1:]).all()):
        return left_ids, right_ids
    codes = cp.unique(codes)
    left = codes // n_right
    return left.astype(np.int32), (codes - left * n_right).astype(np.int32)
