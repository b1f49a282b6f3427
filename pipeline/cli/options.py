"""The options of `mbe`, in groups: what each is called, what it says of itself, and which configuration key it sets.

Commands with many options take them from tables of `Parameter`: `taking` makes the command's signature of them, and
`configuration` the configuration of what was given. Those of `query` and `groups` stand here beside their models so
that `mbe enumerate --help` answers at once; tests hold them together. Those of other packages' sections:
`pipeline.cli.problems`.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer
from typer.models import ArgumentInfo

if TYPE_CHECKING:
    from mbe_stage.pipeline.config.model import Config

__all__ = [
    "GROUPING",
    "GROUPS",
    "INSPECTING",
    "OUT_IF_GIVEN",
    "QUERY",
    "ByOption",
    "Columns",
    "Groups",
    "Means",
    "Output",
    "Override",
    "Parameter",
    "Query",
    "configuration",
    "giving_way",
    "option_of",
    "options_of",
    "publishing",
    "refused",
    "settings_given",
    "taking",
]

_COLUMNS, _QUERY, _MEANS, _OUTPUT = "How to read the input", "Which bicliques", "With what means", "What comes out"
_GROUPS = "Output groups"


def _option(panel: str | None, help_text: str, *names: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel=panel, metavar=metavar, show_default=False)


class Columns:
    """Section `input`."""

    Left = Annotated[str | None, _option(_COLUMNS, "Left column: name or position (0).", metavar="COL")]
    Right = Annotated[
        list[str] | None, _option(_COLUMNS, "Right column: name or position (1); several make one key.", metavar="COL")
    ]
    Weight = Annotated[str | None, _option(_COLUMNS, "Weight column, for --min-weight and for groups.", metavar="COL")]
    Timestamp = Annotated[str | None, _option(_COLUMNS, "Time column, for --time-... and for groups.", metavar="COL")]
    Delimiter = Annotated[str | None, _option(_COLUMNS, "Between columns; found by itself.", metavar="CHAR")]
    Header = Annotated[
        bool | None, _option(_COLUMNS, "Whether the first line names the columns.", "--header/--no-header")
    ]
    Format = Annotated[
        Literal["auto", "parquet", "csv", "konect", "snap", "matrix_market", "npz", "fimi", "json", "biadjacency"]
        | None,
        _option(_COLUMNS, "File format; auto looks at the content.", "--format"),
    ]
    Encoding = Annotated[str | None, _option(_COLUMNS, "Encoding of text files (utf-8).", metavar="NAME")]
    SkipLines = Annotated[int | None, _option(_COLUMNS, "Skip so many lines at the start.", metavar="N")]
    Comment = Annotated[str | None, _option(_COLUMNS, "Skip lines that begin with this text.", metavar="TEXT")]
    Trim = Annotated[bool | None, _option(_COLUMNS, "Remove blanks around keys, or keep them.", "--trim/--no-trim")]
    Decimal = Annotated[Literal[".", ","] | None, _option(_COLUMNS, "Decimal mark of weights and times (.).")]
    DateFormat = Annotated[
        str | None, _option(_COLUMNS, "How times are written, such as %d/%m/%Y (ISO-8601).", metavar="FORMAT")
    ]
    KeyType = Annotated[
        Literal["auto", "integer", "string"] | None, _option(_COLUMNS, "Kind of vertex keys; auto looks at them.")
    ]
    Nulls = Annotated[Literal["error", "drop"] | None, _option(_COLUMNS, "What to do with missing keys.")]
    MinWeight = Annotated[float | None, _option(_COLUMNS, "Only edges at least that strong.", metavar="X")]
    TimeFrom = Annotated[str | None, _option(_COLUMNS, "Only edges from this time on.", metavar="TIME")]
    TimeUntil = Annotated[str | None, _option(_COLUMNS, "Only edges before this time.", metavar="TIME")]
    TimeBucket = Annotated[
        str | None, _option(_COLUMNS, "Right vertices by time as well: 7d, 12h; s, m, h, d, w.", metavar="LENGTH")
    ]
    TimeOffset = Annotated[str | None, _option(_COLUMNS, "Buckets begin so long after 1970 (0).", metavar="LENGTH")]


class Query:
    """Section `query`."""

    MinLeft = Annotated[int | None, _option(_QUERY, "Fewest left members (1).", metavar="P")]
    MinRight = Annotated[int | None, _option(_QUERY, "Fewest right members (1).", metavar="Q")]
    MaxLeft = Annotated[int | None, _option(_QUERY, "Most left members.", metavar="P")]
    MaxRight = Annotated[int | None, _option(_QUERY, "Most right members.", metavar="Q")]
    MinEdges = Annotated[int | None, _option(_QUERY, "Fewest edges (1).", metavar="N")]
    ContainingLeft = Annotated[list[str] | None, _option(_QUERY, "Must hold this left key; repeatable.", metavar="KEY")]
    ContainingRight = Annotated[
        list[str] | None, _option(_QUERY, "Must hold this right key; repeatable.", metavar="KEY")
    ]


class Means:
    """Section `execution`."""

    Engine = Annotated[
        Literal["auto", "cpu", "cuda", "reference"] | None, _option(_MEANS, "Engine; auto takes the fastest that runs.")
    ]
    Tier = Annotated[
        Literal["auto", "cpu", "cuda", "rapids", "reference"] | None,
        _option(_MEANS, "Engine, or rapids: tables on the GPU too; auto takes the fastest that runs.", "--engine"),
    ]
    Threads = Annotated[int | None, _option(_MEANS, "Worker threads; 0 is every core.", metavar="N")]
    MemoryBudget = Annotated[str | None, _option(_MEANS, "Working memory, such as 512MiB (1GiB).", metavar="BYTES")]
    DeviceMemory = Annotated[str | None, _option(_MEANS, "Memory of a GPU, such as 16GiB.", metavar="BYTES")]
    Devices = Annotated[
        str | None, _option(_MEANS, "GPUs that search together: all, or numbers such as 0,1.", metavar="GPUS")
    ]
    Cluster = Annotated[
        str | None, _option(_MEANS, "A Dask cluster searches: its scheduler's address or file.", metavar="ADDRESS")
    ]
    Workers = Annotated[int | None, _option(_MEANS, "So many Dask workers of this machine search.", metavar="N")]
    MaxBicliques = Annotated[int | None, _option(_MEANS, "Stop, truncated, after so many.", metavar="N")]
    MaxCliques = Annotated[int | None, _option(_MEANS, "Stop, truncated, after so many.", metavar="N")]
    MaxOutputBytes = Annotated[
        str | None, _option(_MEANS, "Stop, truncated, once the rows take so much disk.", metavar="SIZE")
    ]
    TimeLimit = Annotated[float | None, _option(_MEANS, "Stop, truncated, after so long.", metavar="SECONDS")]


class Output:
    """Section `output`, and what the command prints."""

    Out = Annotated[str | None, _option(_OUTPUT, "Output directory (out).", metavar="DIR")]
    Bicliques = Annotated[bool, _option(_OUTPUT, "Write the bicliques too.", "--bicliques")]
    NoBicliques = Annotated[bool, _option(_OUTPUT, "Only what is made of them, such as groups.", "--no-bicliques")]
    Members = Annotated[bool, _option(_OUTPUT, "Also write the long form, one row a member.", "--members")]
    Sort = Annotated[bool, _option(_OUTPUT, "Rows in the same order in every run.", "--sort")]
    Compression = Annotated[
        Literal["zstd", "snappy", "lz4", "none"] | None, _option(_OUTPUT, "Of the Parquet files (zstd).")
    ]
    KeepRuns = Annotated[int | None, _option(_OUTPUT, "Remove all but so many newest runs.", metavar="N")]
    NoReport = Annotated[bool, _option(_OUTPUT, "Leave report.html out.", "--no-report")]
    IfChanged = Annotated[
        bool,
        _option(_OUTPUT, "Only if edges or question differ from the latest run's, else exit code 5.", "--if-changed"),
    ]
    Resume = Annotated[
        bool, _option(_OUTPUT, "Resume an interrupted run of the same query, if there is one.", "--resume")
    ]
    CountOnly = Annotated[bool, _option(_OUTPUT, "Count, and store nothing.", "--count-only")]
    Json = Annotated[bool, _option(_OUTPUT, "Print one JSON object as the last line.", "--json")]
    Quiet = Annotated[bool, _option(_OUTPUT, "No progress, only warnings and the result.", "--quiet", "-q")]
    Verbose = Annotated[bool, _option(_OUTPUT, "Also what was decided, and why: engine, tier.", "--verbose", "-v")]


class Groups:
    """Section `groups`."""

    Asked = Annotated[bool, _option(_GROUPS, "Significant groups, ranked, and scores of vertices.", "--groups")]
    Limit = Annotated[
        str | None, _option(_GROUPS, "Most groups (100; at least 1; at most 1000000).", "--groups-limit", metavar="N")
    ]
    Kind = Annotated[
        str | None,
        _option(
            _GROUPS,
            "The best bicliques, or the larger groups that they grow to (short_list).",
            "--groups-kind",
            metavar="<short_list|grown_cover>",
        ),
    ]
    RankBy = Annotated[
        str | None,
        _option(
            _GROUPS,
            "What ranks them; per vertex or edge suits communities, evidence puts large ones first (surprise).",
            "--groups-rank-by",
            metavar="<surprise|surprise_per_vertex|surprise_per_edge|evidence>",
        ),
    ]
    MaxOverlap = Annotated[
        str | None,
        _option(
            _GROUPS,
            "Left out from this Jaccard with a better one on, by left members (0.5; above 0; at most 1).",
            "--groups-max-overlap",
            metavar="X",
        ),
    ]
    Labels = Annotated[
        str | None,
        _option(
            _GROUPS,
            "A table of known cases: key, and possibly side and class.",
            "--groups-labels",
            metavar="FILE",
        ),
    ]
    Negative = Annotated[
        list[str] | None,
        _option(
            _GROUPS,
            "A class of labels that are no known cases; given alone, all other classes are (repeatable).",
            "--groups-negative",
            metavar="CLASS",
        ),
    ]
    Positive = Annotated[
        list[str] | None,
        _option(
            _GROUPS,
            "A class of labels that are known cases; given alone, no other class is (repeatable).",
            "--groups-positive",
            metavar="CLASS",
        ),
    ]
    Allow = Annotated[
        str | None,
        _option(
            _GROUPS,
            "A table of keys that are known good: groups of them alone are muted.",
            "--groups-allow",
            metavar="FILE",
        ),
    ]


Override = Annotated[
    list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Set one key; repeatable.")
]

ByOption = Annotated[
    Literal["edges", "left", "right"], typer.Option(help="What makes a biclique large: edges, or one side's members.")
]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a command.

    Attributes
    ----------
    name : str
        Of the function's parameter.
    annotation
        As Typer reads it: ``Annotated[type, typer.Option(...)]``.
    key : str
        The configuration key that it sets, or the section that it switches on; empty for none.
    default
    value : callable
        From what was given to the key's value; None is not given.
    also : mapping of str to Any
        Other keys that it sets then.
    """

    name: str
    annotation: Any
    key: str = ""
    default: Any = None
    value: Callable[[Any], Any] = lambda given: given
    also: Mapping[str, Any] = field(default_factory=dict)


def _settings(section: str, annotations: Mapping[str, Any]) -> tuple[Parameter, ...]:
    return tuple(Parameter(key, annotation, f"{section}.{key}") for key, annotation in annotations.items())


def _flag(name: str, annotation: Any, key: str = "", value: Any = True) -> Parameter:
    return Parameter(name, annotation, key, default=False, value=lambda given: value if given else None)


def _source(help_text: str, metavar: str = "INPUT") -> Parameter:
    argument = typer.Argument(metavar=metavar, help=help_text)
    return Parameter("source", Annotated[list[str], argument], "input.path", inspect.Parameter.empty)


QUERY = _settings(
    "query",
    {
        "min_left": Query.MinLeft,
        "min_right": Query.MinRight,
        "max_left": Query.MaxLeft,
        "max_right": Query.MaxRight,
        "min_edges": Query.MinEdges,
        "containing_left": Query.ContainingLeft,
        "containing_right": Query.ContainingRight,
    },
)
GROUPS = (
    Parameter("groups", Groups.Asked, "groups", default=False, value=lambda given: {} if given else None),
    *(
        Parameter(f"groups_{key}", annotation, f"groups.{key}")
        for key, annotation in {
            "limit": Groups.Limit,
            "kind": Groups.Kind,
            "rank_by": Groups.RankBy,
            "max_overlap": Groups.MaxOverlap,
            "labels": Groups.Labels,
            "negative": Groups.Negative,
            "positive": Groups.Positive,
            "allow": Groups.Allow,
        }.items()
    ),
)
_INPUT = (
    *_settings(
        "input",
        {
            "left": Columns.Left,
            "right": Columns.Right,
            "weight": Columns.Weight,
            "timestamp": Columns.Timestamp,
            "delimiter": Columns.Delimiter,
            "header": Columns.Header,
            "encoding": Columns.Encoding,
            "skip_lines": Columns.SkipLines,
            "comment": Columns.Comment,
            "trim": Columns.Trim,
            "decimal": Columns.Decimal,
            "date_format": Columns.DateFormat,
        },
    ),
    Parameter("file_format", Columns.Format, "input.format"),
    *_settings(
        "input",
        {
            "key_type": Columns.KeyType,
            "nulls": Columns.Nulls,
            "min_weight": Columns.MinWeight,
            "time_from": Columns.TimeFrom,
            "time_until": Columns.TimeUntil,
            "time_bucket": Columns.TimeBucket,
            "time_offset": Columns.TimeOffset,
        },
    ),
)
_ON_THIS_MACHINE = _settings(
    "execution",
    {"threads": Means.Threads, "memory_budget": Means.MemoryBudget, "device_memory": Means.DeviceMemory},
)
_DEVICES = Parameter("devices", Means.Devices, "execution.devices")
_BY_DASK = tuple(
    Parameter(name, annotation, f"execution.{name}", also={"execution.runner": "dask"})
    for name, annotation in {"cluster": Means.Cluster, "workers": Means.Workers}.items()
)
_MAX_BICLIQUES = Parameter("max_bicliques", Means.MaxBicliques, "execution.max_bicliques")
_MAX_CLIQUES = Parameter("max_cliques", Means.MaxCliques, "execution.max_cliques")
_MAX_OUTPUT_BYTES = Parameter("max_output_bytes", Means.MaxOutputBytes, "execution.max_output_bytes")
OUT_IF_GIVEN = Parameter(
    "out",
    Annotated[str | None, _option(_OUTPUT, "Publish a run there; without it there is a count alone.", metavar="DIR")],
    "output.directory",
    value=str,
)
"""``--out`` of a command that counts unless it is given."""
_NO_BICLIQUES = _flag("no_bicliques", Output.NoBicliques, "output.bicliques", value=False)
_MEMBERS = _flag("members", Output.Members, "output.members")
_PRINTED = tuple(
    _flag(name, kind)
    for name, kind in {"as_json": Output.Json, "quiet": Output.Quiet, "verbose": Output.Verbose}.items()
)


def publishing(
    section: Sequence[Parameter], *, max_bicliques: bool, members: bool, max_cliques: bool = False
) -> tuple[Parameter, ...]:
    """The parameters of a command that publishes runs of a problem.

    Parameters
    ----------
    section : sequence of Parameter
        Those of the problem's section.
    max_bicliques, members : bool
        Whether the problem knows ``execution.max_bicliques``; ``output.bicliques`` and ``output.members``.
    max_cliques : bool
        Whether it knows ``execution.max_cliques``.
    """
    return (
        _source("Edge files of one table, a directory of them, or - for standard input."),
        Parameter("out", Output.Out, "output.directory", value=str),
        *section,
        *_INPUT,
        Parameter("engine", Means.Tier, "execution.engine"),
        *_ON_THIS_MACHINE,
        *_BY_DASK,
        *([_DEVICES, _MAX_BICLIQUES] if max_bicliques else ()),
        *([_MAX_CLIQUES] if max_cliques else ()),
        *([_MAX_OUTPUT_BYTES] if max_bicliques or max_cliques else ()),
        Parameter("time_limit", Means.TimeLimit, "execution.time_limit_seconds"),
        *([_NO_BICLIQUES, _MEMBERS] if members else ()),
        _flag("sort", Output.Sort, "output.sort"),
        *_settings("output", {"compression": Output.Compression, "keep_runs": Output.KeepRuns}),
        # The key says that there is one, the option that there is none.
        _flag("no_report", Output.NoReport, "output.report", value=False),
        _flag("if_changed", Output.IfChanged),
        _flag("resume", Output.Resume),
        _flag("count_only", Output.CountOnly),
        *_PRINTED,
    )


INSPECTING = (
    _source("Edge files of one table, a directory of them, - for standard input, or CONFIG.yaml."),
    Parameter(
        "trial",
        Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Try and sample so long; 0: not.")],
        default=2.0,
    ),
    Parameter("seed", Annotated[int, typer.Option(min=0, help="Of the samples.")], default=0),
    Parameter(
        "problem",
        Annotated[str | None, typer.Option(metavar="NAME", help="Another problem than bicliques.", show_default=False)],
        "problem",
    ),
    Parameter("override", Override),
    *QUERY,
    *_INPUT,
    Parameter("engine", Means.Tier, "execution.engine"),
    *_ON_THIS_MACHINE,
    _MEMBERS,
    *_PRINTED,
)


def taking(parameters: Iterable[Parameter]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command that takes its options by name (``**options``) with the signature that Typer reads."""
    table = tuple(parameters)

    def with_signature(command: Callable[..., None]) -> Callable[..., None]:
        by_name = inspect.Parameter.KEYWORD_ONLY
        taken = [
            inspect.Parameter(each.name, by_name, default=each.default, annotation=each.annotation) for each in table
        ]
        command.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
        command.parameters = table  # type: ignore[attr-defined]
        return command

    return with_signature


def options_of(parameter: Parameter) -> tuple[str, ...]:
    """What the parameter is called on the command line: its options; none for an argument."""
    (info,) = parameter.annotation.__metadata__
    if isinstance(info, ArgumentInfo):
        return ()
    # In an annotation Typer keeps the first name where the default would be.
    given = (*([info.default] if isinstance(info.default, str) else ()), *(info.param_decls or ()))
    return tuple(name for each in given for name in each.split("/")) or (f"--{parameter.name.replace('_', '-')}",)


def giving_way(parameter: Parameter, taken: Collection[str]) -> Parameter:
    """The parameter without the short names that a problem's own options have; it keeps its long one."""
    names = options_of(parameter)
    kept = [name for name in names if name.startswith("--") or name not in taken]
    return parameter if len(kept) == len(names) else _renamed(parameter, kept)


def refused(taken: Collection[str], *, max_bicliques: bool) -> tuple[Parameter, ...]:
    """What is asked of bicliques, as options that no help shows: whoever gives one is told why there is none.

    Parameters
    ----------
    taken : collection of str
        Options that the command has.
    max_bicliques : bool
        Whether there is no ``execution.max_bicliques`` either.
    """
    of_bicliques = (*QUERY, *([_MAX_BICLIQUES] if max_bicliques else ()))
    return tuple(_hidden(each) for each in of_bicliques if not set(options_of(each)) & set(taken))


def _hidden(parameter: Parameter) -> Parameter:
    kind, info = get_args(parameter.annotation)
    info = copy.copy(info)
    info.hidden = True
    return replace(parameter, annotation=Annotated[kind, info])


def _without_prefix(parameter: Parameter) -> Parameter:
    """The option of a derived output in a command of its own: ``--limit`` for ``--groups-limit``."""
    return _renamed(parameter, [name.replace("--groups-", "--") for name in options_of(parameter)])


def _renamed(parameter: Parameter, names: Sequence[str]) -> Parameter:
    kind, info = get_args(parameter.annotation)
    info = copy.copy(info)
    info.default, info.param_decls = names[0], tuple(names[1:])
    return replace(parameter, annotation=Annotated[kind, info])


# Named otherwise there, about the bicliques, or no groups.
_NOT_OF_GROUPS = ("source", "sort", "count_only")
GROUPING = (
    _source("Edges, as for mbe enumerate; or a published run, or its output directory.", "INPUT|RUN"),
    *(_without_prefix(each) for each in GROUPS if each.key != "groups"),
    *(each for each in publishing(QUERY, max_bicliques=True, members=False) if each.name not in _NOT_OF_GROUPS),
    _flag("bicliques", Output.Bicliques, "output.bicliques"),
    Parameter(
        "run_input",
        Annotated[str | None, _option(_OUTPUT, "Of a RUN: where its input is now.", "--input", metavar="INPUT")],
    ),
)


# Where the name of an option is not that of its key, in commands that write their parameters out.
_CALLED_OTHERWISE = {"input.format": "file_format", "input.path": "source"}


def option_of(key: str, command: Any) -> str:
    """What a command calls the setting with this configuration key; the key itself where it has none for it."""
    table: tuple[Parameter, ...] | None = getattr(getattr(command, "callback", None), "parameters", None)
    if table is None:
        name: str | None = _CALLED_OTHERWISE.get(key, key.partition(".")[2])
    else:
        name = next((each.name for each in table if each.key == key), None)
    parameter = next((each for each in command.params if each.name == name), None) if command is not None else None
    if parameter is None:
        return key
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or key)
    return " or ".join([*parameter.opts[:1], *parameter.secondary_opts])


def configuration(
    parameters: Iterable[Parameter],
    options: Mapping[str, Any],
    base: Path | None = None,
    overrides: Sequence[str] = (),
    problem: str | None = None,
    given: Mapping[str, Any] | None = None,
) -> Config:
    """The `Config` of options that were given, over a configuration file if there is one.

    Parameters
    ----------
    options : mapping
        What the command was called with, by name; None is not given.
    overrides : sequence of str
        ``section.key=value``, over everything.
    problem : str, optional
        Whose command it is; by default what options and configuration say.
    given : mapping, optional
        What is asked where there is no file, below all options.
    """
    from mbe_stage.pipeline.config.model import Config, apply_override, load_config
    from mbe_stage.pipeline.errors import ConfigError

    source = "command line" if base is None else f"{base} and the command line"
    values = dict(given or {}) if base is None else load_config(base).model_dump(exclude_unset=True)
    if problem is not None:
        values["problem"] = problem
    for section, keys in settings_given(parameters, options).items():
        values[section] = {**values.get(section, {}), **keys} if isinstance(keys, dict) else keys
    for override in overrides:
        apply_override(values, override)
    config = Config.from_mapping(values, source)
    if base is not None and not config.input.path:
        raise ConfigError(f"{base}: no input.path; expected a file or directory of edges; set input.path in it")
    return config


def settings_given(parameters: Iterable[Parameter], options: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, by section and key; a section that was switched on is there without keys."""
    settings: dict[str, Any] = {}
    for name, value in _given(parameters, options):
        section, dot, key = name.partition(".")
        if dot:
            settings.setdefault(section, {})[key] = value
        elif value != {} or section not in settings:
            settings[section] = value
    return settings


def _given(parameters: Iterable[Parameter], options: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Keys and values of what was given."""
    for parameter in parameters:
        given = options.get(parameter.name)
        if not parameter.key or given is None or given == []:
            continue
        value = parameter.value(given)
        if value is not None:
            yield parameter.key, value
            yield from parameter.also.items()
