"""The options of `mbe`: names, help texts, and the configuration keys that they set.

Commands with many options have tables of `Parameter`: `taking` makes the command's signature from a table,
`configuration` a `Config` from the given options. The options of `query` and `groups` repeat their models, because
importing these would slow down `mbe enumerate --help`; tests compare them. `pipeline.cli.section_options` makes the
options of other sections.
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

from mbe_stage.pipeline.cases import System

if TYPE_CHECKING:
    from mbe_stage.pipeline.config.model import Config

_COLUMNS, _QUERY, _MEANS, _OUTPUT = "How to read the input", "Which bicliques", "Execution", "Output"
_GROUPS = "Output groups"
_PANELS = {"input": _COLUMNS, "query": _QUERY, "execution": _MEANS, "output": _OUTPUT}


def _option(panel: str | None, help_text: str, *names: str, metavar: str | None = None, **more: Any) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel=panel, metavar=metavar, show_default=False, **more)


def _write_metrics_to(path: Path | None) -> Path | None:
    from mbe_stage.pipeline.cli.metrics import write_to

    return write_to(path)


# Options of commands that write their parameters out.
MinLeft = Annotated[int | None, _option(_QUERY, "Minimum number of left members (1).", metavar="P")]
MinRight = Annotated[int | None, _option(_QUERY, "Minimum number of right members (1).", metavar="Q")]
Format = Annotated[
    Literal["auto", "parquet", "csv", "konect", "snap", "matrix_market", "npz", "fimi", "json", "biadjacency", "cxt"]
    | None,
    _option(_COLUMNS, "File format; auto looks at the content.", "--format"),
]
Tier = Annotated[
    Literal["auto", "cpu", "cuda", "rapids", "reference"] | None,
    _option(_MEANS, "Engine, or rapids: tables on the GPU too; auto takes the fastest that works.", "--engine"),
]
Threads = Annotated[int | None, _option(_MEANS, "Worker threads; 0 uses every core.", metavar="N")]
IfChanged = Annotated[
    bool,
    _option(_OUTPUT, "Only if input or query differ from the latest run, else exit code 5.", "--if-changed"),
]
Resume = Annotated[bool, _option(_OUTPUT, "Resume an interrupted run of the same query, if there is one.", "--resume")]
CountOnly = Annotated[bool, _option(_OUTPUT, "Count, and store nothing.", "--count-only")]
Json = Annotated[bool, _option(_OUTPUT, "Print one JSON object as the last line.", "--json")]
Quiet = Annotated[bool, _option(_OUTPUT, "No progress, only warnings and the result.", "--quiet", "-q")]
Verbose = Annotated[bool, _option(_OUTPUT, "Also log decisions and their reasons: engine, tier.", "--verbose", "-v")]
LogFormat = Annotated[
    Literal["text", "json"],
    _option(_OUTPUT, "Lines on stderr: text, or one JSON object each.", "--log-format", envvar="MBE_LOG_FORMAT"),
]
METRICS = "MBE_METRICS"
"""The environment variable of `--metrics`."""
_TO_METRICS = {"envvar": METRICS, "is_eager": True, "callback": _write_metrics_to}
Metrics = Annotated[
    Path | None,
    _option(_OUTPUT, "Prometheus text file to keep.", "--metrics", metavar="FILE", **_TO_METRICS),
]
Override = Annotated[
    list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Set one key; repeatable.")
]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a command.

    Attributes
    ----------
    name : str
        The name of the function's parameter.
    annotation
        The annotation for Typer: ``Annotated[type, typer.Option(...)]``.
    key : str
        The configuration key that it sets, or the section that it switches on; empty for none.
    default
    value : callable
        Converts the given value to the key's value; None leaves the key out.
    also : mapping of str to Any
        Other keys that it sets with it.
    """

    name: str
    annotation: Any
    key: str = ""
    default: Any = None
    value: Callable[[Any], Any] = lambda given: given
    also: Mapping[str, Any] = field(default_factory=dict)


def _setting(key: str, kind: Any, metavar: str | None, help_text: str, *names: str, **more: Any) -> Parameter:
    """Return the option of a configuration key, which is named after it unless `names` are given."""
    annotation = Annotated[kind | None, _option(_PANELS[key.partition(".")[0]], help_text, *names, metavar=metavar)]
    return Parameter(more.pop("name", key.partition(".")[2]), annotation, key, **more)


def _flag(name: str, annotation: Any, key: str = "", value: Any = True) -> Parameter:
    return Parameter(name, annotation, key, default=False, value=lambda given: value if given else None)


def _output_flag(name: str, help_text: str, key: str, value: Any = True) -> Parameter:
    option = f"--{name.replace('_', '-')}"
    return _flag(name, Annotated[bool, _option(_OUTPUT, help_text, option)], key, value)


def _group_setting(key: str, help_text: str, metavar: str, kind: Any = str) -> Parameter:
    option = _option(_GROUPS, help_text, f"--groups-{key.replace('_', '-')}", metavar=metavar)
    return Parameter(f"groups_{key}", Annotated[kind | None, option], f"groups.{key}")


def _source(help_text: str, metavar: str = "INPUT") -> Parameter:
    argument = typer.Argument(metavar=metavar, help=help_text)
    return Parameter("source", Annotated[list[str], argument], "input.path", inspect.Parameter.empty)


QUERY = (
    Parameter("min_left", MinLeft, "query.min_left"),
    Parameter("min_right", MinRight, "query.min_right"),
    _setting("query.max_left", int, "P", "Maximum number of left members."),
    _setting("query.max_right", int, "Q", "Maximum number of right members."),
    _setting("query.min_edges", int, "N", "Minimum number of edges (1)."),
    _setting("query.containing_left", list[str], "KEY", "Must have this left key; repeatable."),
    _setting("query.containing_right", list[str], "KEY", "Must have this right key; repeatable."),
)
GROUPS = (
    Parameter(
        "groups",
        Annotated[bool, _option(_GROUPS, "Significant groups, ranked, and scores of vertices.", "--groups")],
        "groups",
        default=False,
        value=lambda given: {} if given else None,
    ),
    _group_setting("limit", "Maximum number of groups (100; at least 1; at most 1000000).", "N"),
    _group_setting(
        "kind",
        "The best bicliques, larger groups grown from them, or both in one list (both).",
        "<both|short_list|grown_cover>",
    ),
    _group_setting(
        "rank_by",
        "Ranking; per vertex or edge suits communities, evidence puts large groups first (surprise).",
        "<surprise|surprise_per_vertex|surprise_per_edge|evidence>",
    ),
    _group_setting(
        "max_overlap",
        "Skip a group if its left members have this Jaccard index with a better group's (0.6; above 0; at most 1).",
        "X",
    ),
    _group_setting(
        "try_keys",
        "Also try right keys narrowed by further columns and times, or only the plain key (auto).",
        "<auto|plain>",
    ),
    _group_setting(
        "chance_copies",
        "Random copies to search beside the list; 5 by default (at least 0; at most 99).",
        "N",
    ),
    _group_setting("labels", "A table of known cases: key, optionally side and class.", "FILE"),
    _group_setting(
        "negative",
        "A class of other cases; if it is given alone, all other classes are known cases (repeatable).",
        "CLASS",
        list[str],
    ),
    _group_setting(
        "positive",
        "A class of known cases; if it is given alone, all others are other cases (repeatable).",
        "CLASS",
        list[str],
    ),
    _group_setting(
        "allow",
        "A table of known good keys; a group is muted if all members of a side are listed.",
        "FILE",
    ),
    _group_setting(
        "verdicts",
        "The file of verdicts on cases; by default verdicts.sqlite in the output directory, if it exists.",
        "FILE",
    ),
)
_INPUT = (
    _setting("input.left", str, "COL", "Left column: name or position (0)."),
    _setting("input.right", list[str], "COL", "Right column: name or position (1); several make one key."),
    _setting("input.weight", str, "COL", "Weight column, for --min-weight, groups and best --by weight."),
    _setting("input.timestamp", str, "COL", "Time column, for --time-... and for groups."),
    _setting("input.delimiter", str, "CHAR", "Column delimiter; detected by default."),
    _setting("input.header", bool, None, "The first line has column names, or not.", "--header/--no-header"),
    _setting("input.encoding", str, "NAME", "Encoding of text files (utf-8)."),
    _setting("input.skip_lines", int, "N", "Skip this many lines at the start."),
    _setting("input.comment", str, "TEXT", "Skip lines that begin with this text."),
    _setting("input.trim", bool, None, "Remove blanks around keys, or keep them.", "--trim/--no-trim"),
    _setting("input.decimal", Literal[".", ","], None, "Decimal mark of weights and times (.)."),
    _setting("input.date_format", str, "FORMAT", "Format of times, such as %d/%m/%Y (ISO-8601)."),
    Parameter("file_format", Format, "input.format"),
    _setting("input.key_type", Literal["auto", "integer", "string"], None, "Type of vertex keys; auto looks at them."),
    _setting("input.nulls", Literal["error", "drop"], None, "Refuse or drop rows with missing keys."),
    _setting("input.min_weight", float, "X", "Minimum weight of an edge."),
    _setting("input.time_from", str, "TIME", "Only edges from this time on."),
    _setting("input.time_until", str, "TIME", "Only edges before this time."),
    _setting("input.time_bucket", str, "LENGTH", "Split right vertices by time: 7d, 12h; units s, m, h, d, w."),
    _setting("input.time_offset", str, "LENGTH", "Start of the buckets after 1970 (0)."),
)
_BY = _setting("input.by", str, "COL", "A column of graphs: each value has vertices and bicliques of its own.")
_ON_THIS_MACHINE = (
    Parameter("threads", Threads, "execution.threads"),
    _setting("execution.memory_budget", str, "BYTES", "Memory of reading and search (1GiB for search)."),
    _setting("execution.device_memory", str, "BYTES", "Memory to use of a GPU, such as 16GiB."),
)
_DEVICES = _setting("execution.devices", str, "GPUS", "GPUs to use: all, or indices such as 0,1.")
_DASK = {"execution.runner": "dask"}
_BY_DASK = (
    _setting(
        "execution.cluster", str, "ADDRESS", "Search on a Dask cluster: its scheduler's address or file.", also=_DASK
    ),
    _setting("execution.workers", int, "N", "Number of local Dask workers.", also=_DASK),
)
_MAX_BICLIQUES, _MAX_CLIQUES = (
    _setting(f"execution.max_{what}", int, "N", f"Stop after this many {what}; the run is truncated.")
    for what in ("bicliques", "cliques")
)
_MAX_OUTPUT_BYTES = _setting(
    "execution.max_output_bytes", str, "SIZE", "Stop when the output reaches this size; the run is truncated."
)
_TIME_LIMIT = Annotated[float | None, _option(_MEANS, "Stop after this time; the run is truncated.", metavar="SECONDS")]
_OUT = _setting("output.directory", str, "DIR", "Output directory (out).", "--out", name="out", value=str)
OUT_IF_GIVEN = _setting(
    "output.directory",
    str,
    "DIR",
    "Publish a run to this directory; without it, only count.",
    "--out",
    name="out",
    value=str,
)
"""``--out`` of a command that counts unless it is given."""
_MEMBERS = _output_flag("members", "Also write the long form, one row per member.", "output.members")
_PRINTED = (_flag("as_json", Json), _flag("quiet", Quiet), _flag("verbose", Verbose))


def publishing(
    section: Sequence[Parameter], *, max_bicliques: bool, members: bool, max_cliques: bool = False
) -> tuple[Parameter, ...]:
    """Return the parameters of a command that publishes runs of a problem.

    Parameters
    ----------
    section : sequence of Parameter
        The parameters of the problem's section.
    max_bicliques, max_cliques : bool
        The problem has this limit in ``execution``.
    members : bool
        The problem has ``output.bicliques`` and ``output.members``.
    """
    no_bicliques = _output_flag("no_bicliques", "Write only derived tables, such as groups.", "output.bicliques", False)
    return (
        _source("Edge files of one table, a directory of them, or - for standard input."),
        _OUT,
        *section,
        *_INPUT,
        *([_BY] if members else ()),
        Parameter("engine", Tier, "execution.engine"),
        *_ON_THIS_MACHINE,
        *_BY_DASK,
        _DEVICES,
        *([_MAX_BICLIQUES] if max_bicliques else ()),
        *([_MAX_CLIQUES] if max_cliques else ()),
        *([_MAX_OUTPUT_BYTES] if max_bicliques or max_cliques else ()),
        Parameter("time_limit", _TIME_LIMIT, "execution.time_limit_seconds"),
        *([no_bicliques, _MEMBERS] if members else ()),
        _output_flag("sort", "Write rows in canonical order.", "output.sort"),
        _setting(
            "output.compression", Literal["zstd", "snappy", "lz4", "none"], None, "Compression of Parquet files (zstd)."
        ),
        _setting("output.keep_runs", int, "N", "Remove all but this many newest runs."),
        _output_flag("no_report", "Do not write report.html.", "output.report", value=False),
        _flag("if_changed", IfChanged),
        _flag("resume", Resume),
        _flag("count_only", CountOnly),
        Parameter("metrics", Metrics),
        *_PRINTED,
    )


INSPECTING = (
    _source("Edge files of one table, a directory of them, - for standard input, or CONFIG.yaml."),
    Parameter(
        "trial",
        Annotated[
            float, typer.Option(min=0, metavar="SECONDS", help="Length of the trial and of sampling; 0 skips both.")
        ],
        default=2.0,
    ),
    Parameter("seed", Annotated[int, typer.Option(min=0, help="Seed of the samples.")], default=0),
    Parameter(
        "problem",
        Annotated[str | None, typer.Option(metavar="NAME", help="The problem, if not bicliques.", show_default=False)],
        "problem",
    ),
    Parameter("override", Override),
    *QUERY,
    *_INPUT,
    _BY,
    Parameter("engine", Tier, "execution.engine"),
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
    """Return the parameter's names on the command line; none for an argument."""
    (info,) = parameter.annotation.__metadata__
    if isinstance(info, ArgumentInfo):
        return ()
    # In an annotation Typer keeps the first name where the default would be.
    given = (*([info.default] if isinstance(info.default, str) else ()), *(info.param_decls or ()))
    return tuple(name for each in given for name in each.split("/")) or (f"--{parameter.name.replace('_', '-')}",)


def giving_way(parameter: Parameter, taken: Collection[str]) -> Parameter:
    """Return the parameter without short names that the problem's own options use; its long name stays."""
    names = options_of(parameter)
    kept = [name for name in names if name.startswith("--") or name not in taken]
    return parameter if len(kept) == len(names) else _renamed(parameter, kept)


def refused(taken: Collection[str], *, max_bicliques: bool) -> tuple[Parameter, ...]:
    """Return hidden options for the settings of bicliques, so that using one gives a reason instead of a usage error.

    Parameters
    ----------
    taken : collection of str
        The options of the command.
    max_bicliques : bool
        The problem does not have ``execution.max_bicliques`` either.
    """
    of_bicliques = (*QUERY, _BY, *([_MAX_BICLIQUES] if max_bicliques else ()))
    return tuple(_hidden(each) for each in of_bicliques if not set(options_of(each)) & set(taken))


def _hidden(parameter: Parameter) -> Parameter:
    kind, info = get_args(parameter.annotation)
    info = copy.copy(info)
    info.hidden = True
    return replace(parameter, annotation=Annotated[kind, info])


def _without_prefix(parameter: Parameter) -> Parameter:
    """Return the option of a derived output for its own command: ``--limit`` for ``--groups-limit``."""
    names = (name.replace("--groups-", "--") for name in options_of(parameter))
    return _renamed(parameter, ["--keys" if name == "--try-keys" else name for name in names])


def _renamed(parameter: Parameter, names: Sequence[str]) -> Parameter:
    kind, info = get_args(parameter.annotation)
    info = copy.copy(info)
    info.default, info.param_decls = names[0], tuple(names[1:])
    return replace(parameter, annotation=Annotated[kind, info])


# `mbe groups` has other options for these, or none.
_NOT_OF_GROUPS = ("source", "sort", "count_only")
GROUPING = (
    _source("Edges, as for mbe enumerate; or a published run, or its output directory.", "INPUT|RUN"),
    *(_without_prefix(each) for each in GROUPS if each.key != "groups"),
    *(each for each in publishing(QUERY, max_bicliques=True, members=False) if each.name not in _NOT_OF_GROUPS),
    _output_flag("bicliques", "Also write the bicliques.", "output.bicliques"),
    Parameter(
        "run_input",
        Annotated[str | None, _option(_OUTPUT, "The current place of the input of a RUN.", "--input", metavar="INPUT")],
    ),
)


_RUN = Parameter(
    "run_path",
    Annotated[str, typer.Argument(metavar="RUN", help="Run, or output directory: its latest run.")],
    default=inspect.Parameter.empty,
)


def _taken(name: str, kind: Any, help_text: str, *names: str, default: Any = None, **more: Any) -> Parameter:
    is_shown = default not in (None, False)
    return Parameter(
        name, Annotated[kind, typer.Option(*names, help=help_text, show_default=is_shown, **more)], default=default
    )


_KEY, _AS_JSON = {"metavar": "KEY"}, Parameter("as_json", Json, default=False)
_LEAST = (Parameter("min_left", MinLeft), Parameter("min_right", MinRight))
_SIZE = Literal["edges", "left", "right"]
_COPIES = "Include near copies of larger ones; by default only with --csv and --json."
_TO = "The graph of groups for this system, fraud-gnn for NVIDIA's Financial Fraud Training; cxt is the input."
_CSV = "As CSV, one row per member of bicliques; of groups if there are none."
_LABEL = "For fraud-gnn: the column that says which rows are fraud, 0 or 1."
_INPUT_OF_RUN = "For fraud-gnn and cxt: the input of the run; by default at its place."
_CSV_FILE = _taken(
    "csv", Path | None, "Write a CSV file with columns for all parts of the keys; - for stdout.", metavar="FILE"
)
TOP = (
    _RUN,
    _taken("by", _SIZE | None, "Size: edges (the default of bicliques), or members of one side."),
    _taken("vertex", str | None, "Only results with this vertex.", **_KEY),
    _taken("side", Literal["left", "right"] | None, "The side of --vertex."),
    *_LEAST,
    _taken("limit", int, "Number of results.", default=10, min=1, metavar="N"),
    _taken("copies", bool | None, _COPIES, "--copies/--no-copies"),
    _taken("csv", bool, "As CSV, one row per member.", "--csv", default=False),
    _AS_JSON,
)
_DIRECTORY = typer.Argument(metavar="DIR", help="With --to: a new or empty directory.")
EXPORTING = (
    _RUN,
    Parameter("directory", Annotated[Path | None, _DIRECTORY]),
    _taken("csv", bool, _CSV, "--csv", default=False),
    _taken("groups", bool, "The groups of a run with both.", "--groups", default=False),
    _taken("to", System | None, _TO),
    _taken("edge_label", str | None, _LABEL, metavar="COL"),
    _taken("split", str | None, "For fraud-gnn: the first moment of the test part.", metavar="TIME"),
    _taken("run_input", str | None, _INPUT_OF_RUN, "--with", metavar="INPUT"),
    _taken("out", Path | None, "Write the CSV to a file instead of stdout.", metavar="FILE"),
    *_LEAST,
    _taken("limit", int | None, "Only the first N bicliques or groups.", min=1, metavar="N"),
    Parameter("quiet", Quiet, default=False),
    Parameter("verbose", Verbose, default=False),
)
SHOWING = (
    _RUN,
    _taken("case", str | None, "The case with this id, or the only one that begins so.", metavar="ID"),
    _taken("group", str | None, "The group with this key or rank.", **_KEY),
    _taken("vertex", str | None, "The member with this key: its groups, cases and neighbours.", **_KEY),
    _taken("side", str | None, "The side of --vertex: left, right, or its column.", metavar="SIDE"),
    _CSV_FILE,
    _AS_JSON,
)
ACCOUNTS = (
    _RUN,
    _taken("top", int, "Number of members.", default=100, min=1, metavar="N"),
    _taken("side", str | None, "The side: left (the default), right, or its column.", metavar="SIDE"),
    _CSV_FILE,
    _AS_JSON,
)


# Parameters whose name differs from that of their key, in commands that write their parameters out.
_CALLED_OTHERWISE = {"input.format": "file_format", "input.path": "source"}


def option_of(key: str, command: Any) -> str:
    """Return the command's option for a configuration key, or the key if it has none."""
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
    """Return the `Config` of the given options, on top of a configuration file if there is one.

    Parameters
    ----------
    options : mapping
        The arguments of the command by name; None if not given.
    overrides : sequence of str
        ``section.key=value``, which override everything.
    problem : str, optional
        The problem of the command; by default that of options and configuration.
    given : mapping, optional
        Settings to use without a file; options override them.
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
    """Return the given settings by section and key; a section that was switched on has no keys."""
    settings: dict[str, Any] = {}
    for name, value in _given(parameters, options):
        section, dot, key = name.partition(".")
        if dot:
            settings.setdefault(section, {})[key] = value
        elif value != {} or section not in settings:
            settings[section] = value
    return settings


def _given(parameters: Iterable[Parameter], options: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Yield the keys and values of the given settings."""
    for parameter in parameters:
        given = options.get(parameter.name)
        if not parameter.key or given is None or given == []:
            continue
        value = parameter.value(given)
        if value is not None:
            yield parameter.key, value
            yield from parameter.also.items()
