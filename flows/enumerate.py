"""The flow of bicliques: edges in, a published run out, with retries, progress, artifacts and a skip if unchanged.

The flow opens the staging directory around its tasks, which run one after another in its own thread, so one process
holds the staging lock throughout. An error, a cancellation or a signal leaves that context, which removes everything
unpublished. Only the task `publish` makes a run visible, in one step. A killed process leaves its staging directory
behind; the next run removes it.

Tasks pass paths and small values. Edges travel as files in the scratch directory of the staging.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.states import Completed, Failed

from mbe_stage.errors import StageError
from mbe_stage.flows.artifacts import create_artifacts, create_unchanged_artifact
from mbe_stage.flows.gpu import device_slot
from mbe_stage.flows.lost_signals import signals_are_heard_by_flow
from mbe_stage.flows.notify import PREFECT_ONLY, Notify, send_news
from mbe_stage.flows.progress import ProgressReporter
from mbe_stage.flows.retries import gpu_may_be_free, log_in_one_line, worth_retrying
from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.clean.facts import InputFacts, facts_of
from mbe_stage.pipeline.cli import metrics
from mbe_stage.pipeline.cli.options import METRICS
from mbe_stage.pipeline.cli.terminal import visible
from mbe_stage.pipeline.config.model import Config, load_config
from mbe_stage.pipeline.errors import ConfigError, DeviceMemoryExhausted
from mbe_stage.pipeline.execution.job import edges_read, stage
from mbe_stage.pipeline.execution.saved_reading import SavedSteps
from mbe_stage.pipeline.execution.steps import find_unchanged
from mbe_stage.pipeline.execution.tiers import OnProgress, Tier, noting_the_beginning, on_a_tier_that_fits, tier_named
from mbe_stage.pipeline.execution.unfinished import staging_to_resume, why_not_resumed
from mbe_stage.pipeline.problems.installed import derived_of, inputs_of
from mbe_stage.pipeline.problems.result_text import found, passing, text_of_run, values
from mbe_stage.pipeline.publish.manifest import Manifest, read_manifest
from mbe_stage.pipeline.publish.run_files import JOURNAL_NAME
from mbe_stage.pipeline.publish.staging import Staging, Store
from mbe_stage.pipeline.stores.address import STANDARD_INPUT
from mbe_stage.pipeline.stores.local_copies import address_of, local_path
from mbe_stage.pipeline.stores.open_store import store_at, whole_run
from mbe_stage.runtime.compile_ahead import summed
from mbe_stage.stream import Listener, wants_outlook

__all__ = [
    "Ending",
    "completed",
    "configure",
    "enumerate_bicliques_flow",
    "enumerate_staged",
    "read_edges",
    "run_as_flow",
    "with_cluster_of_flow",
]

log = logging.getLogger(__name__)
# At import time, because Prefect's log handlers outlive a flow, and its process logs the error again afterwards.
log_in_one_line()
Ending = Callable[[dict[str, Any], Manifest], State[dict[str, Any]]]
"""Makes the final state of a published run from the flow's result and the manifest."""


def configure(
    config_path: str | None = None,
    input_path: str | None = None,
    output_directory: str | None = None,
    overrides: Sequence[str] = (),
    *,
    complete: Callable[[dict[str, Any]], object] = lambda _: None,
) -> Config:
    """Load the configuration: the file or the defaults, then `overrides`, then the two paths, then `complete`.

    Raises
    ------
    ConfigError
        The file, a key or a value cannot be used.
    """
    paths = {"input.path": input_path, "output.directory": output_directory}
    # JSON text is YAML text: a path with a colon or a leading digit stays the string it is.
    given = [f"{key}={json.dumps(path)}" for key, path in paths.items() if path is not None]
    config = load_config(config_path, [*overrides, *given], complete)
    path = config.input.path
    if STANDARD_INPUT in (path if isinstance(path, tuple) else (path,)):
        raise ConfigError("input.path: standard input cannot be read again by a retry or a later run; expected a file")
    return config


def read_edges(config: Config, scratch: str, tier: Tier) -> dict[str, Any]:
    """Read and clean the input into files in `scratch`.

    Returns
    -------
    dict
        ``facts``, the fields of `InputFacts`, and ``seconds`` of the steps.
    """
    # The next task needs the edges, so no cluster reads them.
    here = config.model_copy(update={"execution": config.execution.model_copy(update={"cluster": None})})
    staging_dir = Path(scratch).parent
    saved = SavedSteps(config, lambda: staging_dir, is_resumed=True)
    with edges_read(tier, here, saved=saved) as (steps, edges, seconds):
        start = time.perf_counter()
        steps.save_edges(edges, Path(scratch))
        seconds["read"] += time.perf_counter() - start
        return {"facts": asdict(edges.facts), "seconds": seconds}


def enumerate_staged(
    config: Config,
    scratch: str,
    run_path: str,
    read_seconds: Mapping[str, float],
    tier: Tier,
    on_progress: OnProgress | None = None,
    warnings: Sequence[str] = (),
) -> None:
    """Enumerate the saved edges into a staged run, complete with report and manifest.

    Parameters
    ----------
    scratch : str
        The directory of the saved edges.
    run_path : str
        The staging directory of the run.
    read_seconds : mapping of str to float
        Seconds of the steps before this one.
    warnings : sequence of str
        Warnings from the choice of the tier.
    """
    with noting_the_beginning(on_progress) as note, tier.open(config.execution) as steps:
        start = time.perf_counter()
        edges = steps.load_edges(Path(scratch))
        loaded = {"load edges": time.perf_counter() - start}
        prepared = tier.compile(tier.compile_steps("publish", config, samples=wants_outlook(note)))
        seconds = summed(read_seconds, loaded, prepared)
        with closing(store_at(config.output.directory)) as store:
            stage(steps, edges, config, Path(run_path), store, seconds, warnings, note)


@task(
    name="ingest",
    retries=3,
    retry_delay_seconds=[10, 60, 300],
    retry_condition_fn=worth_retrying,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def ingest_task(config: Config, scratch: str, tier_name: str) -> dict[str, Any]:
    """Read the input. Disk and network failures are retried; unusable input is not."""
    tier = tier_named(tier_name, config.problem, derived_of(config))
    with device_slot(tier, get_run_logger()) if tier.reads_on_gpu else nullcontext():
        return read_edges(config, scratch, tier)


@task(
    name="enumerate",
    retries=2,
    retry_delay_seconds=[30, 300],
    retry_condition_fn=gpu_may_be_free,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def enumerate_task(
    config: Config,
    scratch: str,
    run_path: str,
    read_seconds: Mapping[str, float],
    tier_name: str,
    warnings: Sequence[str] = (),
) -> None:
    """Build graph, tables, report and manifest in one task, so that nothing large leaves it.

    Retried only if another program filled the GPU: from the last checkpoint or the start, with all device memory
    released. The staged run of an earlier attempt is resumed if it has a journal, else removed.
    """
    if not (Path(run_path).parent / JOURNAL_NAME).exists():
        _remove_contents(Path(run_path))
    tier = tier_named(tier_name, config.problem, derived_of(config))
    counted = passing(config.problem)
    with device_slot(tier, get_run_logger()) as let_go, ProgressReporter(get_run_logger(), counted) as report:

        def on_progress(progress: Any) -> None:
            if progress.engine not in ("", tier.engine):
                # The CPU took over: release the GPU for the next run.
                let_go()
            report(progress)

        try:
            enumerate_staged(config, scratch, run_path, read_seconds, tier, Listener(on_progress), warnings)
        except DeviceMemoryExhausted as error:
            # Prefect keeps the error until the next attempt, the error its frames, and they the arrays on the device.
            traceback.clear_frames(error.__traceback__)
            raise


@task(
    name="publish",
    retries=3,
    retry_delay_seconds=[5, 30, 120],
    retry_condition_fn=worth_retrying,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def publish_task(staging: Staging, keep_runs: int | None) -> str:
    """Move the staged run among the published ones."""
    return str(staging.publish(keep_runs))


@task(name="artifacts", retries=2, retry_delay_seconds=5, cache_policy=NO_CACHE, persist_result=False)
def artifacts_task(run_dir: str, store: Store | None = None) -> None:
    """Show the published run in Prefect. This reads all of its files."""
    manifest = read_manifest(run_dir)
    create_artifacts(whole_run(store, Path(run_dir), manifest), manifest)


@task(name="notify", cache_policy=NO_CACHE, persist_result=False)
def notify_task(run_dir: str, store: Store, notify: Notify) -> None:
    """Report the new results of a published run to others; a failure is a warning."""
    log = get_run_logger()
    try:
        manifest = read_manifest(run_dir)
        whole = whole_run(store, Path(run_dir), manifest)
        for derived in derived_of(manifest.config):
            if derived.news is not None:
                send_news(derived.news(whole, manifest), manifest, notify, log)
    except Exception as error:  # noqa: BLE001 - the run is published, whatever happens here
        what = visible(error) if isinstance(error, StageError) else type(error).__name__
        log.warning("new results could not be reported: %s", what)


@flow(name="enumerate-bicliques", persist_result=False)
def enumerate_bicliques_flow(
    config_path: str | None = None,
    input_path: str | None = None,
    output_directory: str | None = None,
    overrides: Sequence[str] = (),
    force: bool = False,
    notify: Notify = PREFECT_ONLY,
) -> State[dict[str, Any]]:
    """Enumerate the maximal bicliques of a graph, or solve the configured problem, and publish the results.

    Parameters
    ----------
    config_path : str, optional
        YAML configuration; without it every default holds.
    input_path, output_directory : str, optional
        In place of `input.path` and `output.directory`.
    overrides : sequence of str
        ``section.key=value``, or ``problem=name``, each with a YAML value.
    force : bool
        Enumerate even if input and configuration are those of the latest run.
    notify : Notify
        With groups: recipients of new cases.

    Returns
    -------
    State
        Completed, named ``Unchanged`` if there was nothing to do. Its result is a dict with ``run``, ``unchanged``,
        ``bicliques`` (or the problem's own count), ``truncated``, ``content_fingerprint``, and ``groups`` if
        requested. Failed, with the pipeline's one-line message, if the pipeline refuses.
    """
    return run_as_flow(
        lambda: configure(config_path, input_path, output_directory, overrides), force, completed, notify
    )


def run_as_flow(
    configured: Callable[[], Config], force: bool, ending: Ending, notify: Notify = PREFECT_ONLY
) -> State[dict[str, Any]]:
    """Run the body of a flow.

    Parameters
    ----------
    configured : callable
        Returns the configuration, or raises `ConfigError`.
    force : bool
        Run even if input and configuration equal those of the latest run.
    ending : callable
        Makes the final state from the flow's result and the run's manifest.
    notify : Notify
        Recipients of new results.
    """
    run_state.begin("flow")
    try:
        metrics.write_to(Path(os.environ[METRICS]) if os.environ.get(METRICS) else None)
        with metrics.reported(get_run_logger), signals_are_heard_by_flow(), metrics.updated():
            config = with_cluster_of_flow(configured())
            run_state.state.problem = config.problem
            with (
                closing(store_at(config.output.directory)) as store,
                store.begin(
                    config.output.keep_unfinished_days, staging_to_resume(store, config, begins_anew=_warn_of_change)
                ) as staging,
            ):
                # Refuse an impossible combination of outputs before anything is read.
                inputs_of(config)
                return on_a_tier_that_fits(
                    config,
                    lambda tier, warnings, _note: _run_on(tier, warnings, config, staging, force, ending, notify),
                )
    except StageError as error:
        # Returned, not raised: a traceback would bury the message.
        return Failed(message=visible(error), data=error)


def completed(result: dict[str, Any], manifest: Manifest) -> State[dict[str, Any]]:
    """Make the state of a published run, with its number of results."""
    end = f"; incomplete: {manifest.truncated}" if manifest.truncated else ""
    result_text = text_of_run(local_path(result["run"]), manifest)
    message = f"{found(manifest.problem, manifest.n_found, result_text)} published{end}"
    return Completed(message=message, data=result)


def _run_on(
    tier: Tier,
    warnings: tuple[str, ...],
    config: Config,
    staging: Staging,
    force: bool,
    ending: Ending,
    notify: Notify,
) -> State[dict[str, Any]]:
    scratch = str(staging.scratch)
    # Another tier may have left its edges here.
    _remove_contents(staging.scratch)
    for warning in warnings:
        get_run_logger().warning("%s", visible(warning))
    # The reasons against other tiers interest few readers; an engine requested by name refuses by itself.
    get_run_logger().info("tier %s", tier.name)
    get_run_logger().debug("tier %s: %s", tier.name, tier.reason)
    is_resumed = staging.is_resumed
    read = ingest_task(config, scratch, tier.name)
    unchanged = None if force else find_unchanged(staging.store, facts_of(read["facts"]), config)
    if unchanged is not None:
        return _skip(staging.store.whole(unchanged))
    if is_resumed:
        _resume_or_begin_anew(staging, config, facts_of(read["facts"]))
    enumerate_task(config, scratch, str(staging.path), read["seconds"], tier.name, warnings)
    run_dir = publish_task(staging, config.output.keep_runs)
    if any(derived.news is not None for derived in derived_of(config)):
        notify_task(run_dir, staging.store, notify)
    artifacts_task(run_dir, staging.store)
    manifest = read_manifest(run_dir)
    return ending(_result(run_dir, manifest, unchanged=False), manifest)


def _resume_or_begin_anew(staging: Staging, config: Config, input_facts: InputFacts) -> None:
    """Resume the unfinished run of this schedule if possible, and log it."""
    reason = why_not_resumed(staging.path.parent, config, input_facts)
    if reason is None:
        get_run_logger().info("resuming an interrupted run: %s", staging.run_id)
        return
    _warn_of_change(f"cannot be resumed: {reason}")
    staging.begin_anew()


def _warn_of_change(reason: str) -> None:
    get_run_logger().warning("%s", visible(f"an earlier run was interrupted; this one starts over: {reason}"))


def _remove_contents(directory: Path) -> None:
    """Remove the files of an earlier attempt."""
    for path in directory.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _skip(run_dir: Path) -> State[dict[str, Any]]:
    manifest = read_manifest(run_dir)
    run_state.state.run = run_dir.name
    message = f"unchanged: input and configuration equal those of run {manifest.run_id}; nothing enumerated"
    get_run_logger().info(message)
    create_unchanged_artifact(run_dir, manifest)
    return Completed(name="Unchanged", message=message, data=_result(run_dir, manifest, unchanged=True))


def _result(run_dir: str | Path, manifest: Manifest, unchanged: bool) -> dict[str, Any]:
    return {
        "run": address_of(Path(run_dir)),
        "unchanged": unchanged,
        **values(manifest.problem, manifest.n_found, text_of_run(Path(run_dir), manifest)),
        "truncated": manifest.truncated,
        "content_fingerprint": manifest.content_fingerprint,
        **{name: counts[name] for name, counts in manifest.derived.items() if name in counts},
    }


if __name__ == "__main__":
    from mbe_stage.flows.command import main

    main("enumerate")


def with_cluster_of_flow(config: Config) -> Config:
    """Return the configuration with the scheduler's address of the flow's task runner, if that has a Dask cluster.

    Applies with ``execution.runner: dask`` and neither ``execution.cluster`` nor ``execution.workers``.
    """
    execution = config.execution
    if execution.runner != "dask" or execution.cluster is not None or execution.workers is not None:
        return config
    address = _address(getattr(FlowRunContext.get(), "task_runner", None))
    if address is None:
        return config
    return config.model_copy(update={"execution": execution.model_copy(update={"cluster": address})})


def _address(task_runner: Any) -> str | None:
    # A task runner without a client has no cluster. A `DaskTaskRunner` opens its client at first use.
    client = getattr(task_runner, "client", None)
    return None if client is None else str(client.scheduler.address)
