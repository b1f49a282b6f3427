"""The engine `cuda`: the search of the engine `cpu`, with bicliques listed by the CUDA engine."""

from __future__ import annotations

from functools import cached_property, partial

from mbe_stage.bicliques import engine_cuda as walk
from mbe_stage.bicliques.best import engine_cpu
from mbe_stage.bicliques.best.problem import BestQuery
from mbe_stage.bicliques.best.reference import tasks_of
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.reduction import Core
from mbe_stage.bicliques.results import Detail
from mbe_stage.device.available import device, unavailable_reason
from mbe_stage.graphs import subgraphs
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.runtime.compile_ahead import CompileStep

__all__ = ["compile_steps", "device", "run", "tasks_of", "unavailable_reason"]


def compile_steps(query: BestQuery | None = None, detail: None = None) -> tuple[CompileStep, ...]:  # noqa: ARG001
    """Return the steps to compile for the search."""
    listing = walk.compile_steps(BicliqueQuery(2, 2, max_left=2), Detail.MEMBERS)
    return (*engine_cpu.own_steps(), *subgraphs.compile_steps(), *listing)


class _Search(engine_cpu.Search):
    """A search with the graph in device memory; the device reduces it to the core of each band."""

    listed = staticmethod(walk.run)

    def _part(self, core: Core, sizes: BicliqueQuery) -> Core:
        return super()._part(core, sizes) if self._query.by == "weight" else core._replace(graph=self._resident)

    @cached_property
    def _resident(self) -> BipartiteCSR:
        from mbe_stage.device.graph import on_device

        return on_device(self._core.graph)


run = partial(engine_cpu.run, kind=_Search)
"""Yield the same blocks as the engine `cpu`."""
