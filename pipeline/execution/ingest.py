"""Ingestion of an input: read by a backend, cleaned by the rules of `pipeline.clean`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.arrow.backend import ARROW
from mbe_stage.pipeline.backends.backend import Backend, HostNeeded
from mbe_stage.pipeline.clean.cleaning import clean
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.io.sources import at_hand

log = logging.getLogger(__name__)


def ingest(config: InputConfig, source: object | None = None, backend: Backend = ARROW) -> Any:
    """Read and clean edges, as `pipeline.clean.cleaning.clean` says.

    Parameters
    ----------
    source : object, optional
        Read instead of `config.path`: an object in memory (see `pipeline.io.memory.read_object`), a path, an address
        (docs/how-to/object-stores.md), or a list of these, which form one table.
    backend : Backend, optional
        Holds the edges: in host memory by default.

    Returns
    -------
    EdgeData
        Or the backend's own type, with the same edges, keys and facts. If the backend cannot read or clean the input
        itself, the host does it, and a warning says so.

    Raises
    ------
    InputError
        The input cannot be used, or no edge is left; the message says where and why.

    Examples
    --------
    >>> edges = ingest(InputConfig(), source=(["ann", "bob", "ann"], [7, 7, 7]))
    >>> edges.left_keys.to_pylist(), edges.facts.n_edges, edges.facts.duplicate_edges
    (['ann', 'bob'], 2, 1)
    """
    with at_hand(config.path, source) as (places, named), run_state.at_part():
        read, read_on_host = backend.readers(config, places)

        def cleaned(read: Callable[[], Any], backend: Backend) -> Any:
            # Only `clean` has the rows, so it can give up their columns one by one.
            return clean(named(read()), config, backend)

        try:
            with run_state.at_part():
                return cleaned(read, backend)
        except HostNeeded as reason:
            warning = f"read and cleaned on the host, because of {reason}"
            log.warning("%s", warning)
        edges = cleaned(read_on_host, ARROW)
    facts = replace(edges.facts, warnings=(*edges.facts.warnings, warning))
    return backend.from_host(replace(edges, facts=facts))
