"""The interface of a backend, used by steps, cleaning and outputs; `backends.arrow` and `backends.cudf` implement it.

A column has the backend's own type (`pa.Array`, `cudf.Series`), an array is NumPy's or CuPy's. The two have the same
functions, so `Backend.xp` is enough for masks, positions and ids.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, Self, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

    from mbe_stage.graphs.bipartite import BipartiteCSR
    from mbe_stage.options import Execution
    from mbe_stage.pipeline.clean.events import Events
    from mbe_stage.pipeline.clean.facts import InputColumn, InputFacts
    from mbe_stage.pipeline.config.model import InputConfig
    from mbe_stage.pipeline.errors import InputError

KeyType = Literal["auto", "integer", "string"]
KeyOrigin = Literal["typed", "inferred", "integers"]
"""Kind of a key column: with its own type, text that may be integers, or text of integers."""

A_VALUE = "a value in every row"
"""The expectation in a `Refusal` of nulls."""

Ids = TypeVar("Ids")
Keys = TypeVar("Keys")
_OF_KEYS = ("left", "right", "by")


def is_key(role: str) -> bool:
    """Return whether the column of a role is a key, or a part of one."""
    return role.partition(" ")[0] in _OF_KEYS


def key_roles(side: str, n_columns: int) -> tuple[str, ...]:
    """Return the roles of the key columns of a side: ``right``, or ``right 0``, ``right 1`` for several columns."""
    return (side,) if n_columns == 1 else tuple(f"{side} {i}" for i in range(n_columns))


FrameWriter = Callable[[Any, Path, "pa.Schema"], None]
"""Writes a frame with this schema as one file."""


class HostNeeded(Exception):
    """The backend cannot handle this input; the host then refuses or cleans it.

    So a single set of rules and messages covers all unusual cases. The text is the reason, for the log.
    """


class Refusal(Protocol):
    """Makes the error about one row of a column or, for row None, about the whole column."""

    def __call__(self, row: int | None, /, *, found: str, expected: str, remedy: str) -> InputError | HostNeeded:
        """Return the error."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A column in the form that the cleaning rules need.

    Attributes
    ----------
    values
        Keys: a column of int64 or text, or what the backend takes for one. Weights and times: an array of numbers.
    present : (n,) bool or None
        False for nulls, NaNs and empty text, where `values` is undefined; None if every row has a value.
    moments : bool
        True if the numbers are microseconds since 1970.
    """

    values: Any
    present: Any
    moments: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows as read, with nothing dropped or converted; backends add the columns.

    Attributes
    ----------
    source, format, warnings, dialect, n_columns
        See `InputFacts`.
    reader : str or None
        The reader of the rows, for the log, unless it is the format's own.
    keys : {"typed", "inferred", "integers"}
        The type of keys: that of the columns; text in which integers are recognised; or text of a format whose ids are
        integers by definition.
    input_columns : tuple of InputColumn
        See `InputFacts.columns`.
    n_lone : int
        Number of last rows that are isolated vertices instead of edges; filters do not apply to them.
    """

    source: str
    format: str
    reader: str | None = None
    keys: KeyOrigin = "typed"
    warnings: tuple[str, ...] = ()
    input_columns: tuple[InputColumn, ...] = ()
    n_lone: int = 0
    dialect: str = ""
    n_columns: int | None = None

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    @abstractmethod
    def roles(self) -> Sequence[str]:
        """Roles of the columns: those of `key_roles`; ``weight`` and ``timestamp`` if a filter needs them."""

    @abstractmethod
    def with_roles(self, roles: Sequence[str]) -> Self:
        """Return the same rows with these columns alone."""

    @abstractmethod
    def refusal(
        self, row: int | None, role: str | None, *, found: str, expected: str, remedy: str
    ) -> InputError | HostNeeded:
        """Return an error about one row or, without a row, about a whole column or, without a role, about all rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Edges(Generic[Ids, Keys]):
    """Clean edges; see `pipeline.backends.arrow.edges.EdgeData` for the attributes."""

    left_ids: Ids
    right_ids: Ids
    left_keys: Keys
    right_keys: Keys
    facts: InputFacts
    hashes: tuple[Ids, Ids] | None = None
    events: Events | None = None
    half_later: Self | None = None
    degrees: tuple[Ids, Ids] | None = None

    @abstractmethod
    def graph(self) -> Any:
        """Return the edges in CSR form: a `BipartiteCSR` or, with `InputFacts.undirected`, an `UndirectedCSR`."""

    @abstractmethod
    def to_host(self) -> Any:
        """Return the same edges as `EdgeData`, without a copy if they are in host memory."""

    def key_hashes(self) -> tuple[Ids, Ids]:
        """Return the vertex hash of each left and of each right key, ``(n,) uint64``."""
        return self.hashes or (self.hashed(self.left_keys, "left"), self.hashed(self.right_keys, "right"))

    @staticmethod
    @abstractmethod
    def hashed(keys: Any, side: str) -> Any:
        """Return the vertex hash of each key of a side."""

    @abstractmethod
    def vertex_of(self, text: str, side: str) -> int | None:
        """Return the dense id of the key with this text; None if there is no such key."""

    @abstractmethod
    def key_of(self, vertex: int, side: str) -> int | str:
        """Return the key of a dense id."""

    def _keys_of(self, side: str) -> Keys:
        return self.left_keys if side == "left" else self.right_keys


@dataclass(frozen=True, slots=True, eq=False)
class GraphFacts:
    """Facts about a graph's vertices.

    Attributes
    ----------
    left_degrees, right_degrees : (n,) int64
    left_two_hop, right_two_hop : (n,) int64 or None
        For each vertex, the number of others on its side with a common neighbour; None if that takes too many steps.
    methods : dict of str to str
        The method used for ``degrees``, ``left_two_hop`` and ``right_two_hop``, if there is a choice.
    """

    left_degrees: Any
    right_degrees: Any
    left_two_hop: Any
    right_two_hop: Any
    methods: dict[str, str]


class Backend(Protocol):
    """A place for tables, with the operations on them.

    Cleaning methods raise an `InputError` for values that cannot be keys, weights or times, and `HostNeeded` for values
    that this backend cannot handle.
    """

    @property
    def name(self) -> str:
        """The folder below `pipeline.backends`."""

    @property
    def xp(self) -> Any:
        """The module of its array functions: `numpy` or `cupy`."""

    @property
    def is_on_device(self) -> bool:
        """True if its arrays are in device memory, and engines should leave blocks there."""

    @property
    def edges(self) -> type[Edges[Any, Any]]:
        """The class of its clean edges."""

    # Reading

    def readers(self, config: InputConfig, source: object | None) -> tuple[Callable[[], Rows], Callable[[], Rows]]:
        """Return two ways to the rows of a source: this backend's own, which may raise `HostNeeded`, and the host's.

        This and the two functions raise `InputError` as `pipeline.io.read_edges` does.
        """

    # Cleaning

    def column(self, rows: Any, role: str, key_type: KeyType) -> Column:
        """Return a column in the form that the cleaning rules need."""

    def further(self, rows: Any, role: str) -> pa.Array:
        """Return a further column as it was read (`pipeline.io.further`), in host memory."""

    def taken(self, values: Any, positions: Any) -> Any:
        """Return the values of a column or an array at some positions."""

    def on_host(self, values: Any) -> Any:
        """Return an array as NumPy's; copied only from device memory."""

    def at_least(self, values: Any, bound: int | float) -> Any:
        """Return a mask of numbers that are at least the bound."""

    def below(self, values: Any, bound: int | float) -> Any:
        """Return a mask of numbers below the bound."""

    def largest(self, values: Any) -> float:
        """Return the largest magnitude; 0 without numbers."""

    def factorised(self, keys: Any) -> tuple[Any, Any]:
        """Return a number for each key, and the distinct keys at these numbers, in any order."""

    def joined(self, first: Any, second: Any) -> Any:
        """Concatenate two columns of keys; if one is text, both become text."""

    def is_text(self, keys: Any) -> bool:
        """Return whether a column of keys is text rather than integers."""

    def as_utf8(self, texts: Any, refuse: Refusal) -> None:
        """Refuse distinct keys that are not UTF-8 text."""

    def as_integers(self, texts: Any, must: bool, refuse: Refusal) -> Any:
        """Convert distinct texts to integers; None if one is not in canonical form, unless all `must` be integers."""

    def ranked(self, codes: Any, distinct: Any) -> tuple[Any, Any]:
        """Sort the result of `factorised`: ids, ``(n,) int32``, and ascending keys."""

    def ordered(self, distinct: Any) -> tuple[Any, Any]:
        """Sort distinct keys: the rank of each, ``(n,) int32``, and ascending keys."""

    def merged(self, codes: Any, integers: Any) -> tuple[Any, Any]:
        """Sort the result of `as_integers`, where different texts may be one integer ("007" and "7")."""

    def renumbered(self, codes: Any) -> tuple[Any, Any]:
        """Return the rank of each integer, ``(n,) int32``, and the distinct integers, an ascending array."""

    def distinct_pairs(self, first: Any, second: Any, n_first: int, n_second: int) -> tuple[Any, Any]:
        """Return each pair of ids once, sorted by the first id and then the second: ``(n,) int32`` each.

        Ids run from 0 to `n_first` and `n_second`.
        """

    def text_column(self, texts: Sequence[str]) -> Any:
        """Return a column of these texts."""

    def as_json(self, keys: Any) -> Any:
        """Return each key as JSON text: integers unchanged, text in quotes."""

    def json_arrays(self, columns: Sequence[Any]) -> Any:
        """Join each row of JSON columns to a JSON array without blanks, as text: ``["a",5]``."""

    def made_in_parts(self, texts_of: Callable[[Any], Any], n: int) -> Any:
        """Make `n` texts part by part; `texts_of` makes the texts of a range of positions."""

    def key_hashes(self, keys: Any, side: str) -> Any:
        """Return the vertex hash of each key, ``(n,) uint64``."""

    def edge_fingerprint(self, left_ids: Any, right_ids: Any, left_hashes: Any, right_hashes: Any) -> str:
        """Compute `mbe_stage.bicliques.keys.edge_fingerprint`."""

    def from_host(self, edges: Any) -> Edges[Any, Any]:
        """Convert edges that the host has cleaned to this backend's own."""

    # A run

    def graph_facts(
        self, graph: BipartiteCSR, most_steps: int, execution: Execution
    ) -> AbstractContextManager[Callable[[], GraphFacts]]:
        """Start counting degrees and two-hop degrees; the context gives a function that waits for them.

        A side that takes more than `most_steps` gets no two-hop degrees; with 0 neither does.
        """

    def budget(self, execution: Execution, shares: Any = None) -> AbstractContextManager[Execution]:
        """Return the engine's share besides a collector's `shares`; None means that the collector needs nothing.

        If the engine refuses its share within the context, `MemoryBudgetExceeded` names a sufficient limit.
        """

    def write_tables(self, tables: Mapping[Path, tuple[Any, pa.Schema]], write_file: FrameWriter) -> None:
        """Write each frame as a file."""

    def engine_name(self, engine: str) -> str:
        """Return the manifest's name for the engine that ran."""

    def peak_device_memory_bytes(self) -> int | None:
        """Return the most device memory allocated at once so far; None if it is not tracked."""

    def versions(self) -> dict[str, str]:
        """Return the versions of software that only this backend uses."""
