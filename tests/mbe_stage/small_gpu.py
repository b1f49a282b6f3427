"""A CUDA engine stand-in without a GPU that runs out of memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mbe_stage import BicliqueBlock, BipartiteCSR, Detail, Execution
from mbe_stage import engines as registry
from mbe_stage.bicliques import reference
from mbe_stage.bicliques.cuda.memory_plan import check_preparation

__all__ = ["SmallGpu", "install"]

_VERTICES = 1 << 20
"""Every graph counts as one of this size, for which the smallest `execution.device_memory` is not enough."""


class SmallGpu:
    """CUDA engine stand-in: the reference's bicliques until memory runs out.

    Parameters
    ----------
    n_blocks : int
        Blocks delivered before that.
    """

    def __init__(self, n_blocks: int = 0) -> None:
        self._n_blocks = n_blocks

    def unavailable_reason(self) -> None:
        return None

    def compile_steps(self, _query: object = None, _detail: object = None) -> tuple[()]:
        return ()

    def device(self, _execution: Execution) -> str:
        return "cuda, a small one"

    def run(
        self, graph: BipartiteCSR, query, execution: Execution, detail: Detail, tasks=None
    ) -> Iterator[BicliqueBlock]:
        found = reference.run(graph, query, execution, detail, tasks)
        for _ in range(self._n_blocks):
            yield next(found)
        check_preparation(_VERTICES, execution.device_memory_bytes or 1000)
        yield from found

    def device_blocks(self, graph: BipartiteCSR, query, execution: Execution, tasks=None) -> Iterator[BicliqueBlock]:
        return self.run(graph, query, execution, Detail.MEMBERS, tasks)


def install(monkeypatch: pytest.MonkeyPatch) -> SmallGpu:
    """Make the registry find it as `cuda`."""
    engine, load = SmallGpu(), registry._load
    monkeypatch.setattr(registry, "_load", lambda problem, name: engine if name == "cuda" else load(problem, name))
    return engine
