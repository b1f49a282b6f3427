"""The groups of a published run with the members' own keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.groups.null_model import SIGNIFICANT, UNIT
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.publish.reading import reading
from mbe_stage.pipeline.wording import narrowed_key, percent_text, plural

BEST_SURPRISE = b"best_surprise"
"""Key in the metadata of `groups.parquet`: the surprise of the best biclique, listed or not, in nats."""

CHANCE_COPIES = b"chance_copies"
"""Key in the metadata of `groups.parquet`: the best surprise, swaps and acceptance of each random copy, as JSON."""


def listed_groups(run_path: str | Path, limit: int | None = None) -> list[dict[str, Any]]:
    """Return the groups of a run by rank: rows of `groups` with the members' own keys as ``left`` and ``right``.

    Parameters
    ----------
    run_path : path
        A run directory.
    limit : int, optional
        Maximum number of groups; all by default.

    Raises
    ------
    PublishError
        The run has no groups, or their tables cannot be read.
    """
    return with_members(run_path, group_rows(run_path, limit))


def check_groups(run_path: str | Path) -> Path:
    """Return the path of a run; refuse one without groups."""
    if not (Path(run_path) / "groups.parquet").is_file():
        raise PublishError(f"{run_path}: has no groups; expected a run with groups; make them: mbe groups")
    return Path(run_path)


def group_rows(run_path: str | Path, limit: int | None = None) -> list[dict[str, Any]]:
    """Return the rows of `groups` by rank; parameters and errors are those of `listed_groups`."""
    run_path = check_groups(run_path)
    with reading(run_path):
        # `read_table` imports pandas if it is installed, which takes longer than reading.
        return pq.ParquetFile(run_path / "groups.parquet").read().slice(0, limit).to_pylist()


def with_members(run_path: str | Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return some of these rows, in their order, with the members' own keys as ``left`` and ``right``.

    ``core_left`` and ``core_right`` are those of the core.
    """
    lists = "left", "right", "core_left", "core_right"
    listed = {row["group_key"]: {**row, **{name: [] for name in lists}} for row in rows}
    with reading(run_path):
        wanted = pc.field("group_key").isin(pa.array(list(listed), pa.int64()))
        path, columns = Path(run_path) / "group_members.parquet", ["group_key", "side", "key", "key_value", "is_core"]
        # Earlier versions have neither of the last two.
        columns = [name for name in columns if name in pq.read_schema(path).names]
        members = pq.read_table(path, columns=columns, filters=wanted)
        for row in members.to_pylist():
            key, group = narrowed_key(row["key"], row.get("key_value")), listed[row["group_key"]]
            group[row["side"]].append(key)
            if row.get("is_core"):
                group[f"core_{row['side']}"].append(key)
    return list(listed.values())


def nothing_significant(run_path: Path, manifest: Manifest) -> str:
    """Return a sentence, without its full stop, about a run without groups or with muted groups only."""
    counts = manifest.derived["groups"]
    n, n_significant = manifest.n_found + _further(counts), counts["significant_candidates"]
    unseen = _not_looked_at(manifest)
    if counts["groups"]:
        reason = "every significant group is muted: known good, or labelled fine"
    elif n_significant:
        reason = (
            f"{plural(n_significant, 'biclique')} {'is' if n_significant == 1 else 'are'} significant, but no group "
            f"grown from them is; {setting('groups.kind')} both lists them"
        )
    elif not n:
        reason = "no biclique was found"
    elif unseen:
        reason = "vertex degrees explain all groups that were examined"
    else:
        reason = "vertex degrees explain all groups"
    parts = [reason, f"{plural(n, 'biclique')} examined{_best(run_path) if n and not n_significant else ''}"]
    return "; ".join([*parts, *([f"not examined: {', '.join(unseen)}"] if unseen else [])])


def _further(counts: Mapping[str, int]) -> int:
    """Return the number of bicliques of further graphs."""
    return counts.get("half_later_bicliques", 0) + counts.get("key_bicliques", 0)


def chance_text(run_path: Path) -> str:
    """Return a sentence, without its full stop, about the random copies of a run; empty if none were wanted."""
    stated = (pq.read_schema(run_path / "groups.parquet").metadata or {}).get(CHANCE_COPIES)
    if stated is None:
        return ""
    copies = json.loads(stated)
    if not copies:
        return "there was no time to search a random copy"
    best = max(copy["best_surprise"] for copy in copies)
    swaps, acceptance = (sum(copy[name] for copy in copies) / len(copies) for name in ("swaps", "acceptance"))
    of_copies = plural(len(copies), "random copy", "random copies")
    which = f"the best group of {of_copies} has a surprise of {best:,.1f}" if best else f"no group in {of_copies}"
    return f"{which} ({swaps:.1f} swaps an edge, {percent_text(acceptance)} of the tries)"


def _best(run_path: Path) -> str:
    """Return the distance of the most surprising biclique from significance, in words."""
    schema = pq.read_schema(run_path / "groups.parquet")
    value = (schema.metadata or {}).get(BEST_SURPRISE)
    # Groups of earlier versions have no level, and were listed from a surprise of 0 on.
    least = SIGNIFICANT / UNIT if "level" in schema.names else 0.0
    return "" if value is None else f", the best {least - float(value):,.3g} nats short of significance"


def _not_looked_at(manifest: Manifest) -> list[str]:
    counts, query = manifest.derived["groups"], manifest.config.query.model_dump(exclude_defaults=True)
    n_seeds = counts["seeds_not_grown"]
    sizes = ", ".join(f"{setting(f'query.{key}')} {value}" for key, value in query.items())
    return [
        *([] if manifest.truncated is None else [f"the rest of the search, which {manifest.truncated}"]),
        *(["the rest of the buckets shifted by half"] if counts.get("half_later_truncated") else []),
        *([f"{plural(n, 'key')} not tried to the end"] if (n := counts.get("keys_not_searched", 0)) else []),
        *([f"{plural(n_seeds, 'seed')} left to grow"] if n_seeds else []),
        *([f"bicliques outside {sizes}"] if sizes else []),
    ]
