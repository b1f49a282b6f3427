"""Clean edges kept on disk between the steps of a flow, which passes paths, never frames: on the device."""

from __future__ import annotations

from pathlib import Path

import cudf
import cupy as cp
import pyarrow as pa
import pylibcudf as plc

from pipeline.edge_files import load_facts, save_facts
from pipeline.publish import as_publish_errors
from pipeline.rapids.buffers import kind_of, values_of
from pipeline.rapids.edges import DeviceEdges
from pipeline.rapids.parquet import write_frame
from pipeline.rapids.sources import opened

__all__ = ["load_edges", "save_edges"]

_IDS = pa.schema([pa.field(side, pa.int32(), nullable=False) for side in ("left", "right")])
_NAMES = ("edges", "left_keys", "right_keys")


def save_edges(edges: DeviceEdges, directory: str | Path) -> Path:
    """Keep clean edges in a directory, made when needed; `load_edges` gives them back.

    Returns
    -------
    Path
        The directory.

    Raises
    ------
    PublishError
        They cannot be written.
    """
    directory = Path(directory)
    ids = cudf.DataFrame({"left": edges.left_ids, "right": edges.right_ids})
    frames = [ids, *(cudf.DataFrame({"key": keys}) for keys in (edges.left_keys, edges.right_keys))]
    # The writer works on a stream of its own.
    cp.cuda.get_current_stream().synchronize()
    with as_publish_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        for name, frame in zip(_NAMES, frames, strict=True):
            schema = _IDS if name == "edges" else _key_schema(frame["key"])
            write_frame(frame, directory / f"{name}.parquet", schema, "none")
        save_facts(edges.facts, directory)
    return directory


def load_edges(directory: str | Path) -> DeviceEdges:
    """The edges that `save_edges` kept."""
    directory = Path(directory)
    ids, left, right = map(cudf.read_parquet, opened([directory / f"{name}.parquet" for name in _NAMES]))
    return DeviceEdges(
        values_of(ids["left"]), values_of(ids["right"]), left["key"], right["key"], load_facts(directory)
    )


def _key_schema(keys: cudf.Series) -> pa.Schema:
    kind = pa.string() if kind_of(keys) == plc.TypeId.STRING else pa.int64()
    return pa.schema([pa.field("key", kind, nullable=False)])
