"""The page as a whole: reads the tables, fills the template, writes `report.html`."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from string import Template

from pipeline.manifest import Manifest
from pipeline.report import sections
from pipeline.report.asked import conditions, input_facts, side_name
from pipeline.report.charts import degree_plot
from pipeline.report.explain import explanation, ladder
from pipeline.report.heat_map import heat_map
from pipeline.report.since import since
from pipeline.report.tables import SideSummary, Sizes, read_side, read_sizes
from pipeline.report.wording import count, escape, key
from pipeline.top import Biclique, largest_bicliques
from pipeline.wording import bytes_text, plural, seconds_text

__all__ = ["REPORT_NAME", "write_report"]

REPORT_NAME = "report.html"


def write_report(run_path: Path, manifest: Manifest, top: int = 20) -> Path:
    """Write the report of a run from its tables: one HTML file that needs no network.

    Memory is bounded by `top` and the size of a row group, whatever the number of bicliques.

    Parameters
    ----------
    run_path : Path
        A directory with the tables of a run, published or about to be.
    manifest : Manifest
        The run's facts; its `files` are not used.
    top : int
        Length of the lists of bicliques and vertices.

    Returns
    -------
    Path
        `run_path`/report.html.
    """
    sizes = read_sizes(run_path / "size_histogram.parquet")
    sides = (
        read_side(run_path / "left_vertices.parquet", "left", top),
        read_side(run_path / "right_vertices.parquet", "right", top),
    )
    template = Template(files("pipeline.report").joinpath("page.html").read_text(encoding="utf-8"))
    fields = {
        **_head(manifest, sizes),
        **_graph(manifest, sides),
        **_bicliques(manifest, sizes, sides),
        **_largest(run_path, sizes, top),
        **_making(manifest),
        "since": since(manifest.comparison),
    }
    path = run_path / REPORT_NAME
    path.write_text(template.substitute(fields), encoding="utf-8")
    return path


def _head(manifest: Manifest, sizes: Sizes) -> dict[str, str]:
    facts = manifest.input
    largest = sizes.most_edges()
    tiles = [
        ("maximal bicliques", ("≥ " if manifest.truncated else "") + count(sizes.total)),
        ("left vertices", count(facts.n_left)),
        ("right vertices", count(facts.n_right)),
        ("edges", count(facts.n_edges)),
        ("largest, left × right", "none" if largest is None else f"{largest[0]:,} × {largest[1]:,}"),
    ]
    if "total" in manifest.seconds:
        tiles.append(("wall time", seconds_text(manifest.seconds["total"])))
    return {
        "title": escape(_title(facts.source)),
        "heading": key(_title(facts.source)),
        "created": escape(manifest.created_at),
        "run_id": escape(manifest.run_id),
        "tiles": sections.tiles(tiles),
        "notice": sections.notice(manifest.truncated) + sections.warnings(manifest.warnings),
    }


def _title(source: str) -> str:
    """The file's name without folders; an in-memory source is named by its kind."""
    return source.rstrip("/").rsplit("/", 1)[-1] or source


def _graph(manifest: Manifest, sides: tuple[SideSummary, SideSummary]) -> dict[str, str]:
    facts = manifest.input
    density = facts.n_edges / max(facts.n_left * facts.n_right, 1)
    shown = f"{100 * density:.3g} %" if density >= 1e-6 else f"{density:.1e}"
    left, right = sides
    return {
        "graph_sentence": (
            f"{plural(facts.n_edges, 'edge')} between {count(facts.n_left)} left and {count(facts.n_right)} right "
            f"vertices: {shown} of all pairs are joined."
        ),
        "left_name": side_name(manifest.config, "left"),
        "right_name": side_name(manifest.config, "right"),
        "left_plot": degree_plot(left),
        "right_plot": degree_plot(right),
        "left_facts": sections.side_facts(left),
        "right_facts": sections.side_facts(right),
    }


def _bicliques(manifest: Manifest, sizes: Sizes, sides: tuple[SideSummary, SideSummary]) -> dict[str, str]:
    config, total = manifest.config, sizes.total
    asked = conditions(config)
    return {
        "asked": (
            f'Asked for: <ul class="asked">{"".join(f"<li>{text}</li>" for text in asked)}</ul>'
            if asked
            else "Every maximal biclique was asked for: no filter, no limit."
        ),
        "explanation": sections.paragraphs(explanation(sizes, manifest.input.n_edges, sides, manifest.truncated)),
        "heat_map": heat_map(sizes) if total else '<p class="quiet">No biclique, no sizes to show.</p>',
        "ladder": sections.ladder_table(ladder(sizes, config.query.min_left, config.query.min_right)) if total else "",
        "left_vertices": sections.vertex_table(sides[0], total),
        "right_vertices": sections.vertex_table(sides[1], total),
    }


def _largest(run_path: Path, sizes: Sizes, top: int) -> dict[str, str]:
    """The largest by edges; where most of these are stars or nearly, the largest broad ones come before them."""
    if not sizes.total:
        return {"largest": '<p class="quiet">None.</p>'}
    largest = largest_bicliques(run_path, top)
    fewest = next((size for size in (3, 2) if sizes.at_least(size, size)), 1)
    narrow = sum(min(len(biclique.left), len(biclique.right)) < fewest for biclique in largest)
    if 2 * narrow <= len(largest):
        return {"largest": sections.groups(largest)}
    broad = largest_bicliques(run_path, top, min_left=fewest, min_right=fewest)
    return {
        "largest": (
            f"<h3>At least {fewest} vertices on both sides</h3>{sections.groups(broad)}"
            f"<h3>Of any shape</h3>{_star_note(largest)}{sections.groups(largest)}"
        )
    }


def _star_note(largest: list[Biclique]) -> str:
    stars = sum(min(len(biclique.left), len(biclique.right)) == 1 for biclique in largest)
    if not stars:
        return ""
    are = "is a star" if stars == 1 else "are stars"
    return f'<p class="quiet">Of these {len(largest)}, {stars} {are}: one vertex and everything it is joined to.</p>'


def _making(manifest: Manifest) -> dict[str, str]:
    versions = ", ".join(f"{escape(name)} {escape(number)}" for name, number in manifest.versions.items())
    machine = [
        ("engine", escape(manifest.engine)),
        ("device", escape(manifest.device)),
        ("peak memory", bytes_text(manifest.peak_memory_bytes)),
        ("versions", versions),
    ]
    if manifest.peak_device_memory_bytes is not None:
        machine.insert(3, ("peak device memory", bytes_text(manifest.peak_device_memory_bytes)))
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
