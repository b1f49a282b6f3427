"""Interrupted runs: which can be resumed, their progress, and their queries."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from mbe_stage.pipeline.clean.facts import InputFacts
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import ConfigError, PublishError
from mbe_stage.pipeline.execution.journal import (
    Header,
    Journal,
    Record,
    begun_journal,
    changes,
    read_journal,
)
from mbe_stage.pipeline.problems.installed import inputs_of, limit_of, publication_of
from mbe_stage.pipeline.publish.listing import query_settings
from mbe_stage.pipeline.publish.locks import is_locked
from mbe_stage.pipeline.publish.manifest import question, software_versions
from mbe_stage.pipeline.publish.run_files import JOURNAL_NAME, as_publish_errors, written_at
from mbe_stage.pipeline.publish.staging import Store
from mbe_stage.pipeline.stores.open_store import store_at

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A run that is not finished: it is running, or was interrupted.

    Attributes
    ----------
    header : Header or None
        None if its journal cannot be read.
    is_running : bool
        A process is writing it.
    """

    staging_dir: Path
    header: Header | None
    records: tuple[Record, ...]
    is_running: bool

    @property
    def n_found(self) -> int:
        """Number of results that are kept."""
        return sum(record.n_found for record in self.records)

    @property
    def work_done(self) -> float:
        """Share of the work, as the engine estimated it."""
        return min(1.0, sum(record.work for record in self.records))


def list_unfinished(directory: str | Path) -> list[Unfinished]:
    """List every resumable run of an output directory, the newest last."""
    with closing(store_at(directory)) as store:
        return [_read(staging_dir) for staging_dir in store.unfinished()]


def header_of(config: Config, source: str, edges: str) -> Header:
    """Return the journal header of a run with this configuration, source and fingerprint of the edges."""
    return Header(
        problem=config.problem,
        source=source,
        input=edges,
        question={
            **{key: value for key, value in question(config).items() if key != "execution"},
            "compression": config.output.compression,
            "beside": inputs_of(config, of_search=True),
        },
        asked=query_settings(config),
        versions=software_versions(),
    )


def staging_to_resume(store: Store, config: Config, *, begins_anew: Callable[[str], None] | None = None) -> Path | None:
    """Return the newest unfinished run of the same query that no process is writing; None if there is none.

    Runs with results go before those that have only read.

    Parameters
    ----------
    begins_anew : callable, optional
        Called with the changes since the newest run if all unfinished runs have other queries or software. Without it,
        that case is refused.

    Raises
    ------
    ConfigError
        Runs of the problem cannot be resumed.
    PublishError
        No unfinished run has this query and this software; the message says what has changed.
    """
    if begins_anew is None and not publication_of(config.problem).is_resumable:
        raise ConfigError(
            f"{setting('problem')} is {config.problem!r}, whose runs write no checkpoints; leave --resume out"
        )
    free = [each for each in map(_read, store.unfinished()) if not each.is_running and each.header is not None]
    # Older runs are removed when this run starts, unless it resumes one of them.
    oldest = time.time() - config.output.keep_unfinished_days * 86_400
    differing: list[str] = []
    for each in sorted(free, key=lambda each: bool(each.records))[::-1]:
        assert each.header is not None
        # The edges are not read yet.
        changed = changes(each.header, header_of(config, each.header.source, each.header.input))
        if not changed:
            return each.staging_dir
        if written_at(each.staging_dir) <= oldest:
            continue
        differing = differing or [f"{each.staging_dir}: cannot be resumed: {'; '.join(changed)}"]
    if begins_anew is not None:
        for reason in differing:
            begins_anew(reason)
        return None
    if differing:
        raise PublishError(f"{differing[0]}; start over without --resume, or remove it: mbe clean {store.address}")
    log.warning("%s: no run to resume; starting over", store.address)
    return None


def why_not_resumed(staging_dir: Path, config: Config, input_facts: InputFacts) -> str | None:
    """Describe what has changed since a run was interrupted; None if it can be resumed."""
    try:
        begun, records = read_journal(staging_dir)
    except PublishError as error:
        return str(error)
    changed = "; ".join(changes(begun, _header(config, input_facts)))
    return changed or _beyond_limit(config, sum(record.n_found for record in records))


def journal_for(config: Config, input_facts: InputFacts, run_path: Path) -> Journal | None:
    """Open the journal of a run, resumed or new; None if the run keeps no checkpoints.

    Raises
    ------
    PublishError
        The run has other edges, another query or other software; or the journal cannot be written.
    """
    staging_dir, header = run_path.parent, _header(config, input_facts)
    if (staging_dir / JOURNAL_NAME).exists():
        with as_publish_errors(staging_dir):
            journal = begun_journal(staging_dir, header)
        if (reason := _beyond_limit(config, journal.n_found)) is not None:
            raise PublishError(f"{staging_dir}: cannot be resumed: {reason}; expected a larger limit, or no limit")
        if journal.records:
            log.info("resumed with %s earlier results", f"{journal.n_found:,}")
        return journal
    if config.output.checkpoint_seconds is None:
        return None
    if not publication_of(config.problem).is_resumable:
        return None
    with as_publish_errors(staging_dir):
        return begun_journal(staging_dir, header)


def _beyond_limit(config: Config, n_kept: int) -> str | None:
    """Explain why a run with that many results exceeds the limit on their number; or None."""
    limit = limit_of(config.problem)
    most = None if limit is None else getattr(config.execution, limit)
    if most is None or n_kept <= most:
        return None
    return f"it already has {n_kept:,} results, and {setting(f'execution.{limit}')} is {most}"


def _header(config: Config, input_facts: InputFacts) -> Header:
    # Tasks depend on the searched graph, which has only the held edges.
    held = "" if input_facts.n_edges_held is None else f" {input_facts.n_edges_held} held"
    edges = f"{input_facts.fingerprint} {input_facts.events_fingerprint}{held}"
    return header_of(config, input_facts.source, edges)


def _read(staging_dir: Path) -> Unfinished:
    is_running = is_locked(staging_dir / ".lock")
    try:
        header, records = read_journal(staging_dir)
    except PublishError as error:
        log.warning("%s", error)
        return Unfinished(staging_dir, None, (), is_running)
    return Unfinished(staging_dir, header, tuple(records), is_running)
