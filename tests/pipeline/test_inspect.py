"""`inspect_edges`: figures that can be checked by hand, and cores that keep every group they promise to keep."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from mbe_stage import BicliqueBlock, BicliqueQuery, BipartiteCSR, CountSink, Detail, Execution, enumerate_into, stream
from mbe_stage.bicliques import engine_cuda, reference
from mbe_stage.bicliques.estimation import Effort, Estimate, Interval, sampler
from mbe_stage.bicliques.reference import maximal_bicliques
from mbe_stage.pipeline.backends.arrow.block_writer import writers_bytes
from mbe_stage.pipeline.cli import inspect, options
from mbe_stage.pipeline.cli.app import app
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.edges import EdgeData, InputFacts
from mbe_stage.pipeline.execution.forecast import core_sizes
from mbe_stage.pipeline.problems.bicliques import trial as trial_module
from mbe_stage.pipeline.problems.bicliques.trial import Seconds, expect, try_and_estimate
from mbe_stage.pipeline.views import inspect as view
from mbe_stage.pipeline.views.inspect import Inspection, TwoHopFacts, inspect_edges
from mbe_stage.runtime.compile_ahead import CompileStep
from tests.pipeline.plugins import Installed


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    found = Installed(tmp_path / "packages", monkeypatch)
    yield found
    found.forget()


def edge_data(left: list[int], right: list[int]) -> EdgeData:
    n_left, n_right = max(left) + 1, max(right) + 1
    facts = InputFacts("memory:test", "numpy", len(left), 0, 0, 0, 0, n_left, n_right, len(left), "none")
    keys = pa.array(range(n_left), pa.int64()), pa.array(range(n_right), pa.int64())
    return EdgeData(np.array(left, np.int32), np.array(right, np.int32), *keys, facts)


def inspected(edges: EdgeData, **output: object) -> Inspection:
    return inspect_edges(edges, Config.from_mapping({"execution": {"engine": "reference"}, "output": output}))


def test_star() -> None:
    found = inspected(edge_data([0, 1, 2, 3], [0, 0, 0, 0]))
    assert (found.left.n, found.left.max, found.left.n_degree_one) == (4, 1, 4)
    assert (found.right.n, found.right.max, found.right.mean) == (1, 4, 4.0)
    # The hub leads from each of 4 leaves to each of 4; from the hub each leaf leads back only to it.
    assert (found.left.two_hop, found.right.two_hop) == (16, 4)
    assert found.density == 1.0
    assert found.trial is not None
    assert found.trial.complete
    assert found.trial.n_bicliques == found.trial.expected_bicliques == 1
    assert found.trial.member_bytes == 4 * (4 + 1)
    assert found.graph_bytes == 8 * (5 + 2) + 4 * 2 * 4
    beside = found.expected_memory_bytes - found.read_memory_bytes - (1 << 30)
    assert beside == writers_bytes(None) > 0


def test_expected_memory_includes_the_sampler() -> None:
    edges = edge_data([0, 1, 2, 3], [0, 0, 0, 0])
    found = inspect_edges(edges, Config.from_mapping({"execution": {"engine": "cpu"}}), trial_seconds=0)
    beside = found.expected_memory_bytes - found.read_memory_bytes - (1 << 30) - writers_bytes(None)
    assert beside == sampler.memory_bytes(edges.graph(), Execution()) == 6 * found.graph_bytes


def test_cores_of_a_block_with_a_tail() -> None:
    left, right = [u for u in range(3) for _ in range(4)], [v for _ in range(3) for v in range(4)]
    graph = BipartiteCSR.from_edges(np.array([*left, 3, 4]), np.array([*right, 0, 1]))
    core = core_sizes(graph, [(3, 4)])[0]
    assert (core.n_left, core.n_right, core.n_edges) == (3, 4, 12)
    gone = core_sizes(graph, [(4, 4)])[0]
    assert (gone.n_left, gone.n_right, gone.n_edges) == (0, 0, 0)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(1, 3))
def test_cores_keep_every_large_group(seed: int, min_left: int, min_right: int) -> None:
    left, right = np.nonzero(np.random.default_rng(seed).random((8, 7)) < 0.4)
    graph = BipartiteCSR.from_edges(left, right, 8, 7)
    core = core_sizes(graph, [(min_left, min_right)])[0]
    kept = [(us, vs) for us, vs in maximal_bicliques(graph) if len(us) >= min_left and len(vs) >= min_right]
    covered = {(u, v) for us, vs in kept for u in us for v in vs}
    assert len(covered) <= core.n_edges <= graph.n_edges
    assert len({u for u, _ in covered}) <= core.n_left
    assert len({v for _, v in covered}) <= core.n_right


def test_two_hop_degrees_and_bytes_of_a_star() -> None:
    found = inspected(edge_data([0, 1, 2, 3], [0, 0, 0, 0]), members=True)
    assert found.left.two_hop_degrees == TwoHopFacts(3.0, 3.0, 3.0, 3.0, 3)
    assert found.right.two_hop_degrees == TwoHopFacts(0.0, 0.0, 0.0, 0.0, 0)
    assert found.estimate is not None
    assert found.estimate.bicliques == Interval(1, 1, 1)
    # A row of `bicliques` takes 32 bytes and 4 per member; a row of `members` takes 13.
    assert found.estimate.bytes == Interval.exactly(32 + 5 * 4 + 5 * 13)
    without = inspected(edge_data([0, 1], [0, 0]), two_hop_steps=0)
    assert without.left.two_hop_degrees is None


def test_each_core_lies_in_the_one_before() -> None:
    left, right = np.nonzero(np.random.default_rng(1).random((60, 50)) < 0.12)
    graph, sizes = BipartiteCSR.from_edges(left, right, 60, 50), ((2, 2), (3, 4), (5, 5), (6, 6))
    cores = core_sizes(graph, sizes)
    assert cores == tuple(core_sizes(graph, [each])[0] for each in sizes)
    # The same by a plain loop over edges.
    for (min_left, min_right), core in zip(sizes, cores, strict=True):
        kept = set(zip(left.tolist(), right.tolist(), strict=True))
        while True:
            lefts, rights = (Counter(edge[side] for edge in kept) for side in (0, 1))
            fewer = {(u, v) for u, v in kept if lefts[u] >= min_right and rights[v] >= min_left}
            if fewer == kept:
                break
            kept = fewer
        assert (core.n_left, core.n_right, core.n_edges) == (len(lefts), len(rights), len(kept))
    assert cores[0].n_edges > cores[2].n_edges


def test_two_hop_degrees_that_take_long_are_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = np.random.default_rng(2).integers(0, (600, 40), (3000, 2)).T
    edges = edge_data(left, right)
    counted = inspected(edges)
    monkeypatch.setattr(view, "QUICK_TWO_HOP_STEPS", 100_000)
    found = inspected(edges)
    assert found.right == counted.right
    exact, estimated = counted.left.two_hop_degrees, found.left.two_hop_degrees
    assert (estimated.max, estimated.n_sampled) == (None, 100_000 * 600 // (2 * found.left.two_hop))
    assert 100 < estimated.n_sampled < 200
    assert estimated.mean == pytest.approx(exact.mean, rel=0.1)
    assert estimated.p90 == pytest.approx(exact.p90, rel=0.1)
    monkeypatch.setattr(view, "_FEWEST_SAMPLED", 200)
    assert inspected(edges).left.two_hop_degrees is None


def test_a_trial_that_is_cut_short_is_followed_by_an_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = reference.run

    def slow(
        graph: BipartiteCSR, query: BicliqueQuery, execution: Execution, detail: Detail, tasks: object = None
    ) -> Iterator[BicliqueBlock]:
        assert tasks is None
        for block in whole(graph, query, execution, detail):
            time.sleep(0.005)
            yield block

    monkeypatch.setattr(reference, "run", slow)
    # Count steps instead of seconds, since the machine may be busy.
    monkeypatch.setattr(trial_module, "Effort", lambda **_: Effort(None, 10_000_000))
    left, right = np.nonzero(np.random.default_rng(3).random((14, 12)) < 0.5)
    graph = BipartiteCSR.from_edges(left, right)
    total = len(maximal_bicliques(graph))
    trial, found = try_and_estimate(graph, BicliqueQuery(), 0.1, "reference", Execution(block_bytes=1))
    assert not trial.complete
    assert 0 < trial.n_bicliques < total
    # So small a tree is searched completely.
    assert found.exact
    assert found.bicliques == Interval.exactly(total)
    assert trial.expected_bicliques == total
    # Too few results to estimate the pace.
    assert trial.expected_seconds is found.seconds is None


def test_no_time_and_no_bytes_from_an_open_interval() -> None:
    open_one, closed = Interval(10, 5000, None), Interval(4000, 5000, 6000)
    found = expect(Estimate(open_one, closed, 8, exact=False), n_found=2000, seconds=1.0, long_form=False)
    assert found.bicliques == Interval(2000, 5000, None)
    assert found.seconds is found.bytes is None
    found = expect(Estimate(closed, closed, 8, exact=False), n_found=2000, seconds=1.0, long_form=False)
    assert found.seconds == Seconds(4 / 3, 2.5, 4.5)
    assert found.bytes == Interval(36 * 4000, 36 * 5000, 36 * 6000)


def test_the_query_is_that_of_enumerate(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("a,x,3\na,y,3\nb,x,3\nb,z,1\nc,z,3\n")
    columns = f"input: {{path: {tmp_path / 'edges.csv'}, weight: 2, min_weight: 2}}\n"
    (tmp_path / "asked.yaml").write_text(columns + "query: {min_left: 1}\n")

    def counted(*arguments: str) -> int:
        result = CliRunner().invoke(app, ["inspect", *arguments, "--engine", "reference", "--json"])
        assert result.exit_code == 0, result.output
        return int(json.loads(result.stdout.splitlines()[-1])["estimate"]["bicliques"]["middle"])

    csv = str(tmp_path / "edges.csv")
    assert counted(csv) == 4
    assert counted(csv, "--min-left", "2") == 2
    assert counted(csv, "--max-left", "1") == 2
    assert counted(csv, "--containing-right", "z") == 2
    assert counted(csv, "--weight", "2", "--min-weight", "2") == 3
    assert counted(str(tmp_path / "asked.yaml")) == 3
    assert counted(str(tmp_path / "asked.yaml"), "--min-left", "2") == 1


@pytest.mark.parametrize("seconds", ["inf", "nan"])
def test_a_trial_without_end_is_refused_by_its_name(seconds: str, tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("a,x\n")
    result = CliRunner().invoke(app, ["inspect", str(tmp_path / "edges.csv"), "--trial", seconds])
    assert result.exit_code == 2
    assert "--trial" in result.stderr


def test_a_configuration_without_input_is_named(tmp_path: Path) -> None:
    (tmp_path / "asked.yaml").write_text("query: {min_left: 2}\n")
    result = CliRunner().invoke(app, ["inspect", str(tmp_path / "asked.yaml")])
    assert result.exit_code == 2
    assert "asked.yaml: no input.path" in result.stderr


def test_disabled_two_hop_degrees_are_not_counted(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("left,right\na,x\n")
    (tmp_path / "asked.yaml").write_text(
        f"input: {{path: {tmp_path / 'edges.csv'}}}\nexecution: {{engine: reference}}\noutput: {{two_hop_steps: 0}}\n"
    )
    result = CliRunner().invoke(app, ["inspect", str(tmp_path / "asked.yaml")])
    assert result.exit_code == 0
    assert "two-hop    left: not counted, because it takes too many steps (output.two_hop_steps)" in result.stdout
    assert "1 biclique: counted" in result.stdout


def test_compiling_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling is reported before the trial, whose own warnings are hidden."""
    compiled: list[int] = []
    step = CompileStep("slow", lambda: bool(compiled), lambda: False, lambda: compiled.append(1))
    monkeypatch.setattr(reference, "compile_steps", lambda *_: (step,))
    (tmp_path / "edges.csv").write_text("left,right\na,x\n")
    result = CliRunner().invoke(app, ["inspect", str(tmp_path / "edges.csv"), "--engine", "reference"])
    assert result.exit_code == 0, result.output
    assert compiled == [1]
    assert "compiling the engine for this processor, once: " in result.stderr


def test_a_tier_asked_for_by_name_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_cuda, "unavailable_reason", lambda: "no NVIDIA GPU is visible")
    (tmp_path / "edges.csv").write_text("left,right\na,x\n")
    (tmp_path / "asked.yaml").write_text(f"input: {{path: {tmp_path / 'edges.csv'}}}\nexecution: {{engine: rapids}}\n")
    result = CliRunner().invoke(app, ["inspect", str(tmp_path / "asked.yaml"), "--trial", "0.1"])
    assert result.exit_code == 4
    assert "engine 'rapids' cannot run here: " in result.stderr


def test_the_next_run_in_the_process_has_its_warnings(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("left,right\na,x\n")
    logger = logging.getLogger("mbe_stage")
    result = CliRunner().invoke(app, ["inspect", str(tmp_path / "edges.csv"), "--engine", "reference", "--quiet"])
    assert result.exit_code == 0, result.output
    assert logger.level == logging.WARNING
    told: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    logger.handlers = [handler]
    enumerate_into(
        CountSink(), BipartiteCSR.from_edges(*np.nonzero(np.eye(9) == 0)), execution=Execution(max_bicliques=1)
    )
    assert any("max_bicliques" in each for each in told)


def test_a_trial_hides_that_it_was_cut_short_and_no_other_warning(caplog: pytest.LogCaptureFixture) -> None:
    with inspect._cut_short_on_purpose():
        enumerate_into(
            CountSink(), BipartiteCSR.from_edges(*np.nonzero(np.eye(9) == 0)), execution=Execution(max_bicliques=1)
        )
        stream.log.warning("engine auto: %s", "cpu takes over")
    assert [record.getMessage() for record in caplog.records] == ["engine auto: cpu takes over"]


def test_another_problem_is_inspected(tmp_path: Path, packages: Installed) -> None:
    packages.add("sky", "stars")
    (tmp_path / "edges.csv").write_text("1,7\n1,8\n2,7\n2,9\n3,9\n")
    arguments = ["inspect", str(tmp_path / "edges.csv"), "--problem", "stars", "--engine", "reference"]
    result = CliRunner().invoke(app, [*arguments, "--set", "stars.points=2", "--json"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout.splitlines()[-1])
    # The stars around 7 and 9 have two points, the one around 8 only one.
    assert facts["trial"]["n_found"] == 2
    assert facts["trial"]["complete"] is True
    assert facts["trial"]["table_bytes"] == 2 * (8 + 4)
    assert (facts["problem"], facts["estimate"], facts["left"]["n"]) == ("stars", None, 3)
    shown = CliRunner().invoke(app, arguments).stdout
    assert "found 4 stars: all results, 48 B before compression" in shown
    untried = CliRunner().invoke(app, [*arguments, "--trial", "0"]).stdout
    assert "unknown: it depends on the number of stars" in untried
    as_json = CliRunner().invoke(app, [*arguments, "--trial", "0", "--json"]).stdout
    assert [core["n_edges"] for core in json.loads(as_json.splitlines()[-1])["cores"]] == [0, 0, 0, 0]
    refused = CliRunner().invoke(app, [*arguments, "--min-left", "2"])
    assert refused.exit_code == 2
    assert "--min-left: is for the problem bicliques, but --problem is 'stars'" in refused.stderr
    unknown = CliRunner().invoke(app, ["inspect", str(tmp_path / "edges.csv"), "--problem", "star"])
    assert "command line: --problem is 'star': did you mean 'stars'?" in unknown.stderr


def test_a_trial_of_another_problem_that_is_cut_short_says_so(
    packages: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages.add("sky", "stars")
    whole = reference.run

    def slow(*given: object) -> Iterator[BicliqueBlock]:
        for block in whole(*given):  # type: ignore[arg-type]
            time.sleep(0.005)
            yield block

    monkeypatch.setattr(reference, "run", slow)
    left, right = np.nonzero(np.random.default_rng(3).random((14, 12)) < 0.5)
    edges = edge_data([*map(int, left)], [*map(int, right)])
    config = Config.from_mapping({"problem": "stars", "execution": {"engine": "reference", "block_bytes": 1024}})
    found = inspect_edges(edges, config, trial_seconds=1e-3)
    assert not found.trial.complete
    ((label, text),) = found.lines
    assert label == "trial"
    assert text.endswith("; the problem stars has no better estimate")
    assert found.suggestions == ("count before you store: mbe stars INPUT --count-only --time-limit 60",)


@pytest.mark.usefixtures("installed")
def test_butterflies_are_inspected(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("1,7\n1,8\n2,7\n2,8\n3,8\n")
    arguments = ["inspect", str(tmp_path / "edges.csv"), "--problem", "butterflies", "--engine", "reference", "--json"]
    result = CliRunner().invoke(app, [*arguments, "--set", "butterflies.min_butterflies=1"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout.splitlines()[-1])
    # One butterfly and one further edge.
    assert facts["trial"]["n_found"] == 4
    assert (facts["left"]["max"], facts["left"]["two_hop_degrees"]["max"]) == (2, 2)


def test_engines_are_those_of_enumerate() -> None:
    of_enumerate, of_inspect = (
        next(each.annotation for each in table if each.key == "execution.engine")
        for table in (
            options.publishing(options.QUERY, max_bicliques=True, members=True),
            options.INSPECTING,
        )
    )
    assert of_enumerate == of_inspect
