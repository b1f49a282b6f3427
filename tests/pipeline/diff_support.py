"""Published runs written from given groups, without a search: tables, vertex tables and a manifest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.bicliques.keys import Fingerprint, biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.pipeline import Config, InputFacts
from mbe_stage.pipeline.backends.arrow.hashes import key_hashes
from mbe_stage.pipeline.clean.facts import InputColumn
from mbe_stage.pipeline.problems.bicliques.publication import Counts
from mbe_stage.pipeline.publish.manifest import Manifest, config_fingerprint, write_manifest
from mbe_stage.pipeline.publish.schemas import BICLIQUES, vertices

__all__ = ["Group", "group", "key_of", "keyed", "make_run"]

Group = tuple[frozenset, frozenset]


def group(left: Iterable, right: Iterable) -> Group:
    """The two sides of a biclique, in the user's keys."""
    return frozenset(left), frozenset(right)


def key_of(one: Group) -> int:
    return next(iter(keyed([one])))


def keyed(groups: Iterable[Group]) -> dict[int, Group]:
    import numpy as np

    result = {}
    for one in groups:
        sides = [sorted(side) for side in one]
        hashes = [key_hashes(pa.array(side), name) for side, name in zip(sides, ("left", "right"), strict=True)]
        ids = [np.arange(len(side), dtype=np.int32) for side in sides]
        sizes = [np.array([len(side)], np.int32) for side in sides]
        block = BicliqueBlock(
            n_bicliques=1, left_sizes=sizes[0], right_sizes=sizes[1], left_members=ids[0], right_members=ids[1]
        )
        result[int(biclique_keys(block, *hashes)[0])] = one
    return result


def make_run(
    path: Path,
    groups: Iterable[Group],
    *,
    config: dict[str, Any] | None = None,
    truncated: str | None = None,
    extra: tuple[Iterable, Iterable] = ((), ()),
    rows_per_group: int = 5,
    run_id: str | None = None,
    input_columns: Iterable[tuple[str, int, str | None]] = (),
) -> Path:
    """Write a run of these groups; `extra` are vertices in no group, `input_columns` the configured columns."""
    groups = list(groups)
    by_key = keyed(groups)
    keys = [sorted({v for one in groups for v in one[side]} | set(extra[side])) for side in (0, 1)]
    numbers = [{key: i for i, key in enumerate(side)} for side in keys]
    rows = [
        {
            "biclique_key": key,
            "left": sorted(numbers[0][v] for v in left),
            "right": sorted(numbers[1][v] for v in right),
            "n_left": len(left),
            "n_right": len(right),
            "n_edges": len(left) * len(right),
        }
        for key, (left, right) in by_key.items()
    ]
    (path / "bicliques").mkdir(parents=True)
    half = len(rows) // 2
    for number, part in enumerate((rows[:half], rows[half:])):
        table = pa.Table.from_pylist(part, schema=BICLIQUES)
        pq.write_table(table, path / "bicliques" / f"part-{number:05d}.parquet", row_group_size=rows_per_group)
    for name, side in zip(("left", "right"), keys, strict=True):
        values = pa.array(side, pa.string() if side and isinstance(side[0], str) else pa.int64())
        zeros = pa.array([0] * len(side), pa.int64())
        columns = [pa.array(range(len(side)), pa.int32()), values, zeros, zeros, zeros, zeros, zeros]
        pq.write_table(pa.table(columns, schema=vertices(values.type)), path / f"{name}_vertices.parquet")
    manifest = _manifest(run_id or path.name, by_key, config or {}, truncated, [len(side) for side in keys])
    meant = tuple(InputColumn(*column) for column in input_columns)
    write_manifest(path, manifest.model_copy(update={"input": replace(manifest.input, columns=meant)}))
    return path


def _manifest(
    run_id: str, by_key: dict[int, Group], settings: dict[str, Any], truncated: str | None, sizes: list[int]
) -> Manifest:
    import numpy as np

    fingerprint = Fingerprint()
    fingerprint.add(np.array(list(by_key), np.int64))
    config = Config.from_mapping(settings)
    return Manifest(
        schema_version=2,
        run_id=run_id,
        created_at="2026-11-22T06:00:00+00:00",
        config=config,
        config_fingerprint=config_fingerprint(config),
        input=InputFacts("edges.csv", "csv", 0, 0, 0, 0, 0, *sizes, 0, "0-0"),
        content_fingerprint=str(fingerprint),
        versions={},
        engine="cpu",
        device="some processor",
        counts=Counts(
            bicliques=len(by_key), left_members=0, right_members=0, sizes=0, max_left=0, max_right=0, max_edges=0
        ),
        seconds={},
        peak_memory_bytes=0,
        peak_device_memory_bytes=None,
        truncated=truncated,
        files=(),
    )
