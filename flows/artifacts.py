"""The artifacts of a run in Prefect's interface: summary, largest results, essence of the report, changes.

They are Markdown, because Prefect's pages show no files.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from prefect.artifacts import create_markdown_artifact, create_table_artifact

from mbe_stage.pipeline.problems.base import DerivedPublication, News
from mbe_stage.pipeline.problems.installed import derived_of, publication_of
from mbe_stage.pipeline.problems.result_text import found, text_of_run
from mbe_stage.pipeline.problems.searched_graph import sizes_text
from mbe_stage.pipeline.publish.manifest import Comparison, Manifest
from mbe_stage.pipeline.report.markdown import code, code_cell, members, table, text
from mbe_stage.pipeline.stores.address import is_address
from mbe_stage.pipeline.stores.local_copies import address_of
from mbe_stage.pipeline.wording import bytes_text

__all__ = ["SINCE_KEY", "artifact_key", "code", "create_artifacts", "create_unchanged_artifact", "report_markdown"]
__all__ += ["since_markdown", "since_of", "summary_markdown", "text", "unchanged_markdown"]

SINCE_KEY = "since-last-run"


def artifact_key(manifest: Manifest, what: str) -> str:
    """Return the key of an artifact (``summary``, ``report`` or ``largest``), in small letters and dashes for Prefect.

    For bicliques: ``bicliques-summary``, ``bicliques-report`` and ``largest-bicliques``.
    """
    problem = manifest.problem.lower().replace("_", "-")
    return f"largest-{problem}" if what == "largest" else f"{problem}-{what}"


def create_artifacts(run_dir: Path, manifest: Manifest) -> None:
    """Create the artifacts of a published run."""
    publication = publication_of(manifest.problem)
    for derived in derived_of(manifest.config):
        if derived.news is not None:
            news = derived.news(run_dir, manifest)
            kind = f"new {news.kind}s"
            create_markdown_artifact(news_markdown(news, run_dir), key=kind.replace(" ", "-"), description=kind)
    create_markdown_artifact(
        summary_markdown(run_dir, manifest), key=artifact_key(manifest, "summary"), description="what the run found"
    )
    largest = None if publication.largest is None else publication.largest(run_dir, manifest.config.output.top)
    if largest is not None:
        create_table_artifact(
            largest, key=artifact_key(manifest, "largest"), description=f"largest {publication.counted}"
        )
    for derived in derived_of(manifest.config):
        _show_derived(derived, run_dir, manifest)
    # No link: browsers do not follow links from a page to a file.
    create_markdown_artifact(
        report_markdown(run_dir, manifest), key=artifact_key(manifest, "report"), description="the report's essence"
    )
    if differences := since_of(manifest):
        create_markdown_artifact(differences, key=SINCE_KEY, description="what differs from the last run")


def news_markdown(news: News, run_dir: Path) -> str:
    """Return the finding of a run and its new results as Markdown."""
    rows = [[text(cell, 1_000) for cell in row] for row in news.rows]
    shown = table([text(column) for column in news.columns], rows) if rows else []
    look = code(f"mbe show {shlex.quote(address_of(run_dir))}")
    return "\n".join([f"# {text(news.headline, 1_000)}", "", *shown, "", f"Look at one: {look}"])


def since_of(manifest: Manifest) -> str:
    """Return the differences from the previous run as Markdown, derived outputs first; empty without a comparison."""
    of_derived = [
        since_markdown(each, f"Since the last run, {name}") for name, each in manifest.derived_comparison.items()
    ]
    of_results = [] if manifest.comparison is None else [since_markdown(manifest.comparison)]
    return "\n\n".join([*of_derived, *of_results])


def _show_derived(derived: DerivedPublication, run_dir: Path, manifest: Manifest) -> None:
    """Create the artifact of a derived output, under its own name."""
    if derived.largest is None:
        return
    rows, key = derived.largest(run_dir, manifest.config.output.top), derived.name.lower().replace("_", "-")
    if rows:
        create_table_artifact(rows, key=key, description=derived.about)
    else:
        nothing = derived.nothing(run_dir, manifest)
        create_markdown_artifact(text(nothing, 2_000), key=key, description=derived.about)


def create_unchanged_artifact(run_dir: Path, manifest: Manifest) -> None:
    """Show in Prefect's interface that there was nothing to do, and why."""
    create_markdown_artifact(
        unchanged_markdown(run_dir, manifest), key=artifact_key(manifest, "summary"), description="nothing to do"
    )


def summary_markdown(run_dir: Path, manifest: Manifest) -> str:
    """Return the summary of a published run as Markdown."""
    publication = publication_of(manifest.problem)
    source, on_device, result_text = manifest.input, manifest.peak_device_memory_bytes, text_of_run(run_dir, manifest)
    number = f"{manifest.n_found:,}" if result_text is None else text(result_text.headline)
    rows = {
        "input": f"{code_cell(source.source)} ({code_cell(source.taken)})",
        "graph": sizes_text(manifest.graph, source),
        publication.unit[1]: f"**{number}**{publication.beside_number(manifest)}",
        "complete": "yes" if manifest.truncated is None else f"**no**: {manifest.truncated}",
        "engine": f"{manifest.engine} on {manifest.device}",
        "time": ", ".join(f"{step} {seconds:.2f} s" for step, seconds in manifest.seconds.items()),
        "peak memory": bytes_text(manifest.peak_memory_bytes),
        "peak device memory": None if on_device is None else bytes_text(on_device),
        "content fingerprint": f"`{manifest.content_fingerprint}`",
        "run": code_cell(address_of(run_dir)),
    }
    rows = {name: value for name, value in rows.items() if value is not None}
    return "\n".join(
        [f"# Run {manifest.run_id}", "", "| | |", "|---|---|", *(f"| {k} | {v} |" for k, v in rows.items())]
    )


def unchanged_markdown(run_dir: Path, manifest: Manifest) -> str:
    """Return the reason for an unchanged run as Markdown."""
    return (
        f"# Unchanged since run {manifest.run_id}\n\n"
        f"The input holds the same edges (fingerprint `{manifest.input.fingerprint}`) and the configuration asks the"
        f" same (fingerprint `{manifest.config_fingerprint[:16]}`), so nothing was enumerated and nothing published."
        f" The latest run stands: {code(address_of(run_dir))}, "
        f"{text(found(manifest.problem, manifest.n_found, text_of_run(run_dir, manifest)))}.\n\n"
        "Run with `force` to enumerate again."
    )


def report_markdown(run_dir: Path, manifest: Manifest) -> str:
    """Return the essence of a run's report and the place of the report."""
    publication = publication_of(manifest.problem)
    incomplete = "" if manifest.truncated is None else f"\n\n**Incomplete**: {text(manifest.truncated)}"
    report = run_dir / "report.html"
    where = address_of(report.absolute())
    place = f"The whole report: {code(where)}" if report.is_file() else "No report was asked for"
    end = "." if is_address(where) else ", on the machine that ran this."
    if publication.markdown is not None:
        shown = publication.markdown(run_dir, manifest)
    else:
        page = publication.page(run_dir, manifest, manifest.config.output.top)
        shown = table(["", ""], [[text(label), text(value)] for label, value in page.figures])
    derived = [
        f"{text(each.name)}: {', '.join(f'{n:,} {text(what)}' for what, n in manifest.derived[each.name].items())}."
        for each in derived_of(manifest.config)
    ]
    lists = (facts for inputs in manifest.derived_inputs.values() for facts in inputs.values())
    derived += [f"Labels: {text(facts.classes_text, 2_000)}." for facts in lists if facts.classes]
    return "\n".join(
        [
            f"# {text(found(manifest.problem, manifest.n_found, text_of_run(run_dir, manifest)))}{incomplete}",
            "",
            *shown,
            "",
            *(line for each in derived for line in (each, "")),
            f"{place}{end}",
        ]
    )


def since_markdown(comparison: Comparison, title: str = "Since the last run") -> str:
    """Return the differences from the previous run."""
    remarks = [f"{text(remark)}." for remark in comparison.remarks]
    if comparison.run_id is None:
        return "\n\n".join([f"# {text(title)}", *remarks])
    lines = [f"# {text(title)}", "", f"Compared with run {code(comparison.run_id)}.", "", *remarks, ""]
    if comparison.n_same is not None:
        shown = ", ".join(f"**{n:,}** {text(status.replace('_', ' '))}" for status, n in comparison.counts.items())
        lines += [f"{shown or 'Nothing differs'}; {comparison.n_same:,} unchanged.", ""]
    if comparison.largest:
        rows = [
            [
                one.status.replace("_", " "),
                f"{one.n_left:,} × {one.n_right:,}",
                *(members(keys, n) for keys, n in ((one.left, one.n_left), (one.right, one.n_right))),
                *(members(keys, len(keys)) for keys in (one.came, one.went)),
            ]
            for one in comparison.largest
        ]
        lines += table(["", "size", "left", "right", "came", "went"], rows)
    return "\n".join(lines)
