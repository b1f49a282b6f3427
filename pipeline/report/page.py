"""The page as a whole: the run's input, making and warnings around what its problem and derived outputs show.

The template is `page.html` with its style sheet; the file that is written is `report.html`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from mbe_stage.pipeline.problems.base import Page, PageSection, Publication
from mbe_stage.pipeline.problems.installed import derived_of, publication_of
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.report import sections
from mbe_stage.pipeline.report.changes import since
from mbe_stage.pipeline.report.request import input_facts
from mbe_stage.pipeline.report.wording import count, escape, key
from mbe_stage.pipeline.wording import bytes_text, seconds_text

__all__ = ["REPORT_NAME", "write_report"]

REPORT_NAME = "report.html"


def write_report(run_path: Path, manifest: Manifest, top: int = 20, seen: Any = None) -> Path:
    """Write the report of a run from its tables: one HTML file that needs no network.

    Memory is bounded by `top` and the size of a row group, whatever the number of results.

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
    last = [section for each in derived for section in each.sections]
    scripts = [each.script for each in (page, *derived) if each.script]
    template = Template(files("mbe_stage.pipeline.report").joinpath("page.html").read_text(encoding="utf-8"))
    fields = {
        **_head(manifest, publication, page, derived),
        "sections": "\n\n  ".join(
            (
                *_rendered((*first, *page.sections)),
                since(manifest.comparison),
                *_rendered((*page.later_sections, *last)),
            )
        ),
        **_making(manifest),
        "results": escape(publication.counted),
        "footer": page.footer,
        "policy": _policy(scripts),
        "scripts": "".join(f"<script>{script}</script>" for script in scripts),
    }
    path = run_path / REPORT_NAME
    path.write_text(template.substitute(fields), encoding="utf-8")
    return path


def _policy(scripts: Iterable[str]) -> str:
    """What a browser is to allow the page: nothing from elsewhere, and no script but these."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}; form-action 'none'; base-uri 'none'"


def _head(manifest: Manifest, publication: Publication, page: Page, derived: Iterable[Page]) -> dict[str, str]:
    facts = manifest.input
    tiles = [
        _first_tile(manifest, publication, page),
        *_vertices(manifest),
        ("edges", count(manifest.graph.n_edges)),
        *((escape(label), escape(value)) for each in (page, *derived) for label, value in each.figures),
    ]
    if "total" in manifest.seconds:
        tiles.append(("wall time", seconds_text(manifest.seconds["total"])))
    meaning = page.lower_bounds or sections.more_to_find(publication.counted, page.incomplete)
    notice = sections.notice(manifest.truncated, meaning)
    return {
        "about": escape(page.title),
        "lede": page.lede,
        "title": escape(_title(facts.source)),
        "heading": key(_title(facts.source)),
        "created": escape(manifest.created_at),
        "run_id": escape(manifest.run_id),
        "tiles": sections.tiles(tiles),
        "notice": notice + sections.warnings(manifest.warnings),
    }


def _vertices(manifest: Manifest) -> list[tuple[str, str]]:
    facts, graph = manifest.input, manifest.graph
    if facts.undirected is not None or graph.made_of_input is not None:
        return [("vertices", count(graph.n_vertices))]
    return [("left vertices", count(facts.n_left)), ("right vertices", count(facts.n_right))]


def _first_tile(manifest: Manifest, publication: Publication, page: Page) -> tuple[str, str]:
    if page.first_figure is not None:
        label, value = page.first_figure
        return escape(label), escape(value)
    return escape(publication.unit[1]), ("≥ " if manifest.truncated else "") + count(manifest.n_found)


def _title(source: str) -> str:
    """The file's name without folders, or those of several; an in-memory source is named by its kind."""
    return ", ".join(each.rstrip("/").rsplit("/", 1)[-1] for each in source.split(", ")) or source


def _rendered(shown: Iterable[PageSection]) -> Iterable[str]:
    for section in shown:
        yield (
            f'<section id="{escape(section.anchor)}">\n    <h2>{escape(section.heading)}</h2>\n'
            f"    {section.body}\n  </section>"
        )


def _making(manifest: Manifest) -> dict[str, str]:
    versions = ", ".join(f"{escape(name)} {escape(number)}" for name, number in manifest.versions.items())
    machine = [
        ("engine", escape(manifest.engine)),
        ("device", escape(manifest.device)),
        ("peak memory", bytes_text(manifest.peak_memory_bytes)),
        ("versions", versions),
    ]
    if manifest.made_of is not None:
        machine.append(("bicliques of run", f"<code>{escape(manifest.made_of)}</code>"))
    if manifest.peak_device_memory_bytes is not None:
        machine.insert(3, ("peak device memory", bytes_text(manifest.peak_device_memory_bytes)))
    if manifest.ranks is not None:
        machine += [(escape(name), escape(did)) for name, did in manifest.ranks.lines()]
    fingerprints = [
        ("run", f"<code>{escape(manifest.run_id)}</code>"),
        ("input", f"<code>{escape(manifest.input.fingerprint)}</code>"),
        ("content", f"<code>{escape(manifest.content_fingerprint)}</code>"),
        ("configuration", f"<code>{escape(manifest.config_fingerprint)}</code>"),
    ]
    return {
        "timings": sections.timings(manifest.seconds),
        "machine": sections.facts(machine),
        "input": sections.facts(input_facts(manifest.input)),
        "fingerprints": sections.facts(fingerprints),
        "schema_version": str(manifest.schema_version),
    }
