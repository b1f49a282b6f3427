"""The configuration of a run: YAML is read into frozen models; an unknown key is refused with the nearest known name.

`configs/default.yaml` shows every key with its default and the reason; a test keeps the two equal. Sections from other
packages' problems and derived outputs are included by name (`pipeline.config.plugin_sections`).
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)

from mbe_stage.options import LARGEST_BLOCK, MOST_THREADS, NO_LIMIT, Execution
from mbe_stage.pipeline.config.plugin_sections import (
    OURS,
    check_problem,
    is_here,
    owner_of,
    read_sections,
    section_names,
)
from mbe_stage.pipeline.config.registry import problem_facts
from mbe_stage.pipeline.config.section import Section, is_section, message_of, refusal
from mbe_stage.pipeline.config.setting_names import did_you_mean, setting
from mbe_stage.pipeline.config.units import parse_bytes, parse_duration
from mbe_stage.pipeline.errors import ConfigError
from mbe_stage.pipeline.stores.address import check_output, place_of
from mbe_stage.problem import problem_named

Key = int | str

_LIMITS = ("max_bicliques", "max_cliques")


class InputConfig(Section):
    """The source of the edges, and how to read them."""

    path: str | tuple[str, ...] | None = None
    format: Literal[
        "auto", "parquet", "csv", "konect", "snap", "matrix_market", "npz", "fimi", "json", "biadjacency", "cxt"
    ] = "auto"
    left: Key = 0
    right: Key | tuple[Key, ...] = 1
    by: Key | None = None
    weight: Key | None = None
    timestamp: Key | None = None
    delimiter: str | None = None
    header: bool | None = None
    encoding: str | None = None
    skip_lines: int | None = Field(None, ge=0, lt=NO_LIMIT)
    comment: str | None = None
    trim: bool | None = None
    decimal: Literal[".", ","] = "."
    date_format: str | None = None
    key_type: Literal["auto", "integer", "string"] = "auto"
    nulls: Literal["error", "drop"] = "error"
    min_weight: float | None = Field(None, allow_inf_nan=False)
    time_from: int | float | str | None = None
    time_until: int | float | str | None = None
    time_bucket: str | None = None
    time_offset: str = "0"
    # Not a configuration key: it follows from the requested outputs.
    _keeps_events: bool = PrivateAttr(False)
    _tries_keys: bool = PrivateAttr(False)
    _is_undirected: bool = PrivateAttr(False)
    _keeps_rows: bool = PrivateAttr(False)

    def _with(self, flag: str) -> InputConfig:
        copy = self.model_copy()
        setattr(copy, flag, True)
        return copy

    @property
    def keeps_events(self) -> bool:
        """True if weights and times are read even if no filter needs them."""
        return self._keeps_events

    def keeping_events(self) -> InputConfig:
        """Return a copy with `keeps_events`."""
        return self._with("_keeps_events")

    @property
    def tries_keys(self) -> bool:
        """True if further columns that may narrow the right key are recognised and read."""
        return self._tries_keys

    def trying_keys(self) -> InputConfig:
        """Return a copy with `tries_keys`."""
        return self._with("_tries_keys")

    @property
    def keeps_rows(self) -> bool:
        """True if all columns of delimited text and Parquet are read, and the place of each row is kept."""
        return self._keeps_rows

    def keeping_rows(self) -> InputConfig:
        """Return a copy with `keeps_rows`."""
        return self._with("_keeps_rows")

    @property
    def is_undirected(self) -> bool:
        """True if both columns name vertices of one set, and edges have no direction."""
        return self._is_undirected

    def of_one_set(self) -> InputConfig:
        """Return a copy with `is_undirected`."""
        return self._with("_is_undirected")

    @property
    def names_columns(self) -> bool:
        """True if the user has named the columns of the edges.

        A position given as text counts: ``left: "0"`` is explicit, unlike the default ``left: 0``.
        """
        return (self.left, self.right) != (0, 1)

    @property
    def right_columns(self) -> tuple[Key, ...]:
        """The one or several columns of the right key."""
        return self.right if isinstance(self.right, tuple) else (self.right,)

    @property
    def bucket_seconds(self) -> int | None:
        """Length of the time buckets; None without buckets."""
        return None if self.time_bucket is None else parse_duration(self.time_bucket)

    @property
    def offset_seconds(self) -> int:
        """Start of a time bucket in seconds after 1970-01-01 00:00 UTC."""
        return parse_duration(self.time_offset)

    @field_validator("path")
    @classmethod
    def _of_this_machine(cls, path: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if not isinstance(path, tuple):
            return place_of(path)
        places = tuple(map(place_of, path))
        if not places or not all(places):
            raise ValueError("expected a path, or a list of paths that form one table")
        return places[0] if len(places) == 1 else places

    @field_validator("right", mode="before")
    @classmethod
    def _a_list_of_one_is_one(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return value
        if not value:
            raise ValueError("expected a column, or a list of columns that form the right key")
        return value[0] if len(value) == 1 and isinstance(value[0], int | str) else value

    @field_validator("time_from", "time_until", mode="before")
    @classmethod
    def _moments_as_text(cls, value: Any) -> Any:
        # YAML reads an unquoted 2024-01-31 as a date.
        return value.isoformat() if isinstance(value, date) else value

    @field_validator("time_bucket", "time_offset", mode="before")
    @classmethod
    def _lengths_of_time(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None and info.field_name == "time_bucket":
            return None
        text = str(value) if isinstance(value, int) else value
        if not isinstance(text, str):
            raise ValueError("expected a whole number and one of the units s, m, h, d and w, such as 7d")
        if parse_duration(text) == 0 and info.field_name == "time_bucket":
            raise ValueError("expected a positive duration, such as 7d")
        return text

    @model_validator(mode="after")
    def _buckets_have_times(self) -> InputConfig:
        if self.time_bucket is not None and self.timestamp is None:
            raise ValueError(
                f"{setting('input.time_bucket')} needs the timestamp column: set {setting('input.timestamp')} to its "
                "name or position"
            )
        if self.time_bucket is None and self.offset_seconds:
            raise ValueError(
                f"{setting('input.time_offset')} shifts the time buckets: set {setting('input.time_bucket')} "
                "too, or leave it out"
            )
        return self

    @model_validator(mode="after")
    def _filters_have_columns(self) -> InputConfig:
        if self.min_weight is not None and self.weight is None:
            raise ValueError(
                f"{setting('input.min_weight')} needs the weight column: set {setting('input.weight')} to its name or "
                "position"
            )
        if (self.time_from is not None or self.time_until is not None) and self.timestamp is None:
            raise ValueError(
                f"{setting('input.time_from')} and {setting('input.time_until')} need the timestamp column: set "
                f"{setting('input.timestamp')}"
            )
        return self


class QueryConfig(Section):
    """The maximal bicliques to find; `containing_*` holds the user's own keys."""

    min_left: int = Field(1, ge=1, lt=NO_LIMIT)
    min_right: int = Field(1, ge=1, lt=NO_LIMIT)
    max_left: int | None = Field(None, ge=1, lt=NO_LIMIT)
    max_right: int | None = Field(None, ge=1, lt=NO_LIMIT)
    min_edges: int = Field(1, ge=1, lt=NO_LIMIT)
    containing_left: tuple[Key, ...] = ()
    containing_right: tuple[Key, ...] = ()

    @field_validator("containing_left", "containing_right", mode="before")
    @classmethod
    def _one_key_is_a_list_of_one(cls, value: Any) -> Any:
        return [value] if isinstance(value, int | str) else value

    @model_validator(mode="after")
    def _maxima_above_minima(self) -> QueryConfig:
        for side in ("left", "right"):
            most, fewest = getattr(self, f"max_{side}"), getattr(self, f"min_{side}")
            if most is not None and most < fewest:
                raise ValueError(
                    f"{setting(f'query.max_{side}')} is {most}, below {setting(f'query.min_{side}')} = {fewest}: no "
                    "biclique can match"
                )
        return self


class ExecutionConfig(Section):
    """Execution: these settings never change the bicliques, only how they are found, and when a run stops."""

    engine: Literal["auto", "cpu", "cuda", "rapids", "reference"] = "auto"
    threads: int = Field(0, ge=0, le=MOST_THREADS)
    memory_budget: int | None = Field(None, ge=1 << 20, lt=NO_LIMIT)
    device_memory: int | None = Field(None, ge=1 << 20, lt=NO_LIMIT)
    block_bytes: int = Field(16 << 20, ge=1 << 10, le=LARGEST_BLOCK)
    max_bicliques: int | None = Field(None, ge=1)
    max_cliques: int | None = Field(None, ge=1)
    max_output_bytes: int | None = Field(None, ge=1, lt=NO_LIMIT)
    time_limit_seconds: float | None = Field(None, gt=0, allow_inf_nan=False)
    on_limit: Literal["publish", "fail"] = "publish"
    grace_seconds: float = Field(10.0, ge=0, allow_inf_nan=False)
    runner: Literal["local", "dask"] = "local"
    cluster: str | None = None
    workers: int | None = Field(None, ge=1, le=MOST_THREADS)
    devices: Literal["all"] | tuple[int, ...] | None = None

    @model_validator(mode="after")
    def _devices_are_of_the_engine_cuda(self) -> ExecutionConfig:
        if self.devices is None:
            return self
        for key, others in (("engine", ("auto", "rapids", "cuda")), ("runner", ("local",))):
            if getattr(self, key) not in others:
                raise ValueError(
                    f"{setting(f'execution.{key}')} is {getattr(self, key)}, and {setting('execution.devices')} is "
                    "for several GPUs of this machine in one process: use "
                    f"{' or '.join(others[1:] or others)}, or leave {setting('execution.devices')} out"
                )
        return self

    @field_validator("devices", mode="before")
    @classmethod
    def _numbers(cls, value: Any) -> Any:
        if value is None or value == "all":
            return value
        numbers = value if isinstance(value, list | tuple) else str(value).split(",")
        if not numbers or not all(str(number).strip().isdecimal() for number in numbers):
            raise ValueError("expected all, or GPU indices such as 0,1")
        return tuple(int(number) for number in numbers)

    @model_validator(mode="after")
    def _a_cluster_is_of_dask_and_has_its_own_workers(self) -> ExecutionConfig:
        for key in ("cluster", "workers"):
            if getattr(self, key) is not None and self.runner != "dask":
                raise ValueError(
                    f"{setting(f'execution.{key}')} needs {setting('execution.runner')} dask, but the runner is "
                    f"{self.runner}: change it, or leave {setting(f'execution.{key}')} out"
                )
        if self.cluster is not None and self.workers is not None:
            raise ValueError(
                f"{setting('execution.workers')} sets the number of local processes, but "
                f"{setting('execution.cluster')} has its own workers: leave one of them out"
            )
        if self.runner == "dask" and self.engine == "rapids":
            raise ValueError(
                f"{setting('execution.engine')} is rapids, which needs all of a run on local devices, but "
                f"{setting('execution.runner')} is dask: use cuda, cpu or auto, or the runner local"
            )
        return self

    @field_validator("memory_budget", "device_memory", "block_bytes", "max_output_bytes", mode="before")
    @classmethod
    def _bytes(cls, value: Any) -> Any:
        return parse_bytes(value) if isinstance(value, str) else value

    @property
    def memory_bytes(self) -> int:
        """Working memory of a search. Reading is only bounded if `memory_budget` is set."""
        return 1 << 30 if self.memory_budget is None else self.memory_budget

    def to_execution(self) -> Execution:
        """Return the part that engines need."""
        return Execution(
            threads=self.threads,
            memory_budget_bytes=self.memory_bytes,
            device_memory_bytes=self.device_memory,
            block_bytes=self.block_bytes,
            max_bicliques=self.max_bicliques,
            max_cliques=self.max_cliques,
            time_limit_seconds=self.time_limit_seconds,
        )


class OutputConfig(Section):
    """The published outputs and their place."""

    directory: str = "out"
    bicliques: bool = True
    members: bool = False
    sort: bool = False
    two_hop_steps: int | None = Field(None, ge=0, lt=NO_LIMIT)
    report: bool = True
    compression: Literal["zstd", "snappy", "lz4", "none"] = "zstd"
    keep_runs: int | None = Field(None, ge=1)
    top: int = Field(20, ge=1, le=1000)
    compare: int = Field(100_000, ge=0, lt=NO_LIMIT)
    checkpoint_seconds: float | None = Field(10.0, gt=0, allow_inf_nan=False)
    keep_unfinished_days: float = Field(7.0, ge=0, allow_inf_nan=False)
    _of_this_machine = field_validator("directory")(place_of)

    @model_validator(mode="after")
    def _nothing_about_a_table_that_is_left_out(self) -> OutputConfig:
        for key in ("members", "sort"):
            if getattr(self, key) and not self.bicliques:
                raise ValueError(
                    f"{setting(f'output.{key}')} needs the table of bicliques, but {setting('output.bicliques')} "
                    "leaves it out: remove one of the two"
                )
        return self


class Config(Section):
    """The configuration of a run.

    Attributes
    ----------
    problem : str
        The problem to solve. `query` is the section of bicliques; the section of another problem has the problem's
        name.
    """

    model_config = ConfigDict(extra="allow")

    problem: str = OURS
    input: InputConfig = InputConfig()
    query: QueryConfig = QueryConfig()
    execution: ExecutionConfig = ExecutionConfig()
    output: OutputConfig = OutputConfig()

    @property
    def problem_section(self) -> Any:
        """The section of the problem: `QueryConfig` for bicliques; defaults if the section was left out."""
        if self.problem == OURS:
            return self.query
        given, owner = self.section(self.problem), owner_of(self.problem)
        # Plain values, from a run that another installation has published.
        return given if given is not None else {} if owner is None else owner.model()

    def section(self, name: str) -> Any:
        """Return the section of a derived output or of another problem than bicliques; None if it was left out."""
        return (self.model_extra or {}).get(name)

    @model_validator(mode="before")
    @classmethod
    def _sections_that_are_not_ours(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        others = {name: value for name, value in values.items() if name not in cls.model_fields}
        problem = values.get("problem", OURS)
        if not others or not isinstance(problem, str) or not is_here(problem):
            return values
        return {**values, **read_sections(problem, others)}

    @field_validator("problem")
    @classmethod
    def _one_that_is_here(cls, name: str) -> str:
        return check_problem(name)

    @model_validator(mode="after")
    def _nothing_that_the_problem_does_not_know(self) -> Config:
        for key, problem in _of_another_limit(self):
            given = f"{setting('problem')} is {self.problem!r}{_instead(self.problem)}"
            raise refusal((*key.split("."),), f"is for the problem {problem}, but {given}; leave it out", self)
        if self.problem == OURS:
            return self
        for key in _only_of_bicliques(self):
            given = f"{setting('problem')} is {self.problem!r}{_instead(self.problem)}"
            raise refusal((*key.split("."),), f"is for the problem {OURS}, but {given}; leave it out", self)
        return self

    @model_validator(mode="after")
    def _bytes_are_of_rows(self) -> Config:
        if self.execution.max_output_bytes is None:
            return self
        place, what = ("execution", "max_output_bytes"), "limits rows that are written during the search, "
        if not self.output.bicliques:
            raise refusal(
                place, f"{what}but {setting('output.bicliques')} leaves them out; remove one of the two", self
            )
        if problem_named(self.problem).limit is None:
            raise refusal(place, f"{what}but {setting('problem')} {self.problem!r} has none; leave it out", self)
        return self

    @model_validator(mode="after")
    def _something_is_published(self) -> Config:
        if not self.output.bicliques and not (self.model_extra or {}).keys() - {self.problem}:
            raise refusal(
                ("output", "bicliques"),
                f"leaves the bicliques out, but nothing else is made of them: request groups ({setting('groups')}) or "
                "another derived output, or only count (--count-only)",
                self,
            )
        return self

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], source: str = "configuration") -> Config:
        """Check nested plain values.

        Raises
        ------
        ConfigError
            An unknown key (with the nearest known name), a value of the wrong kind, or an output where runs are not
            published.
        """
        try:
            config = cls.model_validate(dict(values))
        except ValidationError as error:
            raise ConfigError(_explain(error, source)) from None
        # Not in the model: manifests of runs that were published elsewhere are still read.
        check_output(config.output.directory)
        return config


def _as_published(values: Any, read: ValidatorFunctionWrapHandler) -> Config:
    """Read a published configuration; sections unknown to this installation stay plain values."""
    if not isinstance(values, Mapping):
        return read(values)
    problem, others = values.get("problem", OURS), [name for name in values if name not in Config.model_fields]
    if isinstance(problem, str) and not is_here(problem):
        foreign = {"problem": problem, **{name: values[name] for name in others}}
    else:
        foreign = {name: values[name] for name in others if owner_of(name) is None}
    ours = {name: value for name, value in values.items() if name not in foreign}
    for name in others:
        if name in ours and isinstance(ours[name], Mapping) and (owner := owner_of(name)) is not None:
            # For keys that are newer than the run, use the value that describes the old behaviour.
            ours[name] = {**getattr(owner.model, "BEFORE", {}), **ours[name]}
    output = ours.get("output")
    if foreign and isinstance(output, Mapping) and output.get("bicliques") is False:
        # The other installation made an output from the bicliques that is unknown here.
        foreign["output"] = OutputConfig.model_validate(output)
        del ours["output"]
    config: Config = read(ours)
    return config.model_copy(update=foreign)


PublishedConfig = Annotated[Config, WrapValidator(_as_published)]
"""A configuration in a manifest: its problem and derived outputs need not be installed here."""


def load_config(
    path: str | Path | None,
    overrides: Iterable[str] = (),
    complete: Callable[[dict[str, Any]], object] = lambda _: None,
) -> Config:
    """Read a YAML configuration; each override is ``section.key=value`` with a YAML value.

    Without a path every key has its default before the overrides. A relative `input.path` or `output.directory` in the
    file is relative to the working directory, as on the command line.

    Parameters
    ----------
    path : path, optional
    overrides : iterable of str
    complete : callable
        Takes the sections of the file and the overrides before they are checked, and may add to them.

    Raises
    ------
    ConfigError
        The file cannot be read or parsed, or holds an unknown key or a wrong value.
    """
    # YAML takes a while to load, and a manifest has a configuration without it.
    from mbe_stage.pipeline.config.strict_yaml import read_yaml

    values = {} if path is None else read_yaml(Path(path))
    for override in overrides:
        apply_override(values, override)
    complete(values)
    return Config.from_mapping(values, "configuration" if path is None else str(path))


def apply_override(values: dict[str, Any], override: str) -> None:
    """Set one key of plain values; the override is ``section.key=value``, or ``problem=value``."""
    from mbe_stage.pipeline.config.strict_yaml import parse_yaml

    name, equals, text = override.partition("=")
    section, dot, key = name.strip().partition(".")
    if not equals or bool(dot) != bool(key) or not (dot or section == "problem"):
        raise ConfigError(f"--set {_quoted(override)}: expected section.key=value, for example --set query.min_left=3")
    value = parse_yaml(text, f"--set {_quoted(override)}")
    if not dot:
        values[section] = value
        return
    branch = values.setdefault(section, {})
    if branch is None:
        branch = values[section] = {}
    if not isinstance(branch, dict):
        raise ConfigError(f"--set {override!r}: {section!r} is not a section; expected one of {', '.join(_sections())}")
    branch[key] = value


def _quoted(value: Any) -> str:
    """Return a value for a message, shortened for any length or depth."""
    quoting = reprlib.Repr()
    quoting.maxstring = quoting.maxother = 80
    return quoting.repr(value)


def _sections() -> list[str]:
    ours = [name for name, field in Config.model_fields.items() if is_section(field.annotation)]
    return [*ours, *section_names()]


def _only_of_bicliques(config: Config) -> Iterator[str]:
    """Yield the keys that are set but only apply to bicliques."""
    yield from (f"query.{key}" for key in config.query.model_dump(exclude_defaults=True))
    if config.output.members:
        yield "output.members"
    if not config.output.bicliques:
        yield "output.bicliques"


def _of_another_limit(config: Config) -> Iterator[tuple[str, str]]:
    """Yield limits on the number of another problem's results that are set, and the problem's name."""
    for limit in _LIMITS:
        if getattr(config.execution, limit) is not None and problem_named(config.problem).limit != limit:
            # The name contains the limited results.
            yield f"execution.{limit}", limit.removeprefix("max_")


def _instead(problem: str) -> str:
    """Return a problem's replacement for a setting of bicliques, if it names one."""
    instead = problem_facts(problem).instead
    return f", where {instead}" if instead else ""


def _model_at(location: Sequence[str]) -> type[BaseModel]:
    """Return the innermost model on the path of a location."""
    model: type[BaseModel] = Config
    for part in location:
        field = model.model_fields.get(part)
        if field is not None and is_section(field.annotation):
            model = cast(type[BaseModel], field.annotation)
        elif model is Config and field is None and (owner := owner_of(part)) is not None:
            model = owner.model
        else:
            break
    return model


def _explain(error: ValidationError, source: str) -> str:
    first = error.errors()[0]
    location = [str(part) for part in first["loc"]]
    # After the key come positions in a list, and the members of a union.
    where = f"{source}: {setting('.'.join(location[:2]))}" if location else source
    if first["type"] == "extra_forbidden":
        model = _model_at(location[:-1])
        names = [*model.model_fields, *(section_names() if model is Config else ())]
        remedy = did_you_mean(location[-1], names).rstrip() or f"known keys: {', '.join(names)}"
        return f"{where}: unknown key; {remedy}"
    message = message_of(first, _model_at(location[:-1]).model_fields.get(location[-1]) if location else None)
    if location[-1:] in (["int"], ["str"]):
        message = "expected a whole number or text; quote any other value"
    given = "" if isinstance(first["input"], dict | BaseModel) else f" is {_quoted(first['input'])}"
    return f"{where}{given}: {message}"
