"""What a run shows in Prefect's interface: a summary, the largest groups, the report's essence, what has changed."""

from __future__ import annotations

from pathlib import Path

from prefect.artifacts import create_markdown_artifact, create_table_artifact

from flows.markdown import report_markdown, since_markdown
from pipeline.manifest import Manifest
from pipeline.top import largest_bicliques
from pipeline.wording import bytes_text

__all__ = [
    "GROUPS_KEY",
    "REPORT_KEY",
    "SINCE_KEY",
    "SUMMARY_KEY",
    "create_artifacts",
    "create_unchanged_artifact",
    "groups_table",
    "summary_markdown",
    "unchanged_markdown",
]

SUMMARY_KEY = "bicliques-summary"
GROUPS_KEY = "largest-bicliques"
REPORT_KEY = "bicliques-report"
SINCE_KEY = "since-last-run"

_MEMBERS_SHOWN = 12


def create_artifacts(run_dir: Path, manifest: Manifest) -> None:
    """Create the artifacts of a published run."""
    create_markdown_artifact(summary_markdown(run_dir, manifest), key=SUMMARY_KEY, description="what the run found")
    create_table_artifact(
        groups_table(run_dir, manifest.config.output.top), key=GROUPS_KEY, description="largest bicliques, by edges"
    )
    # No link: browsers follow none from a page to a file.
    create_markdown_artifact(
        report_markdown(run_dir, manifest), key=REPORT_KEY, description="counts, sizes, the largest groups"
    )
    if manifest.comparison is not None:
        create_markdown_artifact(
            since_markdown(manifest.comparison), key=SINCE_KEY, description="what differs from the last run"
        )


def create_unchanged_artifact(run_dir: Path, manifest: Manifest) -> None:
    """Say in Prefect's interface that nothing was done, and why."""
    create_markdown_artifact(unchanged_markdown(run_dir, manifest), key=SUMMARY_KEY, description="nothing to do")


def summary_markdown(run_dir: Path, manifest: Manifest) -> str:
    """The summary of a published run, as Markdown."""
    counts, source, on_device = manifest.counts, manifest.input, manifest.peak_device_memory_bytes
    rows = {
        "input": f"`{source.source}` ({source.format})",
        "graph": f"{source.n_left:,} x {source.n_right:,} vertices, {source.n_edges:,} edges",
        "maximal bicliques": f"**{counts.bicliques:,}**, largest {counts.max_edges:,} edges",
        "complete": "yes" if manifest.truncated is None else f"**no**: {manifest.truncated}",
        "engine": f"{manifest.engine} on {manifest.device}",
        "time": ", ".join(f"{step} {seconds:.2f} s" for step, seconds in manifest.seconds.items()),
        "peak memory": bytes_text(manifest.peak_memory_bytes),
        "peak device memory": None if on_device is None else bytes_text(on_device),
        "content fingerprint": f"`{manifest.content_fingerprint}`",
        "run": f"`{run_dir}`",
    }
    rows = {name: value for name, value in rows.items() if value is not None}
    return "\n".join(
        [f"# Run {manifest.run_id}", "", "| | |", "|---|---|", *(f"| {k} | {v} |" for k, v in rows.items())]
    )


def unchanged_markdown(run_dir: Path, manifest: Manifest) -> str:
    """Why a run did nothing, as Markdown."""
    return (
        f"# Unchanged since run {manifest.run_id}\n\n"
        f"The input holds the same edges (fingerprint `{manifest.input.fingerprint}`) and the configuration asks the"
        f" same (fingerprint `{manifest.config_fingerprint[:16]}`), so nothing was enumerated and nothing published."
        f" The latest run stands: `{run_dir}`, {manifest.counts.bicliques:,} maximal bicliques.\n\n"
        "Run with `force` to enumerate again."
    )


def groups_table(run_dir: Path, limit: int) -> list[dict[str, str | int]]:
    """The largest bicliques, with their vertices' own keys, as rows for a table.

    `biclique_key` is text: a browser would round an int64.
    """
    return [
        {
            "biclique_key": str(group.key),
            "n_left": len(group.left),
            "n_right": len(group.right),
            "n_edges": group.n_edges,
            "left": _listed(group.left),
            "right": _listed(group.right),
        }
        for group in largest_bicliques(run_dir, limit)
    ]


def _listed(keys: tuple[int | str, ...]) -> str:
    text = ", ".join(str(key) for key in keys[:_MEMBERS_SHOWN])
    return text if len(keys) <= _MEMBERS_SHOWN else f"{text} and {len(keys) - _MEMBERS_SHOWN:,} more"
