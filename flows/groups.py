"""The flow of groups: edges in, a short, ranked list out, with the groups that are new since the last run.

It is the flow of bicliques with other defaults: groups are requested, and the bicliques behind them are not written.
Tasks, retries, locks and the skip are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed

from mbe_stage.flows import enumerate as bicliques
from mbe_stage.flows.enumerate import run_as_flow
from mbe_stage.flows.notify import PREFECT_ONLY, Notify
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.stores.local_copies import local_path
from mbe_stage.pipeline.views.listed_groups import nothing_significant
from mbe_stage.pipeline.wording import plural

__all__ = ["NOTHING_SIGNIFICANT", "configure", "find_groups_flow"]

NOTHING_SIGNIFICANT = "NothingSignificant"
"""The state name of a complete run without a significant group: a result, not an alarm."""


def configure(
    config_path: str | None = None,
    input_path: str | None = None,
    output_directory: str | None = None,
    overrides: Sequence[str] = (),
) -> Config:
    """Load a configuration with groups; bicliques are written only if it says how. See `flows.enumerate.configure`.

    Raises
    ------
    ConfigError
        The file, a key or a value cannot be used, or the problem has no groups.
    """
    return bicliques.configure(config_path, input_path, output_directory, overrides, complete=_with_groups)


def _with_groups(values: dict[str, Any]) -> None:
    """Request groups, and no bicliques unless the configuration mentions them."""
    for section in ("groups", "output"):
        if values.get(section) is None:
            values[section] = {}
    output = values["output"]
    # Values that are not sections are refused when the configuration is checked.
    if isinstance(output, dict) and not output.keys() & {"bicliques", "members", "sort"}:
        output["bicliques"] = False


@flow(name="find-groups", persist_result=False)
def find_groups_flow(
    config_path: str | None = None,
    input_path: str | None = None,
    output_directory: str | None = None,
    overrides: Sequence[str] = (),
    force: bool = False,
    notify: Notify = PREFECT_ONLY,
) -> State[dict[str, Any]]:
    """Find the significant groups of a graph, rank and explain them, and publish them.

    Parameters
    ----------
    config_path : str, optional
        YAML configuration; without it every default holds.
    input_path, output_directory : str, optional
        In place of `input.path` and `output.directory`.
    overrides : sequence of str
        ``section.key=value``, each with a YAML value.
    force : bool
        Search even if input and configuration are those of the latest run.
    notify : Notify
        Recipients of new cases.

    Returns
    -------
    State
        See `flows.enumerate.enumerate_bicliques_flow`, with ``groups``, ``muted_groups`` and ``new_groups`` (None
        without a run to compare with). Named ``NothingSignificant`` if a complete search found no group.
    """
    return run_as_flow(lambda: configure(config_path, input_path, output_directory, overrides), force, _found, notify)


def _found(result: dict[str, Any], manifest: Manifest) -> State[dict[str, Any]]:
    """Make the state of a published run: its number of groups that are not muted, or the reason for none."""
    n_muted = manifest.derived["groups"].get("muted", 0)
    comparison = manifest.derived_comparison.get("groups")
    is_compared = comparison is not None and comparison.n_same is not None
    n_new = comparison.counts.get("new", 0) if comparison is not None and is_compared else None
    n_groups, data = result["groups"] - n_muted, {**result, "muted_groups": n_muted, "new_groups": n_new}
    muted = f"; {plural(n_muted, 'group')} muted" if n_muted else ""
    if n_groups:
        new = "" if n_new is None else f", {n_new:,} of them new"
        return Completed(message=f"{plural(n_groups, 'group')} published{new}{_incomplete(manifest)}{muted}", data=data)
    why = nothing_significant(local_path(result["run"]), manifest)
    if n_muted:
        return Completed(message=f"no group is left: {why}{muted}", data=data)
    if incomplete := _incomplete(manifest):
        # The rest of the search could have found groups, so this is no alarm, and not the state for "nothing found".
        return Completed(message=f"no group is significant so far{incomplete}; {why}", data=data)
    return Completed(name=NOTHING_SIGNIFICANT, message=f"no group is significant: {why}", data=data)


def _incomplete(manifest: Manifest) -> str:
    if manifest.truncated is not None:
        return f"; incomplete: {manifest.truncated}"
    counts = manifest.derived["groups"]
    if counts.get("half_later_truncated"):
        return "; incomplete: a limit ended the search of the buckets shifted by half"
    return "; incomplete: the time ended the search of keys" if counts.get("keys_not_searched") else ""


if __name__ == "__main__":
    from mbe_stage.flows.command import main

    main("groups")
