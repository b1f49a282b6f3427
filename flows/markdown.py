"""The essence of a run and its changes, as Markdown for Prefect's pages, which show no files."""

from __future__ import annotations

from pathlib import Path

from mbe_stage.pipeline.problems.installed import derived_of, publication_of
from mbe_stage.pipeline.problems.result_text import found, text_of_run
from mbe_stage.pipeline.publish.changes import Comparison
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.report.markdown import code, code_cell, members, table, text
from mbe_stage.pipeline.stores.address import is_address
from mbe_stage.pipeline.stores.local_copies import address_of

__all__ = ["code", "code_cell", "report_markdown", "since_markdown", "text"]


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
        lines += [f"{shown or 'Nothing differs'}; {comparison.n_same:,} as before.", ""]
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
