"""Clean edges in device memory, without a run."""

from __future__ import annotations

from pipeline.backends.cudf.backend import CudfBackend
from pipeline.backends.cudf.edges import DeviceEdges
from pipeline.config import InputConfig
from pipeline.ingest import ingest as ingest_with

__all__ = ["ingest"]


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
    return ingest_with(config, source, CudfBackend())
