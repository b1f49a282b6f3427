"""Problems and derived outputs of other packages on the tier `rapids`: they are asked before it is chosen."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mbe_stage import engines
from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.errors import EngineUnavailable
from mbe_stage.pipeline.execution import tiers
from mbe_stage.pipeline.execution.tiers import choose_tier, on_a_tier_that_fits, rapids_unavailable_reason, tier_named
from mbe_stage.pipeline.problems.base import DerivedPublication
from mbe_stage.pipeline.problems.installed import derived_of, publication_of
from mbe_stage.pipeline.views import inspect
from mbe_stage.problem import problem_named
from mbe_stage.runtime.compile_ahead import CompileStep
from tests.pipeline.plugins import changed
from tests.pipeline.test_problem_seam import EDGES, settings
from tests.toys.smaller_sides import collector as sides_collector
from tests.toys.smaller_sides.publication import PUBLICATION as SIDES

pytestmark = pytest.mark.usefixtures("installed")


def replaced_publication(monkeypatch: pytest.MonkeyPatch, where: str, **changes: Any) -> None:
    """Replace members of the publication at this place."""
    module, _, name = where.partition(":")
    for member, value in changes.items():
        monkeypatch.setattr(getattr(importlib.import_module(module), name), member, value)


def step(what: str, is_kept: bool = False) -> CompileStep:
    return CompileStep(what, lambda: is_kept, lambda: is_kept, lambda: None)


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The names of the steps that the tier compiles; the toy problem has tables in device memory too."""
    name = "mbe_stage.pipeline.backends.cudf.compiling"
    kernels = SimpleNamespace(text_hash_thread_per_string="texts", integer_hash_thread_per_value="integers")
    monkeypatch.setitem(sys.modules, "mbe_stage.bicliques.cuda.keys", kernels)
    monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module(name)
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(module, "compile_steps_of", lambda *names: tuple(map(step, names)))
    monkeypatch.setattr(module, "rehearsals", lambda: (step("rehearsal"),))
    monkeypatch.setattr(
        module,
        "get_engine",
        lambda problem, name: SimpleNamespace(compile_steps=lambda *_: (step(f"{name} of {problem}"),)),
    )
    for problem in ("bicliques", "cliques", "butterflies"):
        where = problem_named(problem).publication
        assert where is not None
        steps = {"device_compile_steps": lambda _config, problem=problem: (step(f"tables of {problem}"),)}
        if problem == "cliques":
            steps["graph_steps"] = lambda _config: (step("projection"),)
        replaced_publication(monkeypatch, where, **steps, frames=("arrow", "cudf"))
    sides = "tests.toys.smaller_sides.publication:PUBLICATION"
    replaced_publication(monkeypatch, sides, compile_steps=lambda _config: (step("sides"),))
    groups = {"compile_steps": lambda _: (step("groups"),), "device_compile_steps": lambda _: (step("their sink"),)}
    replaced_publication(monkeypatch, "mbe_stage.pipeline.problems.groups.publication:PUBLICATION", **groups)
    return lambda *asked: {each.what for each in module.device_steps(*asked)}


def test_rapids_compiles_what_the_run_needs_and_all_of_ours(compiling: Any) -> None:
    ours = {"rehearsal", "texts", "integers", "cuda of bicliques", "tables of bicliques"}
    theirs = {"cuda of butterflies", "tables of butterflies"}
    assert compiling("publish", Config()) == ours
    assert compiling("publish", Config(problem="butterflies")) == ours | theirs
    assert compiling("count", Config(problem="butterflies")) == ours | {"cuda of butterflies"}
    assert compiling("publish", Config.from_mapping({"smaller_sides": {}})) == ours | {"sides"}
    assert compiling("publish", Config.from_mapping({"groups": {}})) == ours | {"groups", "their sink"}
    of_cliques = {"cuda of cliques", "tables of cliques", "projection"}
    assert compiling() == ours | theirs | of_cliques | {"sides", "groups", "their sink", "cuda of pq_counts"}


def test_a_run_loads_only_what_it_needs(compiling: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["mbe_stage.pipeline.backends.cudf.compiling"]
    monkeypatch.setattr(module, "all_at_once", lambda needed, _everything: needed)
    assert compiling("publish", Config.from_mapping({"smaller_sides": {}})) == {
        *("texts", "integers", "cuda of bicliques", "tables of bicliques", "sides")
    }


def test_auto_asks_the_derived_outputs_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "rapids_unavailable_reason", lambda *_: None)
    asked = derived_of(settings(tmp_path, "auto", smaller_sides={}))
    assert choose_tier(Config().execution, "bicliques", asked).name == "rapids"
    host_only = [changed(each, frames=("arrow",)) for each in asked]
    assert choose_tier(Config().execution, "bicliques", host_only).name in ("cuda", "cpu")
    with pytest.raises(
        EngineUnavailable, match="the derived output 'smaller_sides' cannot read results in device memory"
    ):
        tier_named("rapids", "bicliques", host_only)


def test_a_run_names_its_derived_outputs_to_the_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "rapids_unavailable_reason", lambda *_: None)
    replaced_publication(monkeypatch, "tests.toys.smaller_sides.publication:PUBLICATION", frames=("arrow",))
    for asked, is_rapids in (({}, True), ({"smaller_sides": {}}, False)):
        tier = on_a_tier_that_fits(settings(tmp_path, "auto", **asked), lambda tier, _warnings, _note: tier)
        assert (tier.name == "rapids") == is_rapids


def test_tables_of_a_derived_output_are_of_the_host_unless_it_says_otherwise() -> None:
    assert SIDES.frames == ("arrow", "cudf")
    assert DerivedPublication.frames == ("arrow",)


def test_a_problem_without_the_cuda_engine_is_not_for_rapids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "rapids_unavailable_reason", lambda *_: None)
    where = problem_named("butterflies").publication
    assert where is not None
    replaced_publication(monkeypatch, where, frames=("arrow", "cudf"))
    assert choose_tier(Config().execution, "butterflies").name == "rapids"
    found = {name: module for name, module in problem_named("butterflies").engines.items() if name != "cuda"}
    monkeypatch.setattr(engines, "_engines", lambda _problem: found)
    assert choose_tier(Config().execution, "butterflies").name == "cpu"
    with pytest.raises(EngineUnavailable, match="the problem 'butterflies' has no engine 'cuda'; use auto"):
        tier_named("rapids", "butterflies")


def test_the_problems_own_engine_is_asked_whether_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers.importlib.util, "find_spec", lambda _module: object())
    monkeypatch.setattr(engines, "unavailable_reason", None)
    monkeypatch.setattr(tiers, "unavailable_reason", lambda problem, name: f"{name} of {problem} says no")
    assert rapids_unavailable_reason("butterflies") == "cuda of butterflies says no"
    assert rapids_unavailable_reason() == "cuda of bicliques says no"


def test_inspect_asks_for_the_tier_of_its_problem() -> None:
    assert publication_of("butterflies").frames == ("arrow",)
    config = Config.from_mapping({"problem": "butterflies", "execution": {"engine": "rapids"}})
    with pytest.raises(EngineUnavailable, match="the problem 'butterflies' cannot write tables in device memory"):
        inspect._engine(config)


@pytest.mark.parametrize("said", ["std::bad_alloc: out_of_memory: CUDA error", "cudaErrorMemoryAllocation"])
@pytest.mark.parametrize("kind", [MemoryError, RuntimeError])
def test_device_memory_that_a_derived_output_lacks_is_not_its_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception], said: str
) -> None:
    def fail(*_: object) -> None:
        raise kind(said)

    monkeypatch.setattr(sides_collector.SidesCollector, "accept", fail)
    with pytest.raises(kind) as refusal:
        run(settings(tmp_path, smaller_sides={}), EDGES)
    assert refusal.type is kind
    assert str(refusal.value) == said
    assert not list((tmp_path / "runs").iterdir()) if (tmp_path / "runs").exists() else True
