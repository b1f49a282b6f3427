"""The command `mbe verify`."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from mbe_stage.bicliques import keys
from mbe_stage.pipeline.cli import json_or_text as show
from mbe_stage.pipeline.cli.console import ProgressDisplay
from mbe_stage.pipeline.cli.publishing import set_up_logging
from mbe_stage.pipeline.cli.terminal import print_json
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.execution import ingest
from mbe_stage.pipeline.problems.installed import reading_of
from mbe_stage.pipeline.publish.manifest import Manifest, read_manifest
from mbe_stage.pipeline.stores.local_copies import address_of, addresses_in
from mbe_stage.pipeline.stores.open_store import is_there, opened_run, was_in_memory
from mbe_stage.pipeline.verify import compile_steps, publications_of_run, verify_run
from mbe_stage.runtime.compile_ahead import compile_ahead


def check(
    run_path: str,
    given: Mapping[str, str],
    sample: int | None,
    seed: int,
    threads: int,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Read the run's input again if possible, check the run, and show the result.

    Parameters
    ----------
    run_path : str
        A run, or an output directory.
    given : mapping of str to str
        Keys of `input` that replace those of the manifest: ``path``, ``format``.
    sample : int, optional
        Number of bicliques to check against the graph.
    threads : int
        0: one per core.

    Raises
    ------
    VerificationError
        A check failed.
    """
    with opened_run(run_path, may_be_odd=True) as run_dir:
        manifest = read_manifest(run_dir)
        publications_of_run(run_dir, manifest)
        config = reading_of(manifest.config, **given)
        with ProgressDisplay(set_up_logging(quiet, verbose), quiet, "reading the input") as progress:
            compile_ahead((*keys.compile_steps(), *compile_steps(manifest)), progress.compiled)
            edges = ingest.ingest(config) if "path" in given or _is_where_it_was(manifest, config) else None
            if edges is None:
                logging.getLogger(__name__).warning(
                    "%s cannot be read again: checking without the input; name it with --input", manifest.input.source
                )
            try:
                report = verify_run(run_dir, edges, sample, seed, threads=threads, on_progress=progress.verified)
            except VerificationError as error:
                if as_json:
                    print_json({"verified": False, "run": address_of(run_dir), "error": addresses_in(error)})
                raise
        show.verification(report, as_json)


def _is_where_it_was(manifest: Manifest, config: InputConfig) -> bool:
    """Return whether the input is still there; a run on edges in memory may have a path that was not read."""
    return not was_in_memory(manifest.input.source) and config.path is not None and is_there(config.path)
