"""Plain-value descriptions of an ingest, for comparing two tiers."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.edges import EdgeData
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution.ingest import ingest as host_ingest


def described(edges: EdgeData) -> dict[str, object]:
    """Return all results of an ingest except warnings, which depend on the tier's reader."""
    assert edges.left_ids.dtype == edges.right_ids.dtype == np.int32
    return {
        **asdict(replace(edges.facts, warnings=())),
        "left_ids": edges.left_ids.tolist(),
        "right_ids": edges.right_ids.tolist(),
        "left_keys": edges.left_keys.to_pylist(),
        "right_keys": edges.right_keys.to_pylist(),
        "events": _rows(edges),
        "half later": None if edges.half_later is None else described(edges.half_later),
        "types": (str(edges.left_keys.type), str(edges.right_keys.type)),
    }


def _rows(edges: EdgeData) -> list[object]:
    """Return weights and times as kept; a missing weight as text, which equals itself."""
    if edges.events is None:
        return []
    columns = (edges.events.left, edges.events.right, edges.events.weights, edges.events.times)
    return [None if column is None else [str(value) for value in column.tolist()] for column in columns]


def outcome(ingest, config: InputConfig, source: object = None) -> dict[str, object] | str:
    """Return the edges, or the message of the refusal."""
    try:
        edges = ingest(config, source)
    except InputError as error:
        return str(error)
    return described(edges if isinstance(edges, EdgeData) else edges.to_host())


def assert_agree(device_ingest, config: InputConfig, source: object = None, host_source: object = None) -> object:
    expected = outcome(host_ingest, config, source if host_source is None else host_source)
    assert outcome(device_ingest, config, source) == expected
    return expected
