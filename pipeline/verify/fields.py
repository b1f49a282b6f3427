"""Checks of the manifest's fields and of the vertex tables: recomputed if possible, else listed as not checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.clean.facts import InputFacts, UndirectedFacts
from mbe_stage.pipeline.cli.terminal import shortened
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.problems.installed import derived_of, limit_of, publication_of, reading_of
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.verify.files import REPORT

# Fields that only the publishing process knows, by section. They cannot be derived from the run's files or its input. A
# new field of the manifest belongs here or is recomputed; a test goes through them all.
UNTOLD = {
    "": (
        "created_at",
        "versions",
        "engine",
        "device",
        "seconds",
        "peak_memory_bytes",
        "peak_device_memory_bytes",
        "ranks",
        "warnings",
        "made_of",
        "comparison",
        "derived_comparison",
    ),
    "input": ("warnings", "n_edges_held"),
    "config.input": (
        "path",
        "format",
        "left",
        "right",
        "weight",
        "timestamp",
        "delimiter",
        "header",
        "encoding",
        "skip_lines",
        "comment",
        "trim",
        "decimal",
        "date_format",
        "nulls",
        "min_weight",
        "time_from",
        "time_until",
        "time_bucket",
        "time_offset",
    ),
    "config.execution": (
        "engine",
        "runner",
        "cluster",
        "workers",
        "devices",
        "threads",
        "memory_budget",
        "device_memory",
        "block_bytes",
        "max_output_bytes",
        "on_limit",
        "grace_seconds",
    ),
    # `top` is the length of the report's lists, and the report is not recomputed.
    "config.output": ("directory", "keep_runs", "compare", "top", "checkpoint_seconds", "keep_unfinished_days"),
}


def _listing(fields: Mapping[str, Iterable[str]]) -> str:
    return "; ".join(
        f"{section}: {', '.join(names)}" if section else ", ".join(names) for section, names in fields.items()
    )


UNTOLD_NOTE = f"manifest.json, fields found nowhere else: {_listing(UNTOLD)}"


# Settings that the result must obey. A value that the result contradicts is found; a value without effect is not, such
# as a limit that was not reached. The sections of problem and derived outputs are all of this kind. Every setting is
# here, in `UNTOLD`, or visible in the files: `bicliques`, `members`, `report`, `compression`.
BY_EFFECT = {
    "config.input": ("key_type", "by"),
    "config.execution": ("max_bicliques", "time_limit_seconds"),
    "config.output": ("sort", "two_hop_steps"),
}


REPORT_NOTE = f"{REPORT}: contents: only its size and checksum are compared with the manifest"


# Facts found by reading the input again, besides sizes and fingerprint.
READING = (
    "format",
    "rows_read",
    "rows_dropped_null",
    "rows_dropped_weight",
    "rows_dropped_time",
    "duplicate_edges",
    "n_edges",
    "columns",
    "undirected",
    "dialect",
    "n_columns",
)


_ADDED = ("columns", "dialect", "n_columns")


# The keys that the configuration fingerprint covers, besides all of the sections of problem and derived outputs.
_ASKED_EXECUTION = ("max_bicliques", "time_limit_seconds")


_ASKED_OUTPUT = ("members", "sort", "two_hop_steps", "report", "top")


def settings_by_effect(manifest: Manifest) -> dict[str, tuple[str, ...]]:
    """Return `BY_EFFECT` with the sections of the run's problem and derived outputs, by section."""
    publication = publication_of(manifest.problem)
    own = {f"config.{publication.section_name}": tuple(publication.section.model_fields)}
    derived = {f"config.{each.name}": tuple(each.section.model_fields) for each in derived_of(manifest.config)}
    limit = limit_of(manifest.problem)
    limits = {} if limit is None else {"config.execution": (limit, "time_limit_seconds")}
    return {**own, **derived, **BY_EFFECT, **limits}


def standing_notes(manifest: Manifest) -> list[str]:
    """List what no check can verify for a run like this, with or without the input."""
    settings = _listing(settings_by_effect(manifest))
    by_effect = f"manifest.json, except for values that the result contradicts: {settings}"
    return [*([REPORT_NOTE] if manifest.config.output.report else []), by_effect, UNTOLD_NOTE]


def check_key_types(run: Path, manifest: Manifest, keys: tuple[pa.ChunkedArray, pa.ChunkedArray]) -> None:
    """Check that the keys of the vertex tables have the type of `input.key_type`, if it is set.

    Parameters
    ----------
    keys : pair of pa.ChunkedArray
        Keys of the left and right vertices.

    Raises
    ------
    VerificationError
        Keys have another type.
    """
    reads = manifest.config.input
    right_has_parts = len(reads.right_columns) > 1 or reads.time_bucket is not None
    for side, column in zip(("left", "right"), keys, strict=True):
        if reads.by is not None or (side == "right" and right_has_parts):
            # JSON arrays are text, regardless of their parts.
            continue
        check_key_type(run / f"{side}_vertices.parquet", manifest, column)


def check_key_type(path: Path, manifest: Manifest, keys: pa.ChunkedArray) -> None:
    """Check the key type of one vertex table; see `check_key_types`.

    Raises
    ------
    VerificationError
        The keys are of another type.
    """
    stated = manifest.config.input.key_type
    # Without keys the type means nothing.
    if len(keys) and stated != "auto" and (stated == "integer") != pa.types.is_integer(keys.type):
        raise VerificationError(f"{path}, column 'key': has type {keys.type}; input.key_type of the config is {stated}")


def check_own_fields(run: Path, manifest: Manifest) -> tuple[str, list[str]]:
    """Check the fields against the manifest itself, the run's place and its tables; also return what was not checked.

    Raises
    ------
    VerificationError
        A field is wrong.
    """
    place = run / "manifest.json"
    facts = manifest.input
    recomputed = _config_fingerprint(manifest)
    if manifest.config_fingerprint != recomputed:
        raise VerificationError(
            f"{place}: config_fingerprint is {manifest.config_fingerprint}; recomputed {recomputed} from its config"
        )
    left_out = facts.rows_dropped_null + facts.rows_dropped_weight + facts.rows_dropped_time + facts.duplicate_edges
    if facts.undirected is not None:
        left_out += facts.undirected.loops + facts.undirected.reversed_edges
    if facts.rows_read - left_out != facts.n_edges:
        raise VerificationError(
            f"{place}: input: {facts.rows_read} rows read, {left_out} of them dropped or duplicates; "
            f"n_edges is {facts.n_edges}; expected {facts.rows_read - left_out}"
        )
    if manifest.comparison is not None and not manifest.config.output.compare:
        raise VerificationError(f"{place}: comparison is set, but output.compare of its config is 0: expected null")
    reads = reading_of(manifest.config)
    has_events = reads.keeps_events and (reads.weight is not None or reads.timestamp is not None)
    # Only the input tells whether there are columns to try as keys.
    if (facts.events_fingerprint is not None) != has_events and not (reads.tries_keys and not has_events):
        raise VerificationError(
            f"{place}: input.events_fingerprint is {facts.events_fingerprint}; expected "
            f"{'one' if has_events else 'null'}, by its config"
        )
    unsure = []
    if run.name != manifest.run_id:
        if run.parent.name == "runs":
            raise VerificationError(f"{place}: run_id is {manifest.run_id!r}; the run is published as {run.name!r}")
        unsure.append(f"run_id: the directory, which is not where it was published, is called {run.name}")
    return "run_id, config_fingerprint, sizes of the input", unsure


def check_derived(run: Path, manifest: Manifest) -> None:
    """Check that the manifest describes exactly the derived outputs of its configuration.

    Raises
    ------
    VerificationError
        It describes another output.
    """
    requested = sorted(each.name for each in derived_of(manifest.config))
    if sorted(manifest.derived) != requested:
        raise VerificationError(
            f"{run / 'manifest.json'}: derived holds {', '.join(sorted(manifest.derived)) or 'nothing'}; expected "
            f"{', '.join(requested) or 'nothing'}, by its config"
        )
    for name in ("derived_inputs", "derived_comparison"):
        if others := sorted(set(getattr(manifest, name)) - set(requested)):
            raise VerificationError(
                f"{run / 'manifest.json'}: {name} holds {others[0]}, which its config does not request"
            )
    if manifest.derived_comparison and not manifest.config.output.compare:
        raise VerificationError(
            f"{run / 'manifest.json'}: derived_comparison is set, but output.compare of its config is 0: expected none"
        )


def check_reading(run: Path, stated: InputFacts, read: InputFacts | None) -> tuple[str | None, list[str]]:
    """Check the counts of dropped and duplicate rows; return the checked ones, if any, and the others.

    Parameters
    ----------
    stated : InputFacts
        The manifest's facts.
    read : InputFacts or None
        The facts of the input as read now; None if it was not given.

    Raises
    ------
    VerificationError
        The same input, read again, has other facts.
    """
    if read is None:
        return None, [f"input: source, {', '.join(READING)}, fingerprint, events_fingerprint: the input is not given"]
    differs = [name for name in READING if getattr(stated, name) != getattr(read, name)]
    # Manifests of earlier versions lack these.
    older = [name for name in differs if name in _ADDED and not getattr(stated, name)]
    unsaid = [f"input: {name}: not in the manifest" for name in older]
    differs = [name for name in differs if name not in older]
    if read.source != stated.source:
        what = f"{', '.join(('source', *differs))}: the input read now was {read.source}, not {stated.source}"
        return f"of {read.source}" if not differs else None, [f"input: {what}", *unsaid]
    if differs:
        name = differs[0]
        was, found = (_shown(getattr(facts, name)) for facts in (stated, read))
        raise VerificationError(
            f"{run / 'manifest.json'}: input.{name} is {was}; recomputed {found} from {read.source}"
        )
    return f"{read.rows_read:,} rows of {read.source}", unsaid


def _shown(value: object) -> object:
    if isinstance(value, UndirectedFacts):
        return f"{value.loops} loops, {value.reversed_edges} reversed edges, {value.lone_vertices} lone vertices"
    if not isinstance(value, tuple):
        return value
    return ", ".join(f"{column.setting} {column.position} {column.name!r}" for column in value) or "none"


def _config_fingerprint(manifest: Manifest) -> str:
    """Return the SHA-256 of the query in the configuration, as JSON with sorted keys."""
    config = manifest.config.model_dump(mode="json")
    section = publication_of(manifest.problem).section_name
    settings = {
        "schema_version": manifest.schema_version,
        "key_type": config["input"]["key_type"],
        section: config.get(section, manifest.config.problem_section.model_dump(mode="json")),
        "execution": {key: config["execution"][key] for key in _ASKED_EXECUTION},
        "output": {key: config["output"][key] for key in _ASKED_OUTPUT},
    }
    if config["output"]["two_hop_steps"] is None:
        # The default of earlier versions.
        settings["output"]["two_hop_steps"] = 2_000_000_000
    if config["execution"]["max_cliques"] is not None:
        settings["execution"]["max_cliques"] = config["execution"]["max_cliques"]
    if config["execution"]["max_output_bytes"] is not None:
        settings["execution"]["max_output_bytes"] = config["execution"]["max_output_bytes"]
    if not config["output"]["bicliques"]:
        settings["output"]["bicliques"] = False
    if config["input"]["by"] is not None:
        settings["output"]["graph"] = True
    if derived := derived_of(manifest.config):
        settings["derived"] = {
            each.name: {
                key: value
                for key, value in config[each.name].items()
                if key not in each.input_keys and (key, value) not in getattr(each.section, "BEFORE", {}).items()
            }
            for each in derived
        }
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def check_vertex_ids(run: Path, side: str, n_expected: int) -> pa.ChunkedArray:
    """Check that ids of a side are 0, 1, 2, ... and keys ascend; return the keys."""
    return check_vertex_table(run / f"{side}_vertices.parquet", n_expected, f"{side} vertices")


def check_vertex_table(path: Path, n_expected: int, what: str) -> pa.ChunkedArray:
    """Check the number of `what`, that ids are 0, 1, 2, ... and that keys ascend; return the keys."""
    table = pq.read_table(path, columns=["vertex", "key"])
    if table.num_rows != n_expected:
        raise VerificationError(f"{path}: has {table.num_rows} rows; the manifest counts {n_expected} {what}")
    ids = table["vertex"].to_numpy()
    if (wrong := np.flatnonzero(ids != np.arange(ids.size))).size:
        raise VerificationError(f"{path}, row {wrong[0]}: vertex is {ids[wrong[0]]}; expected {wrong[0]}")
    keys = table["key"]
    if keys.null_count:
        raise VerificationError(f"{path}: {keys.null_count} keys are null; expected none")
    descends = np.flatnonzero(~pc.less(keys.slice(0, max(0, len(keys) - 1)), keys.slice(1)).to_numpy())
    if descends.size:
        row = int(descends[0])
        raise VerificationError(
            f"{path}, row {row + 1}: key {shortened(repr(keys[row + 1].as_py()), 80)} follows "
            f"{shortened(repr(keys[row].as_py()), 80)}; "
            "expected ascending, distinct keys"
        )
    return keys
