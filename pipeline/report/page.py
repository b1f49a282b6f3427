"""The whole page: input, settings, warnings and changes, with the sections of the problem and derived outputs.

The template is `templates/page.html` with its style sheet; the output is `report.html`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from mbe_stage.pipeline.problems.base import Page, PageSection, Publication
from mbe_stage.pipeline.problems.installed import derived_of, publication_of
from mbe_stage.pipeline.publish.manifest import Comparison, Manifest
from mbe_stage.pipeline.report.request import input_facts
from mbe_stage.pipeline.report.wording import count, escape, fragment, key, render
from mbe_stage.pipeline.wording import bytes_text, seconds_text

REPORT_NAME = "report.html"
_WORDS = {"only_in_new": "only in this run", "only_in_old": "only in the run before"}


def write_report(run_path: Path, manifest: Manifest, top: int = 20, seen: Any = None) -> Path:
    """Write the report of a run from its tables: one HTML file that needs no network.

    Memory is bounded by `top` and the size of a row group, regardless of the number of results.

    Parameters
    ----------
    run_path : Path
        A directory with the tables of a run, published or about to be.
    manifest : Manifest
        The run's facts; its `files` are not used.
    top : int
        Length of the lists of results and vertices.

    Returns
    -------
    Path
        `run_path`/report.html.
    """
    publication = publication_of(manifest.problem)
    page = publication.page(run_path, manifest, top, *(() if seen is None else (seen,)))
    derived = [each.page(run_path, manifest, top) for each in derived_of(manifest.config)]
    first = [section for each in (page, *derived) for section in each.first_sections]
    finding = next((each for each in derived if each.heading), None)
    tiles = _tiles(manifest, publication, page, derived, (finding or page).sides)
    if finding is not None:
        first.append(PageSection("statistics", "Statistics", fragment("parts.html", "figures", tiles)))
    last = [section for each in derived for section in each.sections]
    scripts = [each.script for each in (page, *derived) if each.script]
    text = rendered(
        manifest,
        scripts,
        about=page.title if finding is None else finding.title,
        lede=Markup(page.lede),
        finding=finding,
        style=Markup("".join(each.style for each in derived)),
        tiles=tiles,
        meaning=page.lower_bounds or _more_to_find(publication.counted, page.incomplete),
        sections=(*first, *page.sections),
        since=since(manifest.comparison, "" if finding is None else "change"),
        later_sections=(*page.later_sections, *last),
        footer=Markup("".join(each.footer for each in (*derived, page))),
    )
    path = run_path / REPORT_NAME
    path.write_text(text, encoding="utf-8")
    return path


def rendered(manifest: Manifest, scripts: Sequence[str] = (), **values: Any) -> str:
    """Return a page on a run, from its manifest and the further `values` for `templates/page.html`."""
    title = _title(manifest.input.source)
    return render(
        "page.html",
        manifest=manifest,
        title=title,
        heading=key(title),
        steps=_steps(manifest.seconds),
        machine=_machine(manifest),
        input=input_facts(manifest.input),
        fingerprints=_fingerprints(manifest),
        results=publication_of(manifest.problem).counted,
        policy=Markup(_policy(scripts)),
        scripts=map(Markup, scripts),
        **values,
    )


def _policy(scripts: Iterable[str]) -> str:
    """Return the content security policy: no external content, and only these scripts."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}; form-action 'none'; base-uri 'none'"


def _tiles(
    manifest: Manifest, publication: Publication, page: Page, derived: Iterable[Page], sides: tuple[str, str]
) -> list[tuple[str, str]]:
    """Return labels and values of the figures at the top."""
    tiles = [
        _first_tile(manifest, publication, page),
        *_vertices(manifest, sides),
        ("edges", count(manifest.graph.n_edges)),
        *(figure for each in (page, *derived) for figure in each.figures),
    ]
    if "total" in manifest.seconds:
        tiles.append(("wall time", seconds_text(manifest.seconds["total"])))
    return tiles


def _more_to_find(results: str, consequence: str) -> str:
    """Explain that there may be more such `results`."""
    return f"The listed results are exact, but there may be more {results}: {consequence}."


def _vertices(manifest: Manifest, sides: tuple[str, str]) -> list[tuple[str, str]]:
    facts, graph = manifest.input, manifest.graph
    if facts.undirected is not None or graph.made_of_input is not None:
        return [("vertices", count(graph.n_vertices))]
    return list(zip(sides, map(count, (facts.n_left, facts.n_right)), strict=True))


def _first_tile(manifest: Manifest, publication: Publication, page: Page) -> tuple[str, str]:
    if page.first_figure is not None:
        return page.first_figure
    return publication.unit[1], ("≥ " if manifest.truncated else "") + count(manifest.n_found)


def _title(source: str) -> str:
    """Return the name of the file or files without folders; an in-memory source is named by its kind."""
    return ", ".join(each.rstrip("/").rsplit("/", 1)[-1] for each in source.split(", ")) or source


def _steps(seconds: Mapping[str, float]) -> list[tuple[str, float, float]]:
    """Return every step with its wall time, and its ratio to the longest."""
    steps = {step: value for step, value in seconds.items() if step != "total"}
    longest = max(steps.values(), default=0.0) or 1.0
    return [(step, value, value / longest) for step, value in steps.items()]


def _machine(manifest: Manifest) -> list[tuple[str, str]]:
    machine = [
        ("engine", manifest.engine),
        ("device", manifest.device),
        ("peak memory", bytes_text(manifest.peak_memory_bytes)),
        ("versions", ", ".join(f"{name} {number}" for name, number in manifest.versions.items())),
    ]
    if manifest.made_of is not None:
        machine.append(("bicliques of run", Markup(f"<code>{escape(manifest.made_of)}</code>")))
    if manifest.peak_device_memory_bytes is not None:
        machine.insert(3, ("peak device memory", bytes_text(manifest.peak_device_memory_bytes)))
    if manifest.ranks is not None:
        machine += manifest.ranks.lines()
    return machine


def _fingerprints(manifest: Manifest) -> list[tuple[str, str]]:
    return [
        ("run", manifest.run_id),
        ("input", manifest.input.fingerprint),
        ("content", manifest.content_fingerprint),
        ("configuration", manifest.config_fingerprint),
    ]


def since(comparison: Comparison | None, first: str = "") -> str:
    """Return the section on changes, with the heading of its first column; nothing if no comparison was requested."""
    return "" if comparison is None else render("changes.html", comparison=comparison, words=_WORDS, first=first)
