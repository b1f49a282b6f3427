"""Whether a run that says it is incomplete could have been stopped, and by what it says."""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import VerificationError
from pipeline.manifest import Manifest

__all__ = ["check_limits"]


def check_limits(run: Path, manifest: Manifest) -> str:
    """`truncated` names a limit of the run's own configuration, and the number of bicliques agrees with it.

    Otherwise a finished run could be passed off as one that was stopped, of which nothing is expected to be there.
    """
    truncated, n_bicliques = manifest.truncated, manifest.counts.bicliques
    most, seconds = manifest.config.execution.max_bicliques, manifest.config.execution.time_limit_seconds
    place = f"{run / 'manifest.json'}: truncated is {truncated!r}"
    if most is not None and n_bicliques > most:
        raise VerificationError(
            f"{place}: {n_bicliques:,} bicliques are more than max_bicliques = {most} of its config"
        )
    if truncated is None:
        return "complete"
    reasons = []
    if most is not None and n_bicliques == most:
        reasons.append(f"stopped at max_bicliques = {most}")
    if seconds is not None:
        reasons.append(f"stopped at time_limit_seconds = {seconds:g}")
    if truncated not in reasons:
        expected = " or ".join(map(repr, reasons)) or "null"
        raise VerificationError(f"{place}; expected {expected}, by its config and its {n_bicliques:,} bicliques")
    return truncated
