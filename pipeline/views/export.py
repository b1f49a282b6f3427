"""Bicliques as CSV for spreadsheets and databases: one row per member, with the key as the user wrote it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from mbe_stage.pipeline.cli.terminal import visible
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.reading import bicliques_batches, bicliques_parts, check_members, reading, vertex_keys
from mbe_stage.pipeline.publish.run_files import as_publish_errors
from mbe_stage.pipeline.publish.run_store import refuse_among_published
from mbe_stage.pipeline.safe_paths import replaced_file
from mbe_stage.pipeline.views.top import Biclique

COLUMNS = pa.schema(
    [
        ("biclique", pa.int64()),
        ("biclique_key", pa.int64()),
        ("side", pa.string()),
        ("key", pa.string()),
        ("n_left", pa.int32()),
        ("n_right", pa.int32()),
        ("n_edges", pa.int64()),
    ]
)
_NUMBER = r"^[+-]?[0-9]+([.,][0-9]+)?([eE][+-]?[0-9]+)?$"
# Spreadsheets treat a cell that begins like this as a formula, or drop the character and then do.
_FORMULA = "[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
# Approximate members read at once, by the average row of a row group, and bytes of keys written at once.
_MEMBERS = 1 << 18
_KEY_BYTES = 1 << 24


def export_run(
    run_dir: str | Path,
    output: IO[bytes],
    *,
    min_left: int = 1,
    min_right: int = 1,
    limit: int | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> int:
    """Write the members of a run's bicliques as CSV, streaming: memory depends on the vertices, not on the bicliques.

    Parameters
    ----------
    min_left, min_right : int
        Minimum vertices on a side.
    limit : int, optional
        Maximum number of bicliques, in table order.
    on_progress : callable, optional
        Called with the share of the rows done.

    Returns
    -------
    int
        Bicliques written.

    Raises
    ------
    PublishError
        It is not a run, or is damaged.
    """
    run_dir = Path(run_dir)
    with reading(run_dir):
        keys = _Keys(vertex_keys(run_dir, "left"), vertex_keys(run_dir, "right"))
    n_written = 0
    # Anything but a run with bicliques is refused before the header is written.
    bicliques_parts(run_dir)
    with csv_writer(output) as write:
        for batch, share in bicliques_batches(run_dir, _MEMBERS):
            check_members(run_dir, batch, "left", keys.n_left)
            check_members(run_dir, batch, "right", len(keys.text) - keys.n_left)
            wanted = (batch["n_left"].to_numpy() >= min_left) & (batch["n_right"].to_numpy() >= min_right)
            rows = np.flatnonzero(wanted)[: None if limit is None else limit - n_written]
            for members in _long_form(batch.take(pa.array(rows)), n_written + 1, keys):
                write(members)
            n_written += rows.size
            if on_progress is not None:
                on_progress(share)
            if n_written == limit:
                break
    return n_written


def export_bicliques(bicliques: Iterable[Biclique], output: IO[bytes]) -> None:
    """Write some bicliques in the format of `export_run`."""
    with csv_writer(output) as write:
        for number, biclique in enumerate(bicliques, start=1):
            n_left, n_right = len(biclique.left), len(biclique.right)
            is_right = np.arange(n_left + n_right) >= n_left
            keys = pa.concat_arrays([harmless(pa.array(side)) for side in (biclique.left, biclique.right)])
            numbers = [pa.repeat(n, is_right.size) for n in (number, biclique.key, n_left, n_right, biclique.n_edges)]
            write(_rows(*numbers, is_right=is_right, keys=keys))


def export_rows(rows: Sequence[Mapping[str, Any]], output: IO[bytes]) -> None:
    """Write plain values as CSV: all columns of any row, in the format of `export_table`."""
    names = dict.fromkeys(name for row in rows for name in row)
    export_table(pa.table({name: pa.array([row.get(name) for row in rows]) for name in names}), output)


def export_table(table: pa.Table, output: IO[bytes]) -> None:
    """Write a table as CSV; spreadsheets treat no name or text as a formula, but text of digits as a number."""
    names = harmless(pa.array(table.column_names, pa.string())).to_pylist()
    table = pa.table([_cells(column) for column in table.columns], names)
    with csv_writer(output, table.schema) as write:
        write(table)


def _cells(column: pa.ChunkedArray) -> Any:
    kind = column.type
    if any(getattr(pa.types, f"is_{name}")(kind) for name in ("integer", "floating", "boolean", "null")):
        return column
    try:
        text = column.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        values = (None if value is None else json.dumps(value, default=str) for value in column.to_pylist())
        text = pa.chunked_array([pa.array(values, pa.large_string())])
    return pc.if_else(pc.match_substring_regex(text, _NUMBER), text, pa.chunked_array([harmless(text)]))


def harmless(keys: pa.Array | pa.ChunkedArray) -> pa.Array:
    r"""Return keys as text that spreadsheets do not treat as formulas: an apostrophe precedes text that would be one.

    Integer keys stay numbers: ``-5`` is not a formula.

    Examples
    --------
    >>> harmless(pa.array(["=1+1", "a=1", "-5"])).to_pylist(), harmless(pa.array([-5])).to_pylist()
    (["'=1+1", 'a=1', "'-5"], ['-5'])
    """
    keys = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
    if not pa.types.is_string(keys.type) and not pa.types.is_large_string(keys.type):
        return keys.cast(pa.large_string())
    text = keys.cast(pa.large_string())
    begins = pc.match_substring_regex(text, f"^{_FORMULA}")
    prefix = pc.if_else(begins, pa.scalar("'", pa.large_string()), pa.scalar("", pa.large_string()))
    return pc.binary_join_element_wise(prefix, text, pa.scalar("", pa.large_string()))


@contextmanager
def csv_output(path: Path | None) -> Iterator[IO[bytes]]:
    """Open the CSV output: stdout, or a file that is written completely or not at all.

    Raises
    ------
    PublishError
        The file cannot be written; an earlier file stays.
    """
    if path is None:
        try:
            yield sys.stdout.buffer
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader, such as `head`, has closed the pipe.
            raise
        except OSError:
            with as_publish_errors(Path("stdout"), "the output is incomplete"):
                raise
        return
    refuse_among_published(path)
    target = path.resolve()
    if target.exists() and not target.is_file():
        raise PublishError(f"{path}: is not a regular file; expected a path for a new file; name another")
    with as_publish_errors(path, "no file was written"), replaced_file(target) as file:
        yield file


class _Keys:
    """Keys of both sides in one array, left ones first, and the bytes of each."""

    def __init__(self, left: pa.ChunkedArray, right: pa.ChunkedArray) -> None:
        self.n_left = len(left)
        self.text = pa.concat_arrays([harmless(left), harmless(right)])
        self.n_bytes = pc.binary_length(self.text).to_numpy()


@contextmanager
def csv_writer(output: IO[bytes], schema: pa.Schema = COLUMNS) -> Iterator[Callable[[pa.RecordBatch | pa.Table], None]]:
    """Yield a function that writes rows as CSV, with control characters of text escaped if a terminal shows them."""
    options = pa.csv.WriteOptions(quoting_style="needed")
    shown = output.isatty()
    with pa.csv.CSVWriter(output, schema, write_options=options) as writer:

        def write(rows: pa.RecordBatch | pa.Table) -> None:
            for at, field in enumerate(schema if shown else ()):
                if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
                    texts = [None if text is None else visible(text) for text in rows[field.name].to_pylist()]
                    rows = rows.set_column(at, field, pa.array(texts, field.type))
            writer.write(rows)

        yield write


def _long_form(bicliques: pa.RecordBatch, first: int, keys: _Keys) -> Iterator[pa.RecordBatch]:
    """Yield one row per member, each biclique's left members first, in batches with a bounded size of keys."""
    sizes = [bicliques[f"n_{side}"].to_numpy().astype(np.int64) for side in ("left", "right")]
    both = sizes[0] + sizes[1]
    begins = np.cumsum(both) - both
    vertices = np.empty(int(both.sum()), np.int64)
    is_right = np.zeros(vertices.size, np.bool_)
    for number, side in enumerate(("left", "right")):
        own = sizes[number]
        within = np.arange(own.sum()) - np.repeat(np.cumsum(own) - own, own)
        places = np.repeat(begins + number * sizes[0], own) + within
        vertices[places] = bicliques[side].flatten().to_numpy().astype(np.int64) + number * keys.n_left
        is_right[places] = number == 1
    row = np.repeat(np.arange(bicliques.num_rows), both)
    ends = np.cumsum(keys.n_bytes[vertices] + 1)
    start = 0
    while start < vertices.size:
        budget = (ends[start - 1] if start else 0) + _KEY_BYTES
        stop = max(start + 1, int(np.searchsorted(ends, budget, side="right")))
        here, of = slice(start, stop), pa.array(row[start:stop])
        numbers = pa.array(row[here] + first)
        repeated = [bicliques[name].take(of) for name in ("biclique_key", "n_left", "n_right", "n_edges")]
        text = keys.text.take(pa.array(vertices[here]))
        yield _rows(numbers, *repeated, is_right=is_right[here], keys=text)
        start = stop


def _rows(
    number: pa.Array,
    biclique_key: pa.Array,
    n_left: pa.Array,
    n_right: pa.Array,
    n_edges: pa.Array,
    *,
    is_right: np.ndarray,
    keys: pa.Array,
) -> pa.RecordBatch:
    sides = pa.array(["left", "right"]).take(pa.array(is_right.astype(np.int8)))
    columns = [number, biclique_key, sides, keys, n_left, n_right, n_edges]
    return pa.RecordBatch.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, COLUMNS, strict=True)], schema=COLUMNS
    )
