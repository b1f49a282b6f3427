"""Clean edges on disk between the steps of a flow, for every backend. A flow passes paths, never frames.

Arrays are stored as in memory, so they are written and read at disk speed.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa

from mbe_stage.pipeline.backends.arrow.edges import EdgeData
from mbe_stage.pipeline.clean.events import Attribute, Events
from mbe_stage.pipeline.clean.facts import facts_of
from mbe_stage.pipeline.publish.run_files import as_publish_errors

_FACTS = "facts.json"
_HALF_LATER = "half_later"
_ATTRIBUTE = "attribute"
_EVENTS_FILE, _EVENTS = "events.npz", ("left", "right", "weights", "times", "moments")


def save_edges(edges: EdgeData, directory: str | Path) -> Path:
    """Save clean edges in a directory, which is made if needed, and return it; `load_edges` reads them."""
    directory = Path(directory)
    with as_publish_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        pairs = {"ids": (edges.left_ids, edges.right_ids), "hashes": edges.key_hashes(), "degrees": edges.degrees or ()}
        for name, pair in pairs.items():
            for side, array in zip(("left", "right"), pair, strict=False):
                np.save(directory / f"{side}_{name}.npy", array)
        for name, keys in (("left", edges.left_keys), ("right", edges.right_keys)):
            table = pa.table({"key": keys})
            with pa.ipc.new_file(directory / f"{name}_keys.arrow", table.schema) as writer:
                writer.write_table(table)
        if edges.events is not None:
            columns = {field: getattr(edges.events, field) for field in _EVENTS}
            attributes = edges.events.attributes
            columns |= {f"{_ATTRIBUTE} {i}": each.codes for i, each in enumerate(attributes)}
            columns[_ATTRIBUTE] = np.array(json.dumps([(each.name, each.values) for each in attributes]))
            np.savez(directory / _EVENTS_FILE, **{name: array for name, array in columns.items() if array is not None})
        if edges.half_later is not None:
            save_edges(edges.half_later, directory / _HALF_LATER)
        (directory / _FACTS).write_text(json.dumps(asdict(edges.facts)), encoding="utf-8")
    return directory


def load_edges(directory: str | Path) -> EdgeData:
    """Load the edges that `save_edges` saved."""
    directory = Path(directory)

    def both(name: str) -> tuple[np.ndarray, np.ndarray]:
        return np.load(directory / f"left_{name}.npy"), np.load(directory / f"right_{name}.npy")

    return EdgeData(
        *both("ids"),
        _load_keys(directory / "left_keys.arrow"),
        _load_keys(directory / "right_keys.arrow"),
        facts_of(json.loads((directory / _FACTS).read_text(encoding="utf-8"))),
        hashes=both("hashes"),
        events=_load_events(directory),
        half_later=load_edges(directory / _HALF_LATER) if (directory / _HALF_LATER).is_dir() else None,
        degrees=both("degrees") if (directory / "left_degrees.npy").is_file() else None,
    )


def _load_events(directory: Path) -> Events | None:
    if not (directory / _EVENTS_FILE).is_file():
        return None
    with np.load(directory / _EVENTS_FILE) as columns:
        kept = {name: columns[name] for name in columns.files}
    attributes = tuple(
        Attribute(name, kept[f"{_ATTRIBUTE} {i}"], tuple(values))
        for i, (name, values) in enumerate(json.loads(str(kept[_ATTRIBUTE])))
    )
    times = kept.get("weights"), kept.get("times")
    return Events(kept["left"], kept["right"], *times, attributes, kept.get("moments"))


def _load_keys(path: Path) -> pa.Array:
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        return reader.read_all().column("key").combine_chunks()
