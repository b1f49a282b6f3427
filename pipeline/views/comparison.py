"""Comparison of a run, before it is published, with the last complete run of the same query.

It takes some seconds at most. If the two runs together have more than `MOST_BICLIQUES`, only their totals are compared.
If more than `output.compare` differ, only counts are given. `SEARCH_LIMIT` bounds the search for partners.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from mbe_stage.pipeline.cli.terminal import shortened
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.manifest import ComparedGroup, Comparison, Manifest, lost_file, read_manifest
from mbe_stage.pipeline.publish.staging import Store
from mbe_stage.pipeline.stores.local_copies import addresses_in
from mbe_stage.pipeline.views.top import Biclique

log = logging.getLogger(__name__)

MOST_BICLIQUES = 5_000_000
"""Maximum results of the two runs together: reading them takes some seconds."""

SEARCH_LIMIT = 1_000_000_000
"""Bound on the search for partners, in shared members to count: a few seconds."""

_SHOWN = 5
_SHOWN_KEYS = 12
_KEY_CHARACTERS = 200


def last_complete(store: Store, config_fingerprint: str) -> tuple[Path, Manifest] | None:
    """Return the newest published run with this `config_fingerprint` that is complete and has all its files.

    Raises
    ------
    PublishError
        The store cannot be listed.
    """
    for run in reversed(store.runs()):
        try:
            manifest = read_manifest(store.opened(run))
        except PublishError as error:
            log.info("no run to compare with: %s", error)
            continue
        asked_the_same = manifest.config_fingerprint == config_fingerprint
        if asked_the_same and manifest.truncated is None and lost_file(run, manifest, store.sizes(run)) is None:
            return run, manifest
    return None


def not_sought(error: PublishError) -> Comparison:
    """Return a comparison with the remark that runs could not be listed."""
    reason = f"runs to compare with could not be listed: {addresses_in(error)}"
    log.warning("%s", reason)
    return Comparison(run_id=None, remarks=(reason,))


def compare_with_last(
    store: Store, run_path: Path, manifest: Manifest, on_compile: Callable[[], object] = lambda: None
) -> Comparison:
    """Compare a run, published or about to be, with the last complete run of the same query.

    Parameters
    ----------
    on_compile : callable
        Called before compiled code is needed, if the sets of keys differ.
    """
    try:
        last = last_complete(store, manifest.config_fingerprint)
    except PublishError as error:
        # The publication reports problems with the store.
        return not_sought(error)
    if last is None:
        return Comparison(run_id=None, remarks=("no complete run of the same query is published here",))
    before, of_before = last
    if of_before.counts.bicliques + manifest.counts.bicliques > MOST_BICLIQUES:
        too_many = "too many to compare one by one in a report; use mbe diff"
        return Comparison(run_id=before.name, remarks=(_totals(of_before, manifest, too_many),))
    if not manifest.config.output.bicliques:
        # The other run lacks the table too, since its query is the same.
        unknown = "the differences are unknown, because bicliques were not written (output.bicliques: false)"
        return Comparison(run_id=before.name, remarks=(_totals(of_before, manifest, unknown),))
    differ = of_before.content_fingerprint != manifest.content_fingerprint
    if differ:
        on_compile()
    try:
        _bring_here(store, before, run_path, has_rows=differ)
        return _compared(before, of_before, run_path, manifest)
    except (PublishError, OSError, MemoryError) as error:
        # This run is complete, in a store or here. Its report names the problem.
        reason = addresses_in(error) or "out of memory"
        log.warning("run %s could not be compared with: %s", before.name, reason)
        return Comparison(run_id=before.name, remarks=(f"the two could not be compared: {reason}",))


def _bring_here(store: Store, before: Path, run_path: Path, *, has_rows: bool) -> None:
    """Fetch the files of both runs that are needed; for equal runs only the types of their keys."""
    from mbe_stage.pipeline.stores.part_objects import fetch_missing

    if has_rows:
        fetch_missing(run_path)
        store.whole(before)
    else:
        store.with_files(before, [f"{side}_vertices.parquet" for side in ("left", "right")])


def _compared(before: Path, of_before: Manifest, run_path: Path, manifest: Manifest) -> Comparison:
    from mbe_stage.pipeline.views.diff import largest_differences, searched_words
    from mbe_stage.pipeline.views.diff.job import diff_between

    diff = diff_between(
        (before, of_before),
        (run_path, manifest),
        search_limit=SEARCH_LIMIT,
        most_differing=manifest.config.output.compare,
        threads=manifest.config.execution.threads,
    )
    searched = searched_words(diff)
    comparable = diff.comparability.knows_gone and diff.comparability.knows_new
    shown = [] if comparable and diff.pairs is None else largest_differences(diff, _SHOWN)
    return Comparison(
        run_id=before.name,
        remarks=(*diff.comparability.remarks, *([] if searched is None else [searched])),
        counts={status: count for status, count in diff.counts.items() if count},
        n_same=diff.n_same,
        largest=tuple(_group(one.status, one.biclique, one.partner, one.jaccard) for one in shown),
    )


def _group(status: str, biclique: Biclique, partner: Biclique | None, jaccard: float | None) -> ComparedGroup:
    came, went = ((), ()) if partner is None else (biclique.without(partner), partner.without(biclique))
    return ComparedGroup(
        status=status,
        biclique_key=biclique.key,
        n_left=len(biclique.left),
        n_right=len(biclique.right),
        left=_texts(biclique.left),
        right=_texts(biclique.right),
        came=_texts(came),
        went=_texts(went),
        jaccard=jaccard,
    )


def _texts(keys: tuple[int | str, ...]) -> tuple[str, ...]:
    return tuple(shortened(key, _KEY_CHARACTERS) for key in keys[:_SHOWN_KEYS])


def _totals(before: Manifest, after: Manifest, why: str) -> str:
    if before.content_fingerprint == after.content_fingerprint:
        return "both hold the same bicliques: their content fingerprints agree"
    return f"{after.counts.bicliques:,} bicliques after {before.counts.bicliques:,}: {why}"
