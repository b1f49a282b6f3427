"""Whether a run that says it is incomplete could have been stopped, and by what it says."""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import VerificationError
from pipeline.installed_publications import limit_of, publication_of
from pipeline.manifest import Manifest

__all__ = ["check_limits"]

_OF_MEMORY = "stopped at the memory budget: "


def check_limits(run: Path, manifest: Manifest) -> str:
    """`truncated` names a limit of the run's own configuration, and the number of results agrees with it.

    Otherwise a finished run could be passed off as one that was stopped, of which nothing is expected to be there.
    """
    truncated, n_found = manifest.truncated, manifest.n_found
    execution, what = manifest.config.execution, publication_of(manifest.problem).counted
    limit, seconds = limit_of(manifest.problem), execution.time_limit_seconds
    most = None if limit is None else getattr(execution, limit)
    place = f"{run / 'manifest.json'}: truncated is {truncated!r}"
    if most is not None and n_found > most:
        raise VerificationError(f"{place}: {n_found:,} {what} are more than {limit} = {most} of its config")
    if truncated is None:
        return "complete"
    reasons = []
    if most is not None and n_found == most:
        reasons.append(f"stopped at {limit} = {most}")
    if execution.max_output_bytes is not None:
        reasons.append(f"stopped at max_output_bytes = {execution.max_output_bytes}")
    if seconds is not None:
        reasons.append(f"stopped at time_limit_seconds = {seconds:g}")
    # Its budget every run has, and what is said behind it is the engine's.
    if truncated not in reasons and not truncated.startswith(_OF_MEMORY):
        expected = " or ".join(map(repr, reasons)) or "null"
        raise VerificationError(f"{place}; expected {expected}, by its config and its {n_found:,} {what}")
    return truncated
