"""Groups of a published run: its bicliques are read back, block by block, in place of an engine's output.

Surprise needs the degrees of the graph, so the run's input must be available and unchanged. If the run was published
without its bicliques, the graph is enumerated again, and the result must equal the run's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.pipeline.backends.arrow.edges import EdgeData
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import ConfigError, InputError, PublishError
from mbe_stage.pipeline.execution.compiling import OnCompile, host_steps
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.job import RunResult
from mbe_stage.pipeline.execution.steps import Clock, EnumerationFacts, collect_to, enumerate_to, finish
from mbe_stage.pipeline.execution.tiers import OnProgress, choose_tier, load_host_modules
from mbe_stage.pipeline.io.sources import joined_names
from mbe_stage.pipeline.problems.installed import derived_of, inputs_of, publication_of, reading_of
from mbe_stage.pipeline.publish.manifest import Manifest, lost_file, read_manifest
from mbe_stage.pipeline.publish.reading import (
    bicliques_batches,
    check_members,
    check_problem,
    run_with_bicliques,
    vertex_keys,
)
from mbe_stage.pipeline.stores.local_copies import address_of
from mbe_stage.pipeline.stores.open_store import is_there, kept_if_done, opened_run, store_at, was_in_memory
from mbe_stage.runtime.compile_ahead import compile_ahead
from mbe_stage.stream import Sink, StreamFacts, wants_outlook

log = logging.getLogger(__name__)

OnShare = Callable[[float], None]
"""Called with the share of the bicliques read back."""

# Approximate members of one side in a block: 8 MB of ids.
_MEMBERS = 1 << 21
_SIDES = ("left", "right")
# Settings that control the published outputs, but neither the destination nor the removal of runs.
_KEPT_OUTPUT = {"two_hop_steps", "compression", "top", "compare"}


def regroup(
    run_path: str | Path,
    sections: Mapping[str, Mapping[str, Any]] | None = None,
    source: object | None = None,
    *,
    on_share: OnShare = lambda _: None,
    on_progress: OnProgress | None = None,
    on_compile: OnCompile | None = None,
) -> RunResult:
    """Make groups of a published run, as a new run.

    Memory depends on the vertices and on a block, not on the number of bicliques. No engine runs, unless the run's
    bicliques are not available: then its input is enumerated again with the same query.

    Parameters
    ----------
    run_path : path
        A run directory, or an output directory for its latest run.
    sections : mapping, optional
        The section ``groups``; from ``output`` the destination (the source's directory by default) and other outputs
        (``bicliques`` is false by default); ``input.path``, if the input has moved; ``execution.threads``.
    source : object, optional
        The input in memory, as for `pipeline.run`.
    on_share : callable
    on_progress, on_compile : callable, optional
        See `pipeline.run`. With time buckets, `on_progress` reports the enumeration of the second graph.

    Returns
    -------
    RunResult
        The manifest names the source as `made_of` if that has bicliques; the run is truncated if the source is.

    Raises
    ------
    PublishError
        There is no run, it is damaged or incomplete without bicliques, or the new run cannot be written.
    ConfigError
        A setting is wrong, or not one of those above.
    InputError
        The run's input is not available, or has changed.
    """
    with opened_run(run_path) as run_dir:
        return _regrouped(run_dir, sections or {}, source, on_share, on_progress, on_compile)


def _regrouped(
    run_dir: Path,
    sections: Mapping[str, Mapping[str, Any]],
    source: object | None,
    on_share: OnShare,
    on_progress: OnProgress | None,
    on_compile: OnCompile | None,
) -> RunResult:
    """Regroup a run on this machine, as `regroup`."""
    clock = Clock()
    check_problem(run_dir)
    with_bicliques = run_with_bicliques(run_dir)
    run_dir = with_bicliques or run_dir
    manifest = read_manifest(run_dir)
    if (lost := lost_file(run_dir, manifest)) is not None:
        raise PublishError(f"{run_dir}: {lost}; expected an undamaged run; publish it again")
    config = _config(run_dir, manifest, sections)
    inputs_of(config)
    store = store_at(config.output.directory)
    with kept_if_done(store):
        store.check_writable()
        load_host_modules()
        clock.lap("load")
        edges = _edges(run_dir, manifest, config, source)
        clock.lap("read")
        # As in any run, imports are not part of a step.
        del clock.seconds["load"]
        if with_bicliques is None:
            engine = _engine_of(run_dir, manifest, config)
            needed = host_steps(engine, "publish", config, samples=wants_outlook(on_progress))
            collect = partial(enumerate_to, edges, config, on_progress=on_progress, engine=engine)
        else:
            of_outputs = (step for each in derived_of(config) for step in each.compile_steps(config))
            needed = (*publication_of(manifest.problem).compile_steps(config), *of_outputs)

            def find(sink: Sink, *_: object) -> StreamFacts:
                return _read_back(run_dir, manifest, sink, on_share)

            collect = partial(collect_to, edges, config, find=find, step="read back", on_progress=on_progress)
        prepared = compile_ahead(needed, on_compile)
        staging = store.begin()
        with staging.noted_by_interrupts(), staging:
            facts = collect(run_path=staging.path)
            _check_same(run_dir, manifest, facts, was_read_back=with_bicliques is not None)
            facts = facts.model_copy(update={"made_of": None if with_bicliques is None else manifest.run_id})
            finish(staging.path, edges.facts, config, facts, {**clock.seconds, **prepared}, store)
            published = staging.publish(config.output.keep_runs)
        return RunResult(published, Manifest.model_validate_json(staging.manifest), store=store)


def _engine_of(run_dir: Path, manifest: Manifest, config: Config) -> str:
    """Return the engine that enumerates the input again if the run has no bicliques."""
    if manifest.truncated is not None:
        raise PublishError(
            f"{run_dir}: was published without its bicliques, and is incomplete: it {manifest.truncated}, and "
            "another search would stop elsewhere; expected a complete run, or one with bicliques; make groups of "
            "the input: mbe groups INPUT"
        )
    log.info("%s was published without its bicliques; enumerating its input again", address_of(run_dir))
    return choose_tier(config.execution, config.problem, derived_of(config)).engine


def _check_same(run_dir: Path, manifest: Manifest, facts: EnumerationFacts, *, was_read_back: bool) -> None:
    """Refuse bicliques that differ from the run's."""
    if facts.truncated != manifest.truncated:
        raise PublishError(
            f"{run_dir}: is a complete run without bicliques; enumerated again, it {facts.truncated}: nothing was "
            "published; make groups of the input with another limit: mbe groups INPUT"
        )
    if facts.content_fingerprint != manifest.content_fingerprint:
        which = "its bicliques are not" if was_read_back else "the bicliques of its input, enumerated again, are not"
        raise PublishError(
            f"{run_dir}: {which} those of its manifest ({facts.content_fingerprint}; expected "
            f"{manifest.content_fingerprint}); the run is damaged: publish it again"
        )


def _config(run_dir: Path, manifest: Manifest, sections: Mapping[str, Mapping[str, Any]]) -> Config:
    """Return the source's query with the requested groups."""
    for section, keys in sections.items():
        known = {"input": {"path"}, "execution": {"threads"}}.get(section)
        if section not in ("groups", "output", "input", "execution") or (known and not keys.keys() <= known):
            key = next(iter(keys.keys() - (known or set())), "")
            raise ConfigError(
                f"{setting(f'{section}.{key}')} changes the search, but the bicliques of {run_dir} are read back "
                "unchanged; leave it out, or make groups of the input"
            )
    settings = manifest.config.model_dump(mode="json")
    return Config.from_mapping(
        {
            **{
                section: {**settings[section], **sections.get(section, {})}
                for section in ("input", "query", "execution")
            },
            "output": {
                **{key: value for key, value in settings["output"].items() if key in _KEPT_OUTPUT},
                "bicliques": False,
                "directory": sections.get("output", {}).get("directory") or _store_of(run_dir),
                **sections.get("output", {}),
            },
            "groups": dict(sections.get("groups", {})),
        },
        f"groups of {run_dir}",
    )


def _store_of(run_dir: Path) -> str:
    """Return the output directory of a run; refuse a run that was copied elsewhere."""
    if run_dir.resolve().parent.name != "runs":
        raise ConfigError(
            f"{run_dir}: is not where it was published; expected a run in an output directory; name the "
            f"destination: {setting('output.directory')}"
        )
    return address_of(run_dir.parent.parent if run_dir.parent.name == "runs" else run_dir.resolve().parent.parent)


def _edges(run_dir: Path, manifest: Manifest, config: Config, source: object | None) -> EdgeData:
    """Read the run's input, with the dense ids of the run."""
    stated, remedy = manifest.input, "name the current place of the same edges: --input INPUT"
    if source is None:
        path = config.input.path
        in_memory = was_in_memory(stated.source) and path == manifest.config.input.path
        if path is None or in_memory or not is_there(path):
            found = "edges in memory" if in_memory or path is None else f"{joined_names(path)}, which no longer exists"
            raise InputError.at(
                run_dir, found=f"a run of {found}", expected="its input, for the degrees", remedy=remedy
            )
    edges = ingest(reading_of(config), source)
    same = edges.facts.fingerprint == stated.fingerprint
    for side, keys in zip(_SIDES, (edges.left_keys, edges.right_keys), strict=True):
        same = same and vertex_keys(run_dir, side).equals(pa.chunked_array([keys]))
    if not same:
        raise InputError.at(
            edges.facts.source,
            found=f"other edges (fingerprint {edges.facts.fingerprint}) than the run {run_dir} has",
            expected=f"its input, of fingerprint {stated.fingerprint}",
            remedy=f"{remedy}; or make groups of the current input: mbe groups INPUT",
        )
    return edges


def _read_back(run_dir: Path, manifest: Manifest, sink: Sink, on_share: OnShare) -> StreamFacts:
    """Pass the published bicliques to a sink."""
    start, n_found = time.perf_counter(), 0
    for block, share in _blocks(run_dir, manifest):
        sink.accept(block)
        n_found += len(block)
        on_share(share)
    return StreamFacts(
        n_found=n_found,
        truncated=manifest.truncated,
        engine=manifest.engine,
        device=manifest.device,
        seconds=time.perf_counter() - start,
        sink_seconds=0.0,
        prepared={},
        warnings=(),
    )


def _blocks(run_dir: Path, manifest: Manifest) -> Iterator[tuple[BicliqueBlock, float]]:
    n_vertices = manifest.input.n_left, manifest.input.n_right
    for batch, share in bicliques_batches(run_dir, _MEMBERS):
        for side, n in zip(_SIDES, n_vertices, strict=True):
            check_members(run_dir, batch, side, n)
        # Copies, because views of Arrow's buffers are read-only, and compiled sinks expect writable arrays like an
        # engine's.
        (left_sizes, left), (right_sizes, right) = (
            (batch.column(f"n_{side}").to_numpy().copy(), batch.column(side).flatten().to_numpy().copy())
            for side in _SIDES
        )
        yield BicliqueBlock(batch.num_rows, left_sizes, right_sizes, left, right, share), share
