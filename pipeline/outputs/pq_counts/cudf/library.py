"""(p, q)-counts for a program whose tables are in device memory already: cuDF in, cuDF out."""

from __future__ import annotations

from mbe_stage.options import Execution
from mbe_stage.pq_counts.count import count_pq_into
from mbe_stage.pq_counts.results import PqSink
from pipeline.backends.cudf.backend import CudfBackend
from pipeline.backends.cudf.frames import Frame
from pipeline.config import Config, InputConfig, Key
from pipeline.ingest import ingest
from pipeline.outputs.pq_counts.query import to_query
from pipeline.outputs.pq_counts.tables import counts_table

__all__ = ["count_pq_bicliques"]

_DEFAULT_INPUT = InputConfig()


def count_pq_bicliques(
    edges: Frame,
    left: Key = _DEFAULT_INPUT.left,
    right: Key | tuple[Key, ...] = _DEFAULT_INPUT.right,
    *,
    p: int = 2,
    q: int = 2,
    table: bool = False,
    containing_left: tuple[Key, ...] = (),
    containing_right: tuple[Key, ...] = (),
    device_memory: int | None = None,
) -> Frame:
    """How many (p, q)-bicliques a table of edges has; what passes through host memory is a few numbers.

    Parameters
    ----------
    edges : Frame
        One edge a row, duplicates allowed, keys of integers or text without nulls.
    left, right : str or int
        Columns of the frame, by name or position; `right` may be a tuple of several that make the key together.
    p, q, table, containing_left, containing_right
        As `pipeline.outputs.pq_counts.section.PqCountsSection`; `containing_*` holds the frame's own keys.
    device_memory : int, optional
        Bytes that the search may take; three quarters of what is free, by default.

    Returns
    -------
    Frame
        The table `pq_counts`: ``p``, ``q``, ``count`` (decimal128(38, 0), null where a count has more digits) and
        ``count_text``.

    Raises
    ------
    InputError
        The edges cannot be used; the message says where and why.
    ConfigError
        Sizes below 1, or a table of too many counts.
    EngineUnavailable
        The CUDA engine cannot run here.

    Examples
    --------
    >>> purchases = cudf.DataFrame({"account": ["a", "a", "b", "b"], "item": [1, 2, 1, 2]})  # doctest: +SKIP
    >>> count_pq_bicliques(purchases, "account", "item")["count_text"].to_arrow().to_pylist()  # doctest: +SKIP
    ['1']
    """
    asked = {
        "p": p,
        "q": q,
        "table": table,
        "containing_left": tuple(containing_left),
        "containing_right": tuple(containing_right),
    }
    config = Config.from_mapping({"problem": "pq_counts", "pq_counts": asked})
    clean = ingest(InputConfig(left=left, right=right), edges, CudfBackend())
    sink = PqSink(to_query(config.asked, clean))
    count_pq_into(sink, clean.graph(), Execution(device_memory_bytes=device_memory), "cuda")
    return Frame.from_arrow(counts_table(sink.counts()))
