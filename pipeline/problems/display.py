"""Values that problems and derived outputs return to be displayed: in reports, on the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PageSection:
    """A section of the report.

    Attributes
    ----------
    anchor : str
        The unique anchor of the section in the page.
    heading : str
        Plain text.
    body : str
        HTML whose user texts went through `pipeline.report.wording`.
    """

    anchor: str
    heading: str
    body: str


@dataclass(frozen=True, slots=True)
class Page:
    """The part of the report that a problem or a derived output contributes.

    A derived output sets only `figures`, `first_sections`, `sections`, `footer`, `style` and `script`. If it has a
    `heading`, the report begins with its finding: its title, heading and lede replace those of the problem, and figures
    follow the first sections.

    Attributes
    ----------
    title : str
        The subject of the report, plain text: ``"Maximal bicliques"``.
    lede : str
        One sentence of HTML that explains it; below a `heading`, paragraphs.
    heading : str
        The finding of a derived output in one sentence, plain text.
    first_figure : (str, str) or None
        Replaces the number of results at the very top.
    figures : sequence of (str, str)
        Label and value at the top of the report, plain text, after the number of results and the graph's figures.
    sides : (str, str)
        The names of the vertices of both sides, beside a `heading`.
    first_sections : sequence of PageSection
        Sections before all others, such as the list of groups.
    sections : sequence of PageSection
        The sections of derived outputs follow those of the problem.
    later_sections : sequence of PageSection
        Sections after the comparison with the run before.
    incomplete : str
        A remark on an incomplete result.
    lower_bounds : str
        A sentence on an incomplete result, if its results are not exact.
    footer : str
        Hints for using the tables, HTML.
    style : str
        Rules added to the style sheet.
    script : str
        JavaScript that runs when the page is loaded. The page has to be complete without it.
    """

    title: str = ""
    lede: str = ""
    heading: str = ""
    first_figure: tuple[str, str] | None = None
    figures: Sequence[tuple[str, str]] = ()
    sides: tuple[str, str] = ("left vertices", "right vertices")
    first_sections: Sequence[PageSection] = ()
    sections: Sequence[PageSection] = ()
    later_sections: Sequence[PageSection] = ()
    incomplete: str = "counts are lower bounds"
    lower_bounds: str = ""
    footer: str = ""
    style: str = ""
    script: str = ""


@dataclass(frozen=True, slots=True)
class ResultText:
    """The text of a result that consists of numbers.

    Attributes
    ----------
    n_found : int
        Number of values in the result.
    headline : str
        Replaces the number of results.
    values : mapping of str to Any
        Plain values that replace it in ``--json``.
    lines : sequence of (str, str)
        Label and text, for the terminal.
    table : (sequence of str, sequence of sequence of str) or None
        Columns and rows, for the terminal.
    """

    n_found: int
    headline: str
    values: Mapping[str, Any]
    lines: Sequence[tuple[str, str]] = ()
    table: tuple[Sequence[str], Sequence[Sequence[str]]] | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """Some results of a run, for `mbe top`.

    Attributes
    ----------
    values : sequence of mapping
        All values of each result.
    columns, rows : sequence
        The table for the terminal, which shortens long cells.
    """

    values: Sequence[Mapping[str, Any]]
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Differences:
    """The differences between two runs, for `mbe diff`.

    Attributes
    ----------
    n_old, n_new, n_same : int
        Results of the old run, of the new one, and of both.
    gone, new : Shown
        The largest results that only the old run has, and only the new one.
    remarks : sequence of str
        Reasons why the runs are not quite comparable, a sentence each.
    """

    n_old: int
    n_new: int
    n_same: int
    gone: Shown
    new: Shown
    remarks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class News:
    """New results of a run, for flows to report.

    Attributes
    ----------
    kind : str
        Noun for one result: ``"case"``.
    headline : str
        The finding of the run in a sentence.
    columns, rows : sequence
        A table of the new results; of the first ones if there is no run to compare with.
    new : sequence of (str, mapping, mapping)
        Id of each new result, the same in every run; JSON values without keys of the input; and the first keys of its
        members by side. Empty without a run to compare with.
    """

    kind: str
    headline: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    new: Sequence[tuple[str, Mapping[str, Any], Mapping[str, list[str]]]]
