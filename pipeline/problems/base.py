"""What the pipeline has to know of a problem, or of a derived output, to configure, publish, show and check it.

`pipeline.problems.installed` finds them by name. Whoever configures a run, enumerates, writes, reports, inspects or
verifies asks these objects and knows no problem.

A problem's section of the configuration is a frozen pydantic model that forbids unknown keys: its fields are the keys
of the section `section_name` and the options of the command `mbe <problem>`. That of a derived output belongs to a run
of its problem: where the section is there, the output is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from mbe_stage.pipeline.config.registry import OutputFacts, ProblemFacts

if TYPE_CHECKING:
    import pyarrow as pa
    from pydantic import BaseModel

    from mbe_stage.graphs.bipartite import BipartiteCSR
    from mbe_stage.pipeline.clean.facts import InputFacts
    from mbe_stage.pipeline.config.model import Config
    from mbe_stage.pipeline.execution.forecast import Prospect, Trying
    from mbe_stage.pipeline.execution.journal import Journal
    from mbe_stage.pipeline.problems.derived_inputs import DerivedInput
    from mbe_stage.pipeline.problems.query import KeyedEdges
    from mbe_stage.pipeline.publish.manifest import Comparison, Manifest
    from mbe_stage.pipeline.publish.staging import Store
    from mbe_stage.runtime.compile_ahead import CompileStep
    from mbe_stage.stream import Progress

__all__ = [
    "Collected",
    "Collecting",
    "Collector",
    "Completed",
    "Completing",
    "DerivedCollector",
    "DerivedPublication",
    "Differences",
    "Numbers",
    "Page",
    "PageSection",
    "Publication",
    "Room",
    "Shown",
    "Told",
    "nothing_to_compile",
]


@dataclass(frozen=True, slots=True)
class Collecting:
    """What a collector is made of: the run that it writes for.

    Attributes
    ----------
    run_path : Path
        The staging path; the collector writes its tables below it, and nothing else.
    edges
        The clean edges, as the backend has them, with `facts`, `left_keys` and `right_keys`.
    graph
        As `Publication.graph` gave it.
    backend
        Whose frames the tables are made of: `pipeline.backends.backend.Backend`.
    derived : sequence of DerivedCollector
        What else takes the results in, block by block.
    on_progress : callable or None
        Told of searches that a collector makes itself, as of that of the run.
    journal : Journal or None
        Where the collector books what is on the disk; what it has booked before is taken back.
    """

    run_path: Path
    config: Config
    edges: Any
    graph: Any
    backend: Any
    derived: Sequence[DerivedCollector] = ()
    on_progress: Callable[[Any], object] | None = None
    journal: Journal | None = None


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collector has written.

    Attributes
    ----------
    counts : mapping of str to int or str
        Of the manifest: how many of what; `Publication.counted` among them.
    content_fingerprint : str
        Equal for two runs if and only if they hold the same results.
    seen : optional
        What was kept of the results while they streamed past, for `Publication.page`.
    """

    counts: Mapping[str, int | str]
    content_fingerprint: str
    seen: Any = None


class Collector(Protocol):
    """The sink of a run: takes blocks in (`mbe_stage.stream.Sink`) and writes the problem's tables.

    One with a method `checkpoint` that is not None can be gone on with (`Publication.is_resumable`).
    It is entered before the first block and left behind the last; leaving it writes what waits, and raises what went
    wrong. What is below `run_path` after an error is not looked at.
    """

    @property
    def detail(self) -> Any:
        """How much of each result the engine has to hand over."""

    @property
    def seconds(self) -> Mapping[str, float]:
        """Wall time of steps that the engine waited for, such as ``write``."""

    @property
    def shares(self) -> Any:
        """What it takes of the memory, once it was entered, for the `budget` of its backend; None where nothing."""

    def accept(self, block: Any) -> None:
        """Take one block in; its arrays may be kept."""

    def __enter__(self) -> Any: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def finish(self) -> Collected:
        """Write what is known only now, such as sums; once, after the context was left."""


class DerivedCollector(Protocol):
    """Takes the results of a problem in while they stream past, from any of the collector's threads, one at a time.

    It is entered before the first block, and left behind `finish`, or after whatever ended the run before that, an
    interrupt too: what it holds of files, threads or memory ends there. It cannot keep an error from going on. Where
    `finish` takes steps that a reader of the manifest should know of, its `seconds` say by name how long they took.

    A run that is gone on with hands it all that was found before once more, from the rows that were written; so does
    one whose rows workers of a cluster write. Where a run writes none (`output.bicliques: false`), it keeps what
    `sums` gives, arrays of the host by name and none of objects, and hands that to `restore` of a new collector;
    without these two such a run has no checkpoints. One with a method `for_workers` besides has workers of a cluster
    sum up what they find then: it gives what makes, in a worker, something with `accept` and `sums` as here, and is
    pickled; what these sums hold `restore` adds to all that the collector has taken in.
    """

    def __enter__(self) -> Any: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any: ...

    def accept(self, block: Any, keys: Any) -> None:
        """Take one block in, with what names its results in the published tables: (n,) int64."""

    def finish(self) -> Mapping[str, int]:
        """Write the tables below the run path; returns counts."""


@dataclass(frozen=True, slots=True)
class Completing:
    """What a derived output completes its tables with, once all are written and before checksums are taken.

    Attributes
    ----------
    truncated : str or None
        As in the manifest.
    counts : mapping of str to int
        What the output's collector gave.
    store : Store or None
        Where the run before is; None where nothing is compared.
    """

    run_path: Path
    config: Config
    input: InputFacts
    config_fingerprint: str
    truncated: str | None
    counts: Mapping[str, int]
    store: Store | None


@dataclass(frozen=True, slots=True)
class Completed:
    """What is known only then.

    Attributes
    ----------
    inputs : mapping of str to DerivedInput
        The files that the section names, by its keys.
    comparison : Comparison or None
        With the run before; None where nothing was to be compared.
    warnings : sequence of str
        What the user should know, a sentence each.
    prepared : mapping of str to float
        Seconds of it that loading and compiling code took, by the name of the step.
    """

    inputs: Mapping[str, DerivedInput] = field(default_factory=dict)
    comparison: Comparison | None = None
    warnings: Sequence[str] = ()
    prepared: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PageSection:
    """A section of the report.

    Attributes
    ----------
    anchor : str
        Its place in the page, distinct in it.
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
    """What a problem, or a derived output, shows of a run.

    Attributes
    ----------
    title : str
        What the report is about, plain text: ``"Maximal bicliques"``. Not looked at for a derived output, as all below
        but `figures`, `first_sections`, `sections` and `script`.
    lede : str
        What that is, in a sentence of HTML.
    first_figure : (str, str) or None
        In the place of the number of results, at the very top.
    figures : sequence of (str, str)
        Label and value at the top of the report, plain text, behind the number of results and the graph's figures.
    first_sections : sequence of PageSection
        Before all others: of a derived output that is what a reader comes for.
    sections : sequence of PageSection
        Those of a derived output stand behind all of the problem's.
    later_sections : sequence of PageSection
        Behind the section on the run before.
    incomplete : str
        What else is to be known of an incomplete result.
    lower_bounds : str
        What an incomplete result is, where it is not that what is listed is exact and more may be missing; a sentence.
    footer : str
        How to go on with the tables, HTML.
    script : str
        JavaScript that is run once the page is there, and that it says everything without. No other runs.
    """

    title: str = ""
    lede: str = ""
    first_figure: tuple[str, str] | None = None
    figures: Sequence[tuple[str, str]] = ()
    first_sections: Sequence[PageSection] = ()
    sections: Sequence[PageSection] = ()
    later_sections: Sequence[PageSection] = ()
    incomplete: str = "counts are lower bounds"
    lower_bounds: str = ""
    footer: str = ""
    script: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """What is told of a search whose results are numbers.

    Attributes
    ----------
    n_found : int
        How many numbers.
    headline : str
        In the place of how many results there are.
    values : mapping of str to Any
        Plain values that ``--json`` has in that place.
    lines : sequence of (str, str)
        More of them for the terminal: label and text.
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
        Of each result all that there is, as plain values.
    columns, rows : sequence
        The same for the terminal, where long cells are cut.
    """

    values: Sequence[Mapping[str, Any]]
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Differences:
    """What differs between two runs, for `mbe diff`.

    Attributes
    ----------
    n_old, n_new, n_same : int
        Results of the old run, of the new one, and of both.
    gone, new : Shown
        The largest that only the old run has, and only the new one.
    remarks : sequence of str
        What stands in the way of a comparison like with like, a sentence each.
    """

    n_old: int
    n_new: int
    n_same: int
    gone: Shown
    new: Shown
    remarks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a problem adds whose results are numbers, and not so many things one after the other.

    Attributes
    ----------
    sink : callable
        Takes the query, and gives the sink that makes the numbers and writes nothing.
    told : callable
        Takes that sink after the search, the configuration, the graph, and why the search was stopped, or None.
    told_of_run : callable
        Takes the run path and the manifest of a run whose tables are there, and gives the same.
    listed : callable
        Takes the manifest, and gives what a list of runs has in the place of the number of results.
    """

    sink: Callable[[Any], Any]
    told: Callable[[Any, Config, BipartiteCSR, str | None], Told]
    told_of_run: Callable[[Path, Manifest], Told]
    listed: Callable[[Manifest], str]


@dataclass(frozen=True, slots=True)
class Room:
    """What tables take of memory while a run searches, beside the engine's budget.

    Attributes
    ----------
    lines : sequence of (str, str)
        What ``mbe inspect`` says of it: label and text.
    """

    n_bytes: int = 0
    lines: Sequence[tuple[str, str]] = ()


def nothing_to_compile(config: Config | None = None) -> tuple[()]:  # noqa: ARG001 - the seam's signature
    """For what is not compiled."""
    return ()


@dataclass(frozen=True, slots=True)
class Publication(ProblemFacts):
    """A problem, as the pipeline sees it.

    Attributes
    ----------
    problem : str
        The name of its `mbe_stage.problem.Problem`.
    about : str
        One line for the help of its command.
    section_name : str
        Of its section in the configuration: ``query`` for bicliques, the problem's name for others.
    section : type of pydantic.BaseModel
        Of what is asked. All its fields have defaults. Those with a `description` are options.
    query : callable
        Takes an instance of `section` and `KeyedEdges`, and gives the problem's query in dense ids. Raises
        `pipeline.errors.InputError` where a key is no vertex.
    schemas : callable
        Takes the configuration and the pair of types of the left and right keys, and gives the schema of every table by
        its name below the run directory: ``"edges.parquet"``, or ``"bicliques"`` for a directory of parts.
    collector : callable
        Takes a `Collecting`. Its tables are compressed as `output.compression` says, which ``mbe verify`` holds against
        their footers.
    detail : callable
        Takes the configuration and gives what the engine has to hand over to publish, as `Collector.detail`.
    count_sink : callable
        Takes nothing and gives the sink that only counts; with `numbers` only its `detail` is looked at.
    page : callable
        Takes the run path, the manifest and the length of lists, and gives the `Page` of the report.
    check : callable
        Takes a `pipeline.verify.job.Job` and checks the tables, without the code that wrote them. Raises
        `pipeline.errors.VerificationError` at the first thing that is not as it should be.
    unit : (str, str)
        One result, and several, in words: ``("maximal biclique", "maximal bicliques")``.
    counted : str
        The one of the counts that is the number of results; it names them too where there is little room:
        ``"bicliques"``.
    counts : type of pydantic.BaseModel or None
        Of the counts in the manifest; None for whole numbers by name.
    query_shape : callable
        Takes the configuration and gives a query as far as compiling depends on it, or None where it does not.
    compile_steps : callable
        Takes the configuration, or None for any, and gives what has to be compiled to publish with tables in host
        memory, beside the engine.
    device_compile_steps : callable
        As `compile_steps`, to publish with tables in device memory.
    check_steps : callable
        Gives what has to be compiled for `check`.
    frames : tuple of str
        The backends that its collector can write with: ``arrow``, ``cudf``.
    markdown : callable or None
        Takes the run path and the manifest, and gives the report's essence as lines of Markdown; None for its figures.
    beside_number : callable
        Takes the manifest, and gives what stands behind the number of results in a summary: ``", largest 6 edges"``.
    largest : callable or None
        Takes the run path and a number, and gives so many results that are worth a look first: rows of plain values;
        None where the run has no table of them.
    compare : callable or None
        Takes the `Store`, the run path and the manifest; gives the comparison with the run before, and the seconds
        of it that loading and compiling code took, by the name of the step. None where runs of the problem are not
        compared.
    progress : callable
        Takes a `mbe_stage.stream.Progress` and gives what whoever watches a run is told; that itself by default. What
        it gives has `n_found`, by which a run knows that it has handed results out and no other tier may take over,
        and `engine`, by which a flow knows that the GPU is free; a display of progress reads the other fields too.
    next_command : str
        What to type after a run; ``{}`` is its output directory.
    numbers : Numbers or None
        Where results are numbers.
    counts_first : bool
        Whether its command counts, and publishes only where an output directory is given.
    of_tables_only : tuple of str
        Keys of the section that are about tables alone: such a command refuses them without an output directory.
    instead : str
        What it has in the place of minimum sizes, a most number of results and the like, which are asked of bicliques;
        whoever asks for these is told.
    outlook : callable or None
        Takes a `pipeline.execution.forecast.Trying` and gives the `pipeline.execution.forecast.Prospect` of ``mbe
        inspect``; None where the problem knows no more of a run than what a trial of the engine finds.
    room : callable
        Takes the configuration, the query and the graph, and gives the `Room` that tables take which are kept in memory
        until the search has ended; none by default.
    outlook_steps : callable
        Gives what has to be compiled for `outlook`, beside the engine.
    undirected : callable
        Takes the configuration and says whether both columns of the input name vertices of one set, and an edge has no
        direction. Then the edges' `graph` is a `mbe_stage.graphs.undirected.UndirectedCSR`.
    top : callable or None
        Takes the run path, a number and the key of a vertex, or None, and gives so many of the largest results, or of
        those that hold it, as `Shown`; None where ``mbe top`` shows none of the problem's. For bicliques it has more
        options.
    diff : callable or None
        Takes the run paths of an old and a new run, how many of each kind to show, and a directory to write all that
        differs to, or None; gives `Differences`. None where ``mbe diff`` compares none of the problem's. That of
        bicliques looks for partners too, and is elsewhere.
    graph : callable
        Takes the configuration and clean edges of any backend, and gives the graph that is searched; that of the edges
        by default. Raises `mbe_stage.errors.MemoryBudgetExceeded` where it cannot be made.
    graph_steps : callable
        Takes the configuration, or None for any, and gives what has to be compiled for `graph`.
    made_of_input : callable
        Takes the configuration, and says what `graph` makes of the graph of the edges: ``left projection``; None where
        it is that graph. What is made is an `UndirectedCSR`, and `counts` have its ``vertices`` and ``edges``.
    is_resumable : bool
        Whether its collectors take checkpoints, and take back what they have kept.
    """

    problem: str
    about: str
    section_name: str
    section: type[BaseModel]
    query: Callable[[Any, KeyedEdges], Any]
    schemas: Callable[[Config, tuple[Any, Any]], Mapping[str, pa.Schema]]
    collector: Callable[[Collecting], Collector]
    detail: Callable[[Config | None], Any]
    count_sink: Callable[[], Any]
    page: Callable[[Path, Manifest, int], Page]
    check: Callable[[Any], None]
    unit: tuple[str, str]
    counted: str
    counts: type[BaseModel] | None = None
    query_shape: Callable[[Config], Any] = lambda _: None
    compile_steps: Callable[[Config | None], Sequence[CompileStep]] = nothing_to_compile
    device_compile_steps: Callable[[Config | None], Sequence[CompileStep]] = nothing_to_compile
    check_steps: Callable[[], Sequence[CompileStep]] = nothing_to_compile
    frames: tuple[str, ...] = ("arrow",)
    markdown: Callable[[Path, Manifest], list[str]] | None = None
    beside_number: Callable[[Manifest], str] = lambda _: ""
    largest: Callable[[Path, int], list[dict[str, Any]] | None] | None = None
    compare: Callable[[Store, Path, Manifest], tuple[Comparison, Mapping[str, float]]] | None = None
    progress: Callable[[Progress], Any] = lambda progress: progress
    next_command: str = "mbe verify {}"
    numbers: Numbers | None = None
    counts_first: bool = False
    of_tables_only: tuple[str, ...] = ()
    instead: str = ""
    outlook: Callable[[Trying], Prospect] | None = None
    room: Callable[[Config, Any, Any], Room] = lambda *_: Room()
    outlook_steps: Callable[[], Sequence[CompileStep]] = nothing_to_compile
    undirected: Callable[[Config], bool] = lambda _: False
    top: Callable[[Path, int, str | None], Shown] | None = None
    diff: Callable[[Path, Path, int, Path | None], Differences] | None = None
    graph: Callable[[Config, Any], Any] = lambda _, edges: edges.graph()
    graph_steps: Callable[[Config | None], Sequence[CompileStep]] = nothing_to_compile
    made_of_input: Callable[[Config], str | None] = lambda _: None
    is_resumable: bool = False


@dataclass(frozen=True, slots=True)
class DerivedPublication(OutputFacts):
    """A derived output, as the pipeline sees it; attributes are those of `Publication`, for the output's own tables.

    Attributes
    ----------
    name : str
        The name of its `mbe_stage.problem.DerivedOutput`, and of its section in the configuration.
    collector : callable
        Takes a `Collecting` and gives a `DerivedCollector` for the frames of its backend.
    check : callable
        As `Publication.check`, after that of the problem: the results lie below `pipeline.verify.job.Job.results`,
        which is None where the run has none and they are not to be had.
    compile_steps : callable
        Takes the configuration, or None for any, and gives what its collector has to have compiled, whatever the
        backend.
    device_compile_steps : callable
        As `compile_steps`, what it needs beside that to take blocks in device memory.
    frames : tuple of str
        The backends whose blocks that collector takes in: ``arrow``, ``cudf``.
    device_bytes : callable
        Takes a `Collecting` of a backend in device memory, and gives how many bytes of it the collector will hold at
        most between two blocks, beside what it has when it is made: they are set aside when memory is shared out.
    events : bool
        Whether its collector makes something of weights and times, which are then read where the configuration names
        them: `Edges.events` of `Collecting.edges`.
    nothing : str, or callable
        The text in a flow if `largest` finds nothing, or what makes it of the run directory and the manifest.
    input_keys : tuple of str
        Keys of the section that name files. They are no part of what is asked (`config_fingerprint`), as the path of
        the edges is none: what such a file says has a fingerprint of its own.
    inputs : callable
        Takes the configuration, reads these files, and gives the fingerprint of each that is given, by its key. Raises
        `pipeline.errors.InputError` where one cannot be used; nothing else was read then.
    complete : callable or None
        Takes a `Completing`, may write the output's own tables again, and gives what is `Completed`.
    """

    name: str
    problem: str
    about: str
    section: type[BaseModel]
    schemas: Callable[[Config, tuple[Any, Any]], Mapping[str, pa.Schema]]
    collector: Callable[[Collecting], DerivedCollector]
    page: Callable[[Path, Manifest, int], Page]
    check: Callable[[Any], None]
    compile_steps: Callable[[Config | None], Sequence[CompileStep]] = nothing_to_compile
    device_compile_steps: Callable[[Config | None], Sequence[CompileStep]] = nothing_to_compile
    check_steps: Callable[[], Sequence[CompileStep]] = nothing_to_compile
    frames: tuple[str, ...] = ("arrow",)
    largest: Callable[[Path, int], list[dict[str, Any]]] | None = None
    nothing: str | Callable[[Path, Manifest], str] = "there is nothing to show"
    device_bytes: Callable[[Collecting], int] = lambda _: 0
    events: bool = False
    input_keys: tuple[str, ...] = ()
    inputs: Callable[[Config], Mapping[str, str]] = lambda _: {}
    complete: Callable[[Completing], Completed] | None = None
