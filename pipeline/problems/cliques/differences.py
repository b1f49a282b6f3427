"""Compare two runs of cliques by their clique keys, which identify the members: lost and new cliques."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.pipeline.problems.base import Differences
from mbe_stage.pipeline.problems.cliques.rows import LISTED
from mbe_stage.pipeline.publish.manifest import Manifest, read_manifest
from mbe_stage.pipeline.publish.reading import reading
from mbe_stage.pipeline.publish.run_files import as_publish_errors

_ROWS = 1 << 16


def differences(old: Path, new: Path, limit: int, out: Path | None) -> Differences:
    """Return the cliques that only one of two runs has; takes 16 bytes of memory per clique.

    Parameters
    ----------
    limit : int
        Number of largest cliques to show of each kind.
    out : Path or None
        A new or empty directory, for `differences.parquet`: status, clique_key, size and the members' keys as text.

    Raises
    ------
    PublishError
        A run is damaged, or the directory cannot be written.
    """
    with reading(old):
        old_keys = _keys(old)
    with reading(new):
        new_keys = _keys(new)
    gone, came = (np.setdiff1d(*pair, assume_unique=True) for pair in ((old_keys, new_keys), (new_keys, old_keys)))
    if out is not None:
        _write(((old, gone, "gone"), (new, came, "new")), out)
    return Differences(
        n_old=old_keys.size,
        n_new=new_keys.size,
        n_same=int(new_keys.size - came.size),
        gone=LISTED.shown(_largest(old, gone, limit)),
        new=LISTED.shown(_largest(new, came, limit)),
        remarks=tuple(_remarks(read_manifest(old), read_manifest(new))),
    )


def _keys(run: Path) -> np.ndarray:
    """Return the keys of all cliques, ascending."""
    parts = [pq.read_table(part, columns=["clique_key"])["clique_key"].to_numpy() for part in LISTED.parts(run)]
    return np.sort(np.concatenate(parts))


def _rows(run: Path, wanted: np.ndarray) -> Iterator[pa.Table]:
    """Yield the rows with these ascending keys, batch by batch."""
    if not wanted.size:
        return
    for part in LISTED.parts(run):
        with pq.ParquetFile(part) as file:
            for batch in file.iter_batches(_ROWS):
                keys = batch.column("clique_key").to_numpy()
                places = np.minimum(np.searchsorted(wanted, keys), wanted.size - 1)
                found = pa.Table.from_batches([batch]).filter(pa.array(wanted[places] == keys))
                if found.num_rows:
                    yield found


def _largest(run: Path, wanted: np.ndarray, limit: int) -> list[dict[str, Any]]:
    best: pa.Table | None = None
    with reading(run):
        for rows in _rows(run, wanted) if limit else ():
            best = LISTED.first([rows] if best is None else [best, rows], limit)
        return [] if best is None else LISTED.with_keys(run, best)


def _write(kinds: tuple[tuple[Path, np.ndarray, str], ...], out: Path) -> None:
    schema = pa.schema(
        [("status", pa.string()), ("clique_key", pa.int64()), ("size", pa.int32()), ("vertices", pa.list_(pa.string()))]
    )
    with as_publish_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(out / "differences.parquet", schema) as writer:
            for run, wanted, status in kinds:
                texts = LISTED.keys(run).cast(pa.string())
                for rows in _rows(run, wanted):
                    lists = rows["vertices"].combine_chunks()
                    members = pa.ListArray.from_arrays(
                        pa.array(lists.offsets.to_numpy() - lists.offsets[0].as_py()), texts.take(lists.flatten())
                    )
                    columns = [pa.array([status] * rows.num_rows), rows["clique_key"], rows["size"], members]
                    writer.write_table(pa.table(columns, schema=schema))


def _remarks(old: Manifest, new: Manifest) -> Iterator[str]:
    """Yield the reasons why the runs are not quite comparable."""
    if old.config_fingerprint != new.config_fingerprint:
        yield "the queries differ: cliques of only one run need not be gone or new"
    for name, manifest in (("old", old), ("new", new)):
        if manifest.truncated is not None:
            yield f"the {name} run is incomplete ({manifest.truncated}): what only the other has may be there"
    if old.input.fingerprint == new.input.fingerprint:
        yield "both runs read the same edges"
