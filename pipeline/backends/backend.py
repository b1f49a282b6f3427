"""What the steps, the cleaning and the outputs ask of a backend; `backends.arrow` and `backends.cudf` answer.

A column is the backend's own kind (`pa.Array`, `cudf.Series`), an array is NumPy's or CuPy's: the two have the same
functions, so that whoever has `Backend.xp` needs no other primitive for masks, positions and ids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from mbe_stage.graphs.bipartite import BipartiteCSR
    from mbe_stage.options import Execution
    from mbe_stage.pipeline.backends.arrow.edges import EdgeData
    from mbe_stage.pipeline.clean.events import Events
    from mbe_stage.pipeline.clean.facts import InputColumn, InputFacts
    from mbe_stage.pipeline.config.model import InputConfig
    from mbe_stage.pipeline.errors import InputError

__all__ = [
    "A_VALUE",
    "Backend",
    "Column",
    "Edges",
    "FrameWriter",
    "GraphFacts",
    "HostNeeded",
    "KeyOrigin",
    "KeyType",
    "Refusal",
    "Rows",
    "is_key",
    "key_roles",
]

KeyType = Literal["auto", "integer", "string"]
KeyOrigin = Literal["typed", "inferred", "integers"]
"""Whether columns carry their own type, or are text of which integers are recognised, or text of integers."""

A_VALUE = "a value in every row"
"""What a `Refusal` of nulls says it expected."""

_SIDES = ("left", "right")


def is_key(role: str) -> bool:
    """Whether the column of a role is a key, or a part of one."""
    return role.partition(" ")[0] in _SIDES


def key_roles(side: str, n_columns: int) -> tuple[str, ...]:
    """The roles of the columns that make the keys of a side: ``right``; of several columns ``right 0``, ``right 1``."""
    return (side,) if n_columns == 1 else tuple(f"{side} {i}" for i in range(n_columns))


FrameWriter = Callable[[Any, Path, "pa.Schema"], None]
"""Writes a frame of a schema as one file."""


class HostNeeded(Exception):
    """The backend does not take this input as it is: the host's judges it, and refuses or cleans it.

    So one set of rules and messages decides about everything unusual. The text is the reason, for the log.
    """


class Refusal(Protocol):
    """Makes the error about one row of a column, or, for row None, about the whole column."""

    def __call__(self, row: int | None, /, *, found: str, expected: str, remedy: str) -> InputError | HostNeeded:
        """The error."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A column as the rules want it.

    Attributes
    ----------
    values
        Keys: a column of int64 or text. Weights and times: an array of numbers.
    present : (n,) bool or None
        False for nulls, NaNs and empty text, where `values` is undefined; None where every row has a value.
    moments : bool
        Whether the numbers are microseconds since 1970.
    """

    values: Any
    present: Any
    moments: bool = False


class Rows(Protocol):
    """Rows as read, nothing dropped, nothing converted."""

    @property
    def n_rows(self) -> int:
        """How many."""

    @property
    def roles(self) -> Sequence[str]:
        """Columns that there are: those of `key_roles`; ``weight`` and ``timestamp`` where a filter needs them."""

    @property
    def source(self) -> str:
        """As in `InputFacts`."""

    @property
    def format(self) -> str:
        """As in `InputFacts`."""

    @property
    def reader(self) -> str | None:
        """What read the rows, for the log, where that is not the format's own reader."""

    @property
    def keys(self) -> KeyOrigin:
        """What is known of the keys' type."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """As in `InputFacts`."""

    @property
    def input_columns(self) -> tuple[InputColumn, ...]:
        """`InputFacts.columns`."""

    @property
    def dialect(self) -> str:
        """As in `InputFacts`."""

    @property
    def n_columns(self) -> int | None:
        """As in `InputFacts`."""

    @property
    def n_lone(self) -> int:
        """How many rows at the end are no edges, but stand for vertices without one; no filter applies to them."""

    def called(self, source: str) -> Rows:
        """The same, of a source that goes by another name."""

    def refusal(self, row: int | None, role: str, *, found: str, expected: str, remedy: str) -> InputError | HostNeeded:
        """An error about one row, or, with `row=None`, about a whole column."""

    def none_left(self, *, found: str, expected: str, remedy: str) -> InputError | HostNeeded:
        """An error about all of the rows."""


class Edges(Protocol):
    """Distinct edges between dense ids, and the keys that the ids stand for.

    `left_ids` and `right_ids` are ``(n_edges,) int32``, ordered by left id and then right id; `left_keys` and
    `right_keys` are columns of int64 or text: position is the dense id, ascending (integers by value, text by its UTF-8
    bytes), distinct, and each in at least one edge. Of an undirected graph both sides have the same keys, an edge has
    the smaller id on the left, and a vertex without an edge is joined to itself.
    """

    @property
    def left_ids(self) -> Any:
        """As above."""

    @property
    def right_ids(self) -> Any:
        """As above."""

    @property
    def left_keys(self) -> Any:
        """As above."""

    @property
    def right_keys(self) -> Any:
        """As above."""

    @property
    def facts(self) -> InputFacts:
        """What was read."""

    @property
    def events(self) -> Events | None:
        """Weights and times of the rows behind them, where they are kept."""

    @property
    def half_later(self) -> Edges | None:
        """The edges of the same rows where buckets of time begin half a bucket later, for outputs that ask for events.

        The left vertices are the same; None without buckets.
        """

    def graph(self) -> Any:
        """The edges in CSR form: a `BipartiteCSR`, or an `UndirectedCSR` where `InputFacts.undirected` is there."""

    def to_host(self) -> EdgeData:
        """The same edges in host memory: themselves where they are there."""

    def key_hashes(self) -> tuple[Any, Any]:
        """The vertex hash of each left and of each right key, ``(n,) uint64``."""

    def vertex_of(self, text: str, side: str) -> int | None:
        """The dense id of the key that is written so; None where no key is."""

    def key_of(self, vertex: int, side: str) -> int | str:
        """The key of a dense id."""


@dataclass(frozen=True, slots=True, eq=False)
class GraphFacts:
    """What is known of a graph's vertices.

    Attributes
    ----------
    left_degrees, right_degrees : (n,) int64
    left_two_hop, right_two_hop : (n,) int64 or None
        For each vertex, how many others of its side it shares a neighbour with; None where that takes too many steps.
    methods : dict of str to str
        What worked out ``degrees``, ``left_two_hop`` and ``right_two_hop``, where there is a choice.
    """

    left_degrees: Any
    right_degrees: Any
    left_two_hop: Any
    right_two_hop: Any
    methods: dict[str, str]


class Backend(Protocol):
    """Where tables live, and what is done to them there."""

    @property
    def name(self) -> str:
        """The folder below `pipeline.backends`."""

    @property
    def xp(self) -> Any:
        """The module of its arrays' functions: `numpy` or `cupy`."""

    @property
    def is_on_device(self) -> bool:
        """Whether its arrays are in device memory, and engines are to leave blocks there."""

    # Reading

    def readers(self, config: InputConfig, source: object | None) -> tuple[Callable[[], Rows], Callable[[], Rows]]:
        """Two ways to the rows of a source: this backend's own, which may raise `HostNeeded`, and the host's.

        Raises
        ------
        InputError
            As `pipeline.io.read_edges`; the two functions raise it as well.
        """

    # Cleaning

    def column(self, rows: Any, role: str, key_type: KeyType) -> Column:
        """A column as the rules want it.

        Raises
        ------
        InputError, HostNeeded
            Values that cannot be keys, weights or times.
        """

    def taken(self, values: Any, positions: Any) -> Any:
        """The values of a column or of an array at some positions."""

    def on_host(self, values: Any) -> Any:
        """An array as NumPy's; copied only where it is in device memory."""

    def at_least(self, values: Any, bound: int | float) -> Any:
        """Which numbers are at least the bound."""

    def below(self, values: Any, bound: int | float) -> Any:
        """Which numbers are below the bound."""

    def largest(self, values: Any) -> float:
        """The largest magnitude; 0 of no numbers."""

    def factorised(self, keys: Any) -> tuple[Any, Any]:
        """A number for each key, and the distinct keys, of which position is the number; in an order of its own."""

    def joined(self, first: Any, second: Any) -> Any:
        """One column of keys behind the other; where one is text, both are.

        Raises
        ------
        HostNeeded
            The backend does not join columns of these types.
        """

    def is_text(self, keys: Any) -> bool:
        """Whether a column of keys is text; else it is of integers."""

    def as_utf8(self, texts: Any, refuse: Refusal) -> None:
        """Refuse distinct keys that are not UTF-8 text."""

    def as_integers(self, texts: Any, must: bool, refuse: Refusal) -> Any:
        """Distinct texts as integers; None where one is not written as an integer would be, unless all `must` be.

        Raises
        ------
        InputError, HostNeeded
            Integers beyond int64; or one that must be an integer and is none. `refuse` takes positions.
        """

    def ranked(self, codes: Any, distinct: Any) -> tuple[Any, Any]:
        """What `factorised` gave, in ascending order: ids, ``(n,) int32``, and keys."""

    def merged(self, codes: Any, integers: Any) -> tuple[Any, Any]:
        """The same for what `as_integers` gave: different texts may be one integer ("007" and "7")."""

    def text_column(self, texts: Sequence[str]) -> Any:
        """A column of these texts."""

    def as_json(self, keys: Any) -> Any:
        """Each key as JSON writes it: an integer as it stands, text in quotes. A column of text.

        Raises
        ------
        HostNeeded
            Text that the backend cannot quote.
        """

    def json_arrays(self, columns: Sequence[Any]) -> Any:
        """Of each row of columns of JSON the array, without blanks: ``["a",5]``. A column of text."""

    def key_hashes(self, keys: Any, side: str) -> Any:
        """The vertex hash of each key, ``(n,) uint64``."""

    def edge_fingerprint(self, left_ids: Any, right_ids: Any, left_hashes: Any, right_hashes: Any) -> str:
        """As `mbe_stage.bicliques.keys.edge_fingerprint`."""

    def edges(
        self,
        ids: tuple[Any, Any],
        keys: tuple[Any, Any],
        hashes: tuple[Any, Any],
        facts: InputFacts,
        events: Events | None = None,
    ) -> Edges:
        """Clean edges; each pair is left and right."""

    def from_host(self, edges: Any) -> Edges:
        """The same edges, which the host has cleaned."""

    # Between the tasks of a flow

    def save_edges(self, edges: Any, directory: Path) -> None:
        """Keep clean edges as files, in one format for every backend.

        Raises
        ------
        PublishError
            They cannot be written.
        """

    def load_edges(self, directory: Path) -> Edges:
        """The edges that `save_edges` kept."""

    # A run

    def graph_facts(
        self, graph: BipartiteCSR, most_steps: int, execution: Execution
    ) -> AbstractContextManager[Callable[[], GraphFacts]]:
        """Begin to count degrees and two-hop degrees; the context gives what waits for them.

        Of a side that takes more than `most_steps` there are no two-hop degrees; at 0 of neither.
        """

    def budget(self, execution: Execution, shares: Any = None) -> AbstractContextManager[Execution]:
        """What the engine may take beside what a collector does, which is `shares`; None where that is nothing.

        Raises
        ------
        MemoryBudgetExceeded
            Within the context the engine refused its share; the message names the limit that would do.
        """

    def write_tables(self, tables: Mapping[Path, tuple[Any, pa.Schema]], write_file: FrameWriter) -> None:
        """Write frames as a file each."""

    def engine_name(self, engine: str) -> str:
        """What the manifest calls the engine that ran."""

    def peak_device_memory_bytes(self) -> int | None:
        """Most device memory that was allocated at once so far; None where it is not followed."""

    def versions(self) -> dict[str, str]:
        """Software that only this backend uses."""
