"""Base classes for problems and derived outputs, and the values that they exchange with the pipeline.

A problem subclasses `Publication`, a derived output `DerivedPublication`. `pipeline.problems.installed` finds their
instances by name. The code that configures, runs, publishes, reports and verifies calls only these classes, so it
works for every problem, including those of other packages.

The section of a problem in the configuration is a frozen pydantic model that forbids unknown keys. Its fields are the
keys of the section `section_name` and the options of `mbe <problem>`. A derived output is made if the configuration
has its section.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from mbe_stage.pipeline.config.registry import OutputFacts, ProblemFacts
from mbe_stage.pipeline.problems.display import Differences, News, Page, PageSection, ResultText, Shown

if TYPE_CHECKING:
    import pyarrow as pa
    from pydantic import BaseModel

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
    "News",
    "Numbers",
    "Page",
    "PageSection",
    "Publication",
    "ResultText",
    "Shown",
    "TableMemory",
    "deferred",
]


def deferred(where: str) -> Any:
    """Return a static method that imports the function ``"module:function"`` when it is called.

    The command line imports every publication for its help. Heavy modules must not be imported with them.
    """
    module, _, name = where.partition(":")

    def call(*arguments: Any, **named: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*arguments, **named)

    return staticmethod(call)


@dataclass(frozen=True, slots=True)
class Collecting:
    """The run that a collector writes for.

    Attributes
    ----------
    run_path : Path
        The staging path. The collector writes its tables below it, and nothing else.
    edges
        The clean edges of the backend, with `facts`, `left_keys` and `right_keys`.
    graph
        The result of `Publication.graph`.
    backend
        The `pipeline.backends.backend.Backend` that makes the tables.
    derived : sequence of DerivedCollector
        Other receivers of the results, block by block.
    on_progress : callable or None
        Receives the progress of searches that a collector makes itself.
    journal : Journal or None
        Records the files that are on the disk; the collector restores what it recorded before.
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
    """The summary of a collector's tables.

    Attributes
    ----------
    counts : mapping of str to int, float, str or None
        Counts for the manifest, with `Publication.counted` among them.
    content_fingerprint : str
        Equal for two runs if and only if they hold equal results.
    seen : optional
        Results kept while they streamed past, for `Publication.page`.
    """

    counts: Mapping[str, int | float | str | None]
    content_fingerprint: str
    seen: Any = None


class Collector(Protocol):
    """The sink of a run: accepts blocks (`mbe_stage.stream.Sink`) and writes the problem's tables.

    A collector whose `checkpoint` is a method can be resumed (`Publication.is_resumable`). The context is entered
    before the first block and left after the last. Leaving it writes the remaining blocks and raises pending errors.
    The files below `run_path` are ignored after an error.
    """

    @property
    def detail(self) -> Any:
        """The detail of each result that the engine has to produce."""

    @property
    def seconds(self) -> Mapping[str, float]:
        """Wall time of steps that the engine waited for, such as ``write``."""

    @property
    def shares(self) -> Any:
        """The memory taken after entering, for the `budget` of its backend; None if there is none."""

    def accept(self, block: Any) -> None:
        """Accept one block. Its arrays may be kept."""

    def __enter__(self) -> Any: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def finish(self) -> Collected:
        """Write sums and other final tables; called once, after the context was left."""


class DerivedCollector(Protocol):
    """Receives the results of a problem while they stream past, from any thread of the collector, one at a time.

    The context is entered before the first block and left after `finish`, or after an error or interrupt. Leaving it
    releases all files, threads and memory. It cannot suppress an error. If `finish` has steps that belong in the
    manifest, an attribute `seconds` maps their names to their duration.

    A resumed run passes all earlier results again, read from the written rows. So does a run whose workers write the
    rows on a cluster. A run without rows (``output.bicliques: false``) keeps the result of `sums` in its checkpoint
    (host arrays by name, no objects) and passes that to `restore` of a new collector. Without these two methods such a
    run has no checkpoints. If there is also a method `for_workers`, workers of a cluster sum up their own results. It
    returns a factory, which is pickled; the factory's product has `accept` and `sums` as here, and `restore` adds
    these sums to the collector's.
    """

    def __enter__(self) -> Any: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any: ...

    def accept(self, block: Any, keys: Any) -> None:
        """Accept one block with the keys of its rows in the published tables: (n,) int64."""

    def finish(self) -> Mapping[str, int]:
        """Write the tables below the run path; return counts."""


@dataclass(frozen=True, slots=True)
class Completing:
    """The input of `DerivedPublication.complete`.

    Attributes
    ----------
    truncated : str or None
        The reason for an incomplete result, as in the manifest.
    counts : mapping of str to int
        The counts of the output's collector.
    store : Store or None
        The store of the run before; None if nothing is compared.
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
    """The result of `DerivedPublication.complete`.

    Attributes
    ----------
    inputs : mapping of str to DerivedInput
        The files that the section names, by its keys.
    comparison : Comparison or None
        The comparison with the run before, if there is one.
    warnings : sequence of str
        Warnings for the user, a sentence each.
    prepared : mapping of str to float
        Seconds that loading and compiling code took, by the name of the step.
    counts : mapping of str to int
        Counts that replace those of the collector, by name.
    """

    inputs: Mapping[str, DerivedInput] = field(default_factory=dict)
    comparison: Comparison | None = None
    warnings: Sequence[str] = ()
    prepared: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Functions of a problem whose results are numbers, not a list.

    Attributes
    ----------
    sink : callable
        Takes the query; returns a sink that computes the numbers and writes nothing.
    result_text : callable
        Takes that sink after the search, the configuration, the degrees of left and right vertices, and the reason of
        an early stop or None.
    text_of_run : callable
        Takes the path and manifest of a run with tables; returns its `ResultText`.
    listed : callable
        Takes the manifest; returns the text that replaces the number of results in a list of runs.
    """

    sink: Callable[[Any], Any]
    result_text: Callable[[Any, Config, tuple[Any, Any], str | None], ResultText]
    text_of_run: Callable[[Path, Manifest], ResultText]
    listed: Callable[[Manifest], str]


@dataclass(frozen=True, slots=True)
class TableMemory:
    """The memory of tables that are kept until the search ends, in addition to the engine's budget.

    Attributes
    ----------
    lines : sequence of (str, str)
        Label and text for ``mbe inspect``.
    """

    n_bytes: int = 0
    lines: Sequence[tuple[str, str]] = ()


class _Published(ABC):
    """The members that problems and derived outputs share.

    Attributes
    ----------
    about : str
        One line for the help.
    section : type of pydantic.BaseModel
        The model of its section. All fields have defaults. Fields with a `description` are options.
    frames : tuple of str
        The backends whose blocks its collector accepts: ``arrow``, ``cudf``.
    """

    about: str
    section: type[BaseModel]
    frames: tuple[str, ...] = ("arrow",)

    @abstractmethod
    def schemas(self, config: Config, key_types: tuple[Any, Any]) -> Mapping[str, pa.Schema]:
        """Return the schema of each table by its name below the run directory.

        Names are like ``"edges.parquet"``, or ``"bicliques"`` for a directory of parts. `key_types` is (left, right).
        """

    @abstractmethod
    def page(self, run_path: Path, manifest: Manifest, top: int) -> Page:
        """Return its part of the report; `top` is the length of lists."""

    @abstractmethod
    def check(self, job: Any) -> None:
        """Check the tables of a `pipeline.verify.job.Job` without the code that wrote them.

        The check of a derived output runs after that of its problem. It finds the results below `job.results`, which is
        None if they are not available.

        Raises
        ------
        VerificationError
            A table is wrong.
        """

    def compile_steps(self, config: Config | None) -> Sequence[CompileStep]:
        """Return the compile steps of publishing, besides the engine's; for any configuration if `config` is None.

        A problem's steps are for tables in host memory, a derived output's steps for any backend.
        """
        return ()

    def device_compile_steps(self, config: Config | None) -> Sequence[CompileStep]:
        """Return the compile steps of publishing with tables in device memory.

        A derived output needs them in addition to `compile_steps`.
        """
        return ()

    def check_steps(self) -> Sequence[CompileStep]:
        """Return the compile steps of `check`."""
        return ()


class Publication(ProblemFacts, _Published):
    """A problem, as the pipeline sees it.

    Subclasses set the attributes without a default and implement the abstract methods. Methods whose default is None
    are optional: the command that needs one refuses the problem. Heavy modules are imported in the methods, or by
    `deferred`.

    Attributes
    ----------
    problem : str
        The name of its `mbe_stage.problem.Problem`.
    section_name : str
        The name of its section in the configuration: ``query`` for bicliques, else the problem's name.
    unit : (str, str)
        The names of one result and of several: ``("maximal biclique", "maximal bicliques")``.
    counted : str
        The key of the number of results in the counts, and a short name for them: ``"bicliques"``.
    counts : type of pydantic.BaseModel or None
        The model of the counts in the manifest; None for whole numbers by name.
    next_command : str
        The suggested command after a run; ``{}`` is its output directory.
    numbers : Numbers or None
        Set if results are numbers.
    counts_first : bool
        The command counts, and publishes only with an output directory.
    of_tables_only : tuple of str
        Keys of the section that only concern tables. Counting refuses them without an output directory.
    of_whole_searches : mapping of str to str
        Keys of the section that need all results, and why. They are refused with a limit on the search.
    instead : str
        The problem's replacement for the size and number limits of bicliques; shown to users who set those.
    is_resumable : bool
        True if the collectors write checkpoints and can resume from them.
    markdown : callable or None
        Takes the run path and the manifest; returns the essence of the report as lines of Markdown.
    largest : callable or None
        Takes the run path and a number; returns that many results worth a look as rows of plain values, or None if the
        run has no table of them.
    compare : callable or None
        Takes the `Store`, the run path and the manifest; returns the comparison with the run before, and the seconds
        that loading and compiling took, by the name of the step.
    forecast : callable or None
        Takes a `pipeline.execution.forecast.Trying`; returns the `Prospect` of ``mbe inspect``. If it is None, the
        forecast comes from a short trial of the engine.
    top : callable or None
        Takes the run path, a number and the key of a vertex or None; returns that many of the largest results, or of
        those with this vertex, as `Shown`. ``mbe top`` has more options for bicliques and does not use it.
    diff : callable or None
        Takes the paths of an old and a new run, how many results of each kind to show, and a directory for all
        differences or None; returns `Differences`. ``mbe diff`` of bicliques also finds partners and does not use it.
    """

    problem: str
    section_name: str
    unit: tuple[str, str]
    counted: str
    counts: type[BaseModel] | None = None
    next_command: str = "mbe verify {}"
    numbers: Numbers | None = None
    counts_first: bool = False
    of_tables_only: tuple[str, ...] = ()
    of_whole_searches: Mapping[str, str] = MappingProxyType({})
    instead: str = ""
    is_resumable: bool = False
    markdown: Callable[[Path, Manifest], list[str]] | None = None
    largest: Callable[[Path, int], list[dict[str, Any]] | None] | None = None
    compare: Callable[[Store, Path, Manifest], tuple[Comparison, Mapping[str, float]]] | None = None
    forecast: Callable[[Trying], Prospect] | None = None
    top: Callable[[Path, int, str | None], Shown] | None = None
    diff: Callable[[Path, Path, int, Path | None], Differences] | None = None

    @abstractmethod
    def query(self, section: Any, edges: KeyedEdges) -> Any:
        """Return the problem's query in dense ids for an instance of `section`.

        Raises
        ------
        InputError
            A key is no vertex.
        """

    @abstractmethod
    def collector(self, collecting: Collecting) -> Collector:
        """Return the sink of a run. It compresses tables as `output.compression` says, which ``mbe verify`` checks."""

    def detail(self, config: Config | None) -> Any:
        """Return the detail that the engine has to produce, as `Collector.detail`; None if there is no choice."""
        return None

    @abstractmethod
    def count_sink(self) -> Any:
        """Return the sink that only counts. With `numbers` only its `detail` is used."""

    def query_shape(self, config: Config) -> Any:
        """Return a query with the properties that compiling depends on, or None if it depends on none."""
        return None

    def forecast_steps(self) -> Sequence[CompileStep]:
        """Return the compile steps of `forecast`, besides the engine's."""
        return ()

    def graph_steps(self, config: Config | None) -> Sequence[CompileStep]:
        """Return the compile steps of `graph`; for any configuration if `config` is None."""
        return ()

    def beside_number(self, manifest: Manifest) -> str:
        """Return the text after the number of results in a summary: ``", largest 6 edges"``."""
        return ""

    def further(self, manifest: Manifest) -> Mapping[str, int | float | str | None]:
        """Return values that the terminal and ``--json`` show beside the number of results, by name."""
        return {}

    def progress(self, progress: Progress) -> Any:
        """Return the progress that observers of a run receive.

        It needs `n_found` (a run with results is not handed to another tier) and `engine` (a flow frees the GPU by it).
        A display of progress reads the other fields too.
        """
        return progress

    def table_memory(self, config: Config, query: Any, graph: Any) -> TableMemory:
        """Return the memory of tables that are kept until the search ends."""
        return TableMemory()

    def undirected(self, config: Config) -> bool:
        """Return True if both columns of the input name vertices of one set, and edges have no direction.

        The edges' `graph` is then a `mbe_stage.graphs.undirected.UndirectedCSR`.
        """
        return False

    def weighs(self, config: Config) -> bool:
        """Return True if `query` uses weights: `Edges.events` has them.

        Raises
        ------
        ConfigError
            The configuration names no column of weights.
        """
        return False

    def graph(self, config: Config, edges: Any) -> Any:
        """Return the graph to search, from clean edges of any backend.

        Raises
        ------
        MemoryBudgetExceeded
            The graph does not fit.
        """
        return edges.graph()

    def least_sizes(self, config: Config) -> tuple[int, int] | None:
        """Return the fewest left and right vertices of a result, if edges outside of results do not matter.

        They matter to the degrees of vertices alone, which `Edges.degrees` has then. None if they matter elsewhere.
        """
        return None

    def made_of_input(self, config: Config) -> str | None:
        """Return the name of the graph that `graph` derives, such as ``left projection``; None if it derives none.

        A derived graph is an `UndirectedCSR`, and `counts` has its ``vertices`` and ``edges``.
        """
        return None


class DerivedPublication(OutputFacts, _Published):
    """A derived output, as the pipeline sees it.

    Attributes
    ----------
    name : str
        The name of its `mbe_stage.problem.DerivedOutput`, and of its section in the configuration.
    problem : str
        The problem whose results it uses.
    events : bool
        True if the collector uses weights and times. If the configuration names their columns, `Edges.events` of
        `Collecting.edges` has them.
    input_keys : tuple of str
        Keys of the section that name files. Like the path of the edges, they are not part of `config_fingerprint`.
        `inputs` returns a fingerprint of each file's content.
    late_keys : tuple of str
        The `input_keys` that do not affect the search, so an interrupted run can be resumed with other files.
    largest : callable or None
        See `Publication.largest`; never None for a run.
    next_command : str
        The suggested command after a run with results of this output; ``{}`` is the output directory.
    news : callable or None
        Takes the run path and the manifest of a published run; returns `News`, which flows report.
    graph_frames : callable or None
        Takes a run directory and the name of a library (`RunResult.graph`); returns its frames of nodes and of edges.
    complete : callable or None
        Takes a `Completing`, may rewrite the output's own tables, and returns `Completed`. It is called when all tables
        are written, before checksums are taken.
    """

    name: str
    problem: str
    events: bool = False
    input_keys: tuple[str, ...] = ()
    late_keys: tuple[str, ...] = ()
    largest: Callable[[Path, int], list[dict[str, Any]]] | None = None
    next_command: str = ""
    news: Callable[[Path, Manifest], News] | None = None
    graph_frames: Callable[[Path, str], tuple[Any, Any]] | None = None
    complete: Callable[[Completing], Completed] | None = None

    @abstractmethod
    def collector(self, collecting: Collecting) -> DerivedCollector:
        """Return the collector for the frames of the run's backend."""

    def device_bytes(self, collecting: Collecting) -> int:
        """Return how many more bytes of device memory the collector holds at most between two blocks."""
        return 0

    def tries_keys(self, config: Config) -> bool:
        """Return whether it uses further columns of the input as parts of the right key."""
        return False

    def nothing(self, run_path: Path, manifest: Manifest) -> str:
        """Return the text of a flow whose `largest` is empty."""
        return "there is nothing to show"

    def inputs(self, config: Config) -> Mapping[str, str]:
        """Return the fingerprints of the files in `input_keys` that are set, before anything else is read.

        Raises
        ------
        InputError
            A file cannot be used.
        """
        return {}
