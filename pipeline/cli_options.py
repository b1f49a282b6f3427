"""The options of `mbe`, in groups: what each is called, what it says of itself, and which configuration key it sets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from pipeline.config import Config

__all__ = ["ByOption", "Columns", "Means", "Output", "Query", "configuration", "option_of"]

_COLUMNS, _QUERY, _MEANS, _OUTPUT = "How to read the input", "Which bicliques", "With what means", "What comes out"


def _option(panel: str | None, help_text: str, *names: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel=panel, metavar=metavar, show_default=False)


class Columns:
    """Section `input`."""

    Left = Annotated[str | None, _option(_COLUMNS, "Left column: name or position (0).", metavar="COL")]
    Right = Annotated[str | None, _option(_COLUMNS, "Right column: name or position (1).", metavar="COL")]
    Weight = Annotated[str | None, _option(_COLUMNS, "Weight column, for --min-weight.", metavar="COL")]
    Timestamp = Annotated[str | None, _option(_COLUMNS, "Time column, for --time-from and -until.", metavar="COL")]
    Delimiter = Annotated[str | None, _option(_COLUMNS, "Between columns; found by itself.", metavar="CHAR")]
    Header = Annotated[
        bool | None, _option(_COLUMNS, "Whether the first line names the columns.", "--header/--no-header")
    ]
    Format = Annotated[
        Literal["auto", "parquet", "csv", "konect", "snap", "matrix_market", "npz", "fimi"] | None,
        _option(_COLUMNS, "File format; auto looks at name and content.", "--format"),
    ]
    KeyType = Annotated[
        Literal["auto", "integer", "string"] | None, _option(_COLUMNS, "Kind of vertex keys; auto looks at them.")
    ]
    Nulls = Annotated[Literal["error", "drop"] | None, _option(_COLUMNS, "What to do with missing keys.")]
    MinWeight = Annotated[float | None, _option(_COLUMNS, "Only edges at least that strong.", metavar="X")]
    TimeFrom = Annotated[str | None, _option(_COLUMNS, "Only edges from this time on.", metavar="TIME")]
    TimeUntil = Annotated[str | None, _option(_COLUMNS, "Only edges before this time.", metavar="TIME")]


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
    MaxBicliques = Annotated[int | None, _option(_MEANS, "Stop, truncated, after so many.", metavar="N")]
    TimeLimit = Annotated[float | None, _option(_MEANS, "Stop, truncated, after so long.", metavar="SECONDS")]


class Output:
    """Section `output`, and what the command prints."""

    Out = Annotated[Path | None, _option(_OUTPUT, "Output directory (out).", metavar="DIR")]
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
    CountOnly = Annotated[bool, _option(_OUTPUT, "Count, and store nothing.", "--count-only")]
    Json = Annotated[bool, _option(_OUTPUT, "Print one JSON object as the last line.", "--json")]
    Quiet = Annotated[bool, _option(_OUTPUT, "No progress, only warnings and the result.", "--quiet", "-q")]
    Verbose = Annotated[bool, _option(_OUTPUT, "Also what was decided, and why: engine, tier.", "--verbose", "-v")]


ByOption = Annotated[
    Literal["edges", "left", "right"], typer.Option(help="What makes a biclique large: edges, or one side's members.")
]


# Where the name of an option is not that of its key.
_CALLED_OTHERWISE = {
    "output.directory": "out",
    "execution.time_limit_seconds": "time_limit",
    "output.report": "no_report",
    "input.format": "file_format",
    "input.path": "source",
}


def _name_of(key: str) -> str:
    """What the parameter of a command is called that sets a configuration key."""
    return _CALLED_OTHERWISE.get(key, key.partition(".")[2])


def option_of(key: str, command: Any) -> str:
    """What a command calls the setting with this configuration key; the key itself where it has none for it."""
    name = _name_of(key)
    parameter = next((each for each in command.params if each.name == name), None) if command is not None else None
    if parameter is None:
        return key
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or key)
    return " or ".join([*parameter.opts[:1], *parameter.secondary_opts])


def configuration(options: Mapping[str, Any], base: Path | None = None) -> Config:
    """The `Config` of options that were given, over a configuration file if there is one.

    Parameters
    ----------
    options : mapping
        A command's parameters by their names; those that set no key are left out, None is not given.
    base : Path, optional
    """
    from pipeline.config import Config, load_config
    from pipeline.errors import ConfigError

    given: dict[str, dict[str, Any]] = {}
    for section, field in Config.model_fields.items():
        names = {key: _name_of(f"{section}.{key}") for key in field.annotation.model_fields}  # type: ignore[union-attr]
        given[section] = {key: options[name] for key, name in names.items() if options.get(name) is not None}
    if base is None:
        return Config.from_mapping(given, "command line")
    values = load_config(base).model_dump(exclude_unset=True)
    merged = {section: {**values.get(section, {}), **given.get(section, {})} for section in {*values, *given}}
    config = Config.from_mapping(merged, f"{base} and the command line")
    if not config.input.path:
        raise ConfigError(f"{base}: no input.path; expected a file or directory of edges; set input.path in it")
    return config
