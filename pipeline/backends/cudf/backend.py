"""Tables in device memory, from edges to staged tables without a detour through the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import cudf
import cupy as cp
import numpy as np
import pyarrow as pa
import pylibcugraph

from mbe_stage.bicliques.cuda.keys import edge_fingerprint
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.pipeline.backends.arrow.plain import as_plain
from mbe_stage.pipeline.backends.backend import FrameWriter, GraphFacts, HostNeeded, Refusal
from mbe_stage.pipeline.backends.cudf import keys, measures
from mbe_stage.pipeline.backends.cudf.buffers import is_text
from mbe_stage.pipeline.backends.cudf.edges import DeviceEdges
from mbe_stage.pipeline.backends.cudf.encoded import EncodedKeys, joined
from mbe_stage.pipeline.backends.cudf.graph_facts import graph_facts
from mbe_stage.pipeline.backends.cudf.hashes import key_hashes
from mbe_stage.pipeline.backends.cudf.memory import DevicePool, naming_the_limit
from mbe_stage.pipeline.backends.cudf.read import Readers, readers
from mbe_stage.pipeline.backends.cudf.rows import DeviceRows
from mbe_stage.pipeline.backends.cudf.writing import EngineShare
from mbe_stage.pipeline.config.model import InputConfig


@dataclass(frozen=True, slots=True)
class CudfBackend:
    """See `pipeline.backends.backend.Backend`.

    Attributes
    ----------
    pool : DevicePool, optional
        Source of all allocations; without it memory is not tracked, and there is no budget.
    """

    pool: DevicePool | None = None

    name: ClassVar[str] = "cudf"
    xp: ClassVar[ModuleType] = cp
    is_on_device: ClassVar[bool] = True
    edges: ClassVar[type[DeviceEdges]] = DeviceEdges

    column = staticmethod(DeviceRows.column)
    ranked = staticmethod(keys.ranked)
    merged = staticmethod(keys.merged)
    as_json = staticmethod(keys.as_json)
    json_arrays = staticmethod(keys.json_arrays)
    on_host = staticmethod(cp.asnumpy)
    is_text = staticmethod(is_text)
    key_hashes = staticmethod(key_hashes)
    edge_fingerprint = staticmethod(edge_fingerprint)
    at_least = staticmethod(measures.at_least)
    below = staticmethod(measures.below)
    largest = staticmethod(measures.largest)
    from_host = staticmethod(DeviceEdges.from_host)

    def readers(self, config: InputConfig, source: object | None) -> Readers:
        return readers(config, source, self.pool)

    def further(self, rows: DeviceRows, role: str) -> pa.Array:
        column: Any = rows.columns[role]
        return as_plain(pa.chunked_array([column.to_arrow()]))

    def taken(self, values: Any, positions: cp.ndarray) -> Any:
        if isinstance(values, cp.ndarray | EncodedKeys):
            return values[positions]
        return values.take(positions).reset_index(drop=True)

    def factorised(self, values: Any) -> tuple[cp.ndarray, cudf.Series]:
        return values.factorised() if isinstance(values, EncodedKeys) else keys.factorised(values)

    def joined(self, first: Any, second: Any) -> Any:
        both = [first, second]
        are_encoded = isinstance(first, EncodedKeys)
        if len({is_text(of.distinct if are_encoded else of) for of in both}) > 1:
            raise HostNeeded("keys of text on one side and of integers on the other")
        return joined(both) if are_encoded else cudf.concat(both, ignore_index=True)

    def as_utf8(self, texts: cudf.Series, refuse: Refusal) -> None:
        """Do nothing: whole columns were checked when they were read."""

    def as_integers(self, texts: cudf.Series, must: bool, refuse: Refusal) -> cp.ndarray | None:  # noqa: ARG002
        return keys.as_integers(texts, must)

    def ordered(self, distinct: cudf.Series) -> tuple[cp.ndarray, cudf.Series]:
        return keys.ranked(*keys.factorised(distinct))

    def renumbered(self, codes: cp.ndarray) -> tuple[cp.ndarray, cp.ndarray]:
        distinct, ranks = cp.unique(codes, return_inverse=True)
        return ranks.astype(np.int32), distinct

    def distinct_pairs(
        self,
        first: cp.ndarray,
        second: cp.ndarray,
        n_first: int,  # noqa: ARG002 - the sort needs no number
        n_second: int,  # noqa: ARG002
    ) -> tuple[cp.ndarray, cp.ndarray]:
        return keys.distinct_pairs(first, second)

    def text_column(self, texts: Sequence[str]) -> cudf.Series:
        return cudf.Series.from_arrow(pa.array(texts, pa.string()))

    def made_in_parts(self, texts_of: Callable[[cp.ndarray], cudf.Series], n: int) -> cudf.Series:
        return texts_of(cp.arange(n))

    @contextmanager
    def graph_facts(
        self,
        graph: BipartiteCSR,
        most_steps: int,
        execution: Execution,  # noqa: ARG002 - the device has no threads to be told
    ) -> Iterator[Callable[[], GraphFacts]]:
        free = cp.cuda.Device().mem_info[0] if self.pool is None else self.pool.left_bytes()
        facts = graph_facts(graph, most_steps, free // 4)
        yield lambda: facts

    @contextmanager
    def budget(self, execution: Execution, shares: EngineShare | None = None) -> Iterator[Execution]:
        if self.pool is None:
            yield execution
            return
        if shares is None:
            # The other half is for allocations that the engine does not plan exactly.
            used, half = self.pool.used_bytes(), self.pool.left_bytes() // 2
            shares = EngineShare(half, lambda needed: used + 2 * needed)
        with naming_the_limit(shares.limit_for):
            yield replace(execution, device_memory_bytes=shares.bytes)

    def write_tables(self, tables: Mapping[Path, tuple[cudf.DataFrame, pa.Schema]], write_file: FrameWriter) -> None:
        # The writer uses another stream, so the frames must be complete.
        cp.cuda.get_current_stream().synchronize()
        for path, (frame, schema) in tables.items():
            write_file(frame, path, schema)

    def engine_name(self, engine: str) -> str:  # noqa: ARG002 - there is one
        return "rapids"

    def peak_device_memory_bytes(self) -> int | None:
        return None if self.pool is None else self.pool.peak_bytes()

    def versions(self) -> dict[str, str]:
        return {"cudf": cudf.__version__, "cugraph": pylibcugraph.__version__, "cupy": cp.__version__}
