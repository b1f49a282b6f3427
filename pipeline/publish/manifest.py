"""`manifest.json`: the query of a run, its input, results, comparison and files, with a checksum per file."""

from __future__ import annotations

import errno
import hashlib
import json
import platform
import resource
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    StrictInt,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from mbe_stage.options import Execution
from mbe_stage.pipeline.clean.facts import InputFacts
from mbe_stage.pipeline.config.model import Config, PublishedConfig
from mbe_stage.pipeline.config.plugin_sections import OURS, is_here
from mbe_stage.pipeline.config.registry import OutputFacts, derived_facts, problem_facts
from mbe_stage.pipeline.config.section import message_of
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.execution.worker_stats import WorkerStats
from mbe_stage.pipeline.package_files import version_of
from mbe_stage.pipeline.problems.derived_inputs import DerivedInput
from mbe_stage.pipeline.problems.searched_graph import SearchedGraph, graph_of_input
from mbe_stage.pipeline.publish.run_files import MANIFEST_NAME, PLAIN_VERSION, SCHEMA_VERSION, sizes_of
from mbe_stage.pipeline.safe_paths import is_path_within, odd_entry

_PACKAGES = ("mbe-stage", "numba", "numpy", "pyarrow")
_PLAIN_COUNTS = TypeAdapter(dict[str, StrictInt], config=ConfigDict(defer_build=True))


def __getattr__(name: str) -> Any:
    # This module knows no problem; earlier versions had the counts of bicliques here.
    if name == "Counts":
        return problem_facts(OURS).counts
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ComparedGroup(_Frozen):
    """A large biclique that only one of the two runs has; lists hold the first few keys, as text.

    Attributes
    ----------
    status : str
        See `mbe_stage.pipeline.views.diff.Status`.
    left, right, came, went : tuple of str
        Members, those that its partner lacked, and those that only its partner had.
    jaccard : float or None
        Jaccard index with the partner; None without one.
    """

    status: str
    biclique_key: int
    n_left: int
    n_right: int
    left: tuple[str, ...]
    right: tuple[str, ...]
    came: tuple[str, ...] = ()
    went: tuple[str, ...] = ()
    jaccard: float | None = None


class Comparison(_Frozen):
    """Comparison of a run with the last complete run of the same query.

    Attributes
    ----------
    run_id : str or None
        The earlier run; None without one.
    remarks : tuple of str
        Remarks, one sentence each.
    counts : dict
        Bicliques by status; empty if the runs were not compared.
    """

    run_id: str | None
    remarks: tuple[str, ...] = ()
    counts: dict[str, int] = {}
    n_same: int | None = None
    largest: tuple[ComparedGroup, ...] = ()


def _within(name: str) -> str:
    if not is_path_within(name):
        raise ValueError(f"is {name[:80]!r}; expected a relative path that stays within its directory")
    return name


def _within_beside(name: str | None) -> str | None:
    if name is not None and "/" in _within(name):
        raise ValueError(f"is {name[:80]!r}; expected the name of a run")
    return name


PathWithin = Annotated[str, AfterValidator(_within)]


"""A field of a model read from an untrusted file."""


class FileEntry(_Frozen):
    """A published file; `path` is relative to the run directory, `rows` is None unless it is a table."""

    path: PathWithin
    bytes: int
    sha256: str
    rows: int | None = None


class Manifest(_Frozen):
    """The contents of `manifest.json`.

    Attributes
    ----------
    seconds : dict
        Wall time of each step, and ``total``, their sum. ``write`` and ``two_hop`` are the times spent waiting for the
        files and the two-hop degrees; the rest of that work ran beside the enumeration.
    peak_memory_bytes : int
        Largest resident set of the process up to the manifest.
    peak_device_memory_bytes : int or None
        Peak of allocated device memory; None if no device was used, or its memory was not tracked.
    ranks : WorkerStats or None
        Share of each worker or device in the search; None if this process did all of it.
    counts : Publication.counts, or dict
        Counts of results; whole numbers by name if the problem has no model, or is not installed here.
    derived : dict of dict
        Counts of each derived output, by its name.
    derived_inputs : dict of dict
        The additional input files of derived outputs, by output and key of its section.
    derived_comparison : dict of Comparison
        Comparison of derived outputs with the earlier run, by output.
    truncated : str or None
        Why the result is incomplete; None when it is complete.
    made_of : str or None
        The run whose published bicliques were read back instead of enumerating (`mbe groups RUN`).
    comparison : Comparison or None
        Comparison with the last complete run of the same query; None if `output.compare` is 0.
    warnings : tuple of str
        Warnings of the input (`InputFacts.warnings`) and of the enumeration.
    """

    schema_version: int
    run_id: str
    created_at: str
    config: PublishedConfig
    config_fingerprint: str
    input: InputFacts
    content_fingerprint: str
    versions: dict[str, str]
    engine: str
    device: str
    counts: Any
    derived: dict[str, dict[str, StrictInt]] = {}
    derived_inputs: dict[str, dict[str, DerivedInput]] = {}
    derived_comparison: dict[str, Comparison] = {}
    seconds: dict[str, float]
    peak_memory_bytes: int
    peak_device_memory_bytes: int | None
    ranks: WorkerStats | None = None
    truncated: str | None
    made_of: Annotated[str | None, AfterValidator(_within_beside)] = None
    comparison: Comparison | None = None
    warnings: tuple[str, ...] = ()
    files: tuple[FileEntry, ...]

    @property
    def problem(self) -> str:
        """The problem of the results."""
        return self.config.problem

    @property
    def n_found(self) -> int:
        """The number of results.

        Raises
        ------
        InvalidArgument
            The problem is not installed here.
        """
        return self._count(problem_facts(self.problem).counted)

    @property
    def graph(self) -> SearchedGraph:
        """The searched graph; if the problem is not installed here, that of the input."""
        made = problem_facts(self.problem).made_of_input(self.config) if is_here(self.problem) else None
        if made is None:
            return graph_of_input(self.input)
        return SearchedGraph(self._count("vertices"), self._count("edges"), made)

    def _count(self, name: str) -> int:
        return self.counts[name] if isinstance(self.counts, Mapping) else getattr(self.counts, name)

    @field_validator("counts", mode="plain")
    @classmethod
    def _as_the_problem_counts(cls, value: Any, info: ValidationInfo) -> Any:
        config = info.data.get("config")
        problem = None if config is None or not is_here(config.problem) else config.problem
        facts = None if problem is None else problem_facts(problem)
        model = None if facts is None else facts.counts
        try:
            counts = _PLAIN_COUNTS.validate_python(value) if model is None else model.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ValueError(f"{where}: {message_of(first)}" if where else message_of(first)) from None
        if facts is not None and isinstance(counts, dict) and facts.counted not in counts:
            raise ValueError(f"holds {', '.join(counts) or 'nothing'}; expected {facts.counted} among them")
        return counts


def config_fingerprint(config: Config) -> str:
    """Return the fingerprint of a configuration's query (`question`)."""
    return hashlib.sha256(json.dumps(question(config), sort_keys=True).encode()).hexdigest()


def question(config: Config) -> dict[str, Any]:
    """Return the settings that determine the output; equal settings and edges give equal output.

    Included: the sections of the problem and of derived outputs; limits of results, time and bytes; the key type. From
    the output: sorting, `bicliques/`, `members/`, the report and the length of its tables, and the limit of two-hop
    steps; whether there is a column of graphs. Not included: the source and filters of the edges (covered by the input
    fingerprint), the files of derived outputs (covered by `derived_inputs`), the output directory, `keep_runs`,
    compression, engine, threads and memory. None of these changes the results.
    """
    # Without other sections, no other package is imported.
    outputs = derived_facts(config.problem) if config.model_extra else ()
    derived = [each for each in outputs if config.section(each.name) is not None]
    settings: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION if derived else PLAIN_VERSION,
        "key_type": config.input.key_type,
        problem_facts(config.problem).section_name: config.problem_section.model_dump(mode="json"),
        "execution": config.execution.model_dump(mode="json", include={"max_bicliques", "time_limit_seconds"}),
        "output": config.output.model_dump(mode="json", include={"members", "sort", "two_hop_steps", "report", "top"}),
    }
    if settings["output"]["two_hop_steps"] is None:
        # The default of earlier versions: runs with either default have one fingerprint.
        settings["output"]["two_hop_steps"] = 2_000_000_000
    if config.execution.max_cliques is not None:
        # Runs without it keep the fingerprint of earlier versions.
        settings["execution"]["max_cliques"] = config.execution.max_cliques
    if config.execution.max_output_bytes is not None:
        settings["execution"]["max_output_bytes"] = config.execution.max_output_bytes
    if not config.output.bicliques:
        # Runs with the table keep the fingerprint of earlier versions, which always had it.
        settings["output"]["bicliques"] = False
    if config.input.by is not None:
        # The table has another column.
        settings["output"]["graph"] = True
    if derived:
        settings["derived"] = {each.name: _asked(config.section(each.name), each) for each in derived}
    return settings


def _asked(section: BaseModel, output: OutputFacts) -> dict[str, Any]:
    """Return the settings of an output, without newer settings whose value describes the old behaviour."""
    before = getattr(output.section, "BEFORE", {}).items()
    values = section.model_dump(mode="json", exclude=set(output.input_keys))
    return {key: value for key, value in values.items() if (key, value) not in before}


def software_versions() -> dict[str, str]:
    """Return the versions of Python, this package and the packages that may affect the result or its bytes."""
    return {"python": platform.python_version(), **{name: version_of(name) for name in _PACKAGES}}


def peak_memory_bytes() -> int:
    """Return the largest resident set of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # macOS counts in bytes, other systems in KiB.
    return peak if sys.platform == "darwin" else peak * 1024


def sha256_of(path: Path) -> str:
    """Return the checksum of a file for a manifest."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_entry(run_path: Path, path: Path) -> FileEntry:
    """Return size, checksum and rows of one file of a run."""
    # Reading a manifest does not need Arrow.
    import pyarrow.parquet as pq

    digest = sha256_of(path)
    rows = pq.read_metadata(path).num_rows if path.suffix == ".parquet" else None
    return FileEntry(path=path.relative_to(run_path).as_posix(), bytes=path.stat().st_size, sha256=digest, rows=rows)


def file_entries(run_path: Path, known: Iterable[FileEntry] = ()) -> tuple[FileEntry, ...]:
    """Return entries of every file of a run except its manifest, by path.

    Parameters
    ----------
    known : iterable of FileEntry
        Known entries of complete files, which are not read again.
    """
    paths = sorted(path for path in run_path.rglob("*") if path.is_file() and path.name != MANIFEST_NAME)
    entries = {run_path / entry.path: entry for entry in known}
    # Hashing releases the GIL and is slower than memory: a gigabyte takes up to three seconds.
    with ThreadPoolExecutor(Execution().worker_count) as pool:
        return tuple(pool.map(lambda path: entries.get(path) or file_entry(run_path, path), paths))


def lost_file(run_dir: Path, manifest: Manifest, size_of: Callable[[str], int | None] | None = None) -> str | None:
    """Return the first file of a run that is missing, a link, or of another size than in the manifest.

    Parameters
    ----------
    size_of : callable, optional
        `Store.sizes` of the run, if some files may not be on this machine.
    """
    # For a run at an address, only fetched files are here, and they were checked.
    if run_dir.exists() and (odd := odd_entry(run_dir)) is not None:
        return odd
    size_of = size_of or sizes_of(run_dir)
    for entry in manifest.files:
        size = size_of(entry.path)
        if size is None:
            return f"{entry.path} is missing"
        if size != entry.bytes:
            return f"{entry.path} has {size} bytes, not {entry.bytes}"
    return None


def write_manifest(run_path: Path, manifest: Manifest) -> None:
    """Write `manifest.json`, the last file of a run."""
    (run_path / MANIFEST_NAME).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")


def read_manifest(run_dir: str | Path) -> Manifest:
    """Read the manifest of a run directory.

    Raises
    ------
    PublishError
        There is none, it has another schema version, or it is damaged.
    """
    path = Path(run_dir) / MANIFEST_NAME
    try:
        if path.exists() and not path.is_file():
            # A pipe would block the reader forever.
            raise OSError(errno.EINVAL, "no regular file")
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PublishError(f"{path}: cannot be read ({error.strerror}); expected a published run directory") from None
    except (ValueError, RecursionError):
        raise PublishError(f"{path}: is not JSON; expected a manifest; the run is damaged: publish it again") from None
    found = values.get("schema_version") if isinstance(values, dict) else None
    if found not in (PLAIN_VERSION, SCHEMA_VERSION):
        raise PublishError(
            f"{path}: schema version {found!r}; expected {PLAIN_VERSION} or {SCHEMA_VERSION}; "
            "read it with the version of mbe-stage that wrote it, or publish the run again"
        )
    try:
        return Manifest.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PublishError(f"{path}: {where}: {message_of(first)}; the run is damaged: publish it again") from None
