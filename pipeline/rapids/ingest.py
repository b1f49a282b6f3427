"""Clean edges in device memory, without a run."""

from __future__ import annotations

from mbe_stage.pipeline.backends.cudf.backend import CudfBackend
from mbe_stage.pipeline.backends.cudf.edges import DeviceEdges
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.execution.ingest import ingest as ingest_with

__all__ = ["ingest"]


def ingest(config: InputConfig, source: object | None = None) -> DeviceEdges:
    """Read and clean edges.

    Parameters
    ----------
    source : object, optional
        Used instead of `config.path`: a `cudf.DataFrame`, or any source of `pipeline.execution.ingest.ingest`.

    Returns
    -------
    DeviceEdges
        The same edges, keys and facts as from `pipeline.execution.ingest.ingest`.

    Raises
    ------
    InputError
        As `pipeline.execution.ingest.ingest`, or there are more rows than a cuDF column holds, and they are not read
        in parts (docs/decisions/device-ingest.md).
    """
    return ingest_with(config, source, CudfBackend())
