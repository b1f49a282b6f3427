"""The command `mbe inspect`, with its options as a configuration."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mbe_stage import stream
from mbe_stage.pipeline.cli import console
from mbe_stage.pipeline.cli import json_or_text as show
from mbe_stage.pipeline.cli.publishing import set_up_logging
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.execution import ingest
from mbe_stage.pipeline.execution.compiling import read_steps
from mbe_stage.pipeline.problems.installed import reading_of
from mbe_stage.pipeline.views.inspect import compile_steps, inspect_edges
from mbe_stage.runtime.compile_ahead import compile_ahead


def look(config: Config, options: Mapping[str, Any]) -> None:
    """Read, compile, run the trial, and show the results."""
    quiet, trial = options["quiet"], options["trial"]
    with console.ProgressDisplay(set_up_logging(quiet, options["verbose"]), quiet, "reading and trying") as progress:
        # Refuse an unavailable engine before reading anything.
        needed = compile_steps(config, trial > 0)
        compile_ahead(read_steps(), progress.compiled)
        edges = ingest.ingest(reading_of(config))
        # Refuse unreadable input before this wait.
        compile_ahead(needed, progress.compiled)
        with _cut_short_on_purpose():
            # The text has sizes of cores only in the suggestions after a trial.
            finds_cores = trial > 0 or options["as_json"]
            found = inspect_edges(edges, config, trial, options["seed"], finds_cores=finds_cores)
    show.inspection(found, options["as_json"])


@contextmanager
def _cut_short_on_purpose() -> Iterator[None]:
    """Silence the warning that a trial is cut short, and log lines of its steps below warnings."""
    package, searching = logging.getLogger("mbe_stage"), logging.getLogger(stream.__name__)
    before = package.level
    package.setLevel(max(before, logging.WARNING))
    searching.addFilter(_is_no_limit)
    try:
        yield
    finally:
        searching.removeFilter(_is_no_limit)
        package.setLevel(before)


def _is_no_limit(record: logging.LogRecord) -> bool:
    return record.msg != stream.INCOMPLETE
