"""Benchmark harness on tiny graphs: counts, tables and refusals. No test checks a time."""

from __future__ import annotations

import ast
import json
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import (
    ablation,
    bench,
    bench_diff,
    bench_gpu,
    checkpoints,
    cliques_gpu,
    cluster,
    count_and_write,
    devices_gpu,
    estimates,
    groups_gpu,
    machine,
    measuring,
    pq_gpu,
    pq_gpu_memory,
    projection_gpu,
    rapids_start,
    scaling,
    shown_progress,
)
from benchmarks.count_and_write import CountTimes, WriteTimes, bench_write, measure_count, measure_write
from benchmarks.graphs import BY_NAME, GRAPHS, convert, find_graph
from benchmarks.groups import __main__ as groups
from benchmarks.measuring import Row, Settings
from benchmarks.peers import AT_MOST_SECONDS, PEERS, best_cpu, best_single_thread
from benchmarks.scaling_chart import Point, scaling_svg
from benchmarks.table import markdown_table, results_table
from benchmarks.targets import geometric_mean, ratio_to_best, targets
from mbe_stage import BipartiteCSR, Execution, Progress, UndirectedCSR
from mbe_stage.cliques.cuda.techniques import Techniques
from mbe_stage.cliques.results import CliqueBlock
from mbe_stage.cliques.results import Detail as CliqueDetail
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pq_counts.query import PqQuery

# Davis, Gardner and Gardner 1941, as 18 women's events.
DAVIS = (
    "1 2 3 4 5 6 8 9",
    "1 2 3 5 6 7 8",
    "2 3 4 5 6 7 8 9",
    "1 3 4 5 6 7 8",
    "3 4 5 7",
    "3 5 6 8",
    "5 6 7 8",
    "6 8 9",
    "5 7 8 9",
    "7 8 9 12",
    "8 9 10 12",
    "8 9 10 12 13 14",
    "7 8 9 10 12 13 14",
    "6 7 9 10 11 12 13 14",
    "7 8 10 11 12",
    "8 9",
    "9 11",
    "9 11",
)


@pytest.fixture
def graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory of graphs with southern_women only."""
    pairs = [(woman, int(event) - 1) for woman, events in enumerate(DAVIS) for event in events.split()]
    u, v = np.array(pairs, np.int32).T
    directory = tmp_path / "graphs"
    directory.mkdir()
    np.savez(directory / "southern_women.npz", u=u, v=v)
    monkeypatch.setenv("MBE_DATA", str(directory))
    return directory


@pytest.fixture
def quick_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = machine.calibrate
    monkeypatch.setattr(machine, "calibrate", lambda threads=(1,): whole(threads, steps=1 << 12))


@pytest.fixture
def compiled_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure with the existing machine code; a slow test covers fresh compilation."""
    for benchmark in (bench, scaling):
        monkeypatch.setattr(benchmark, "compiled_afresh", lambda _settings: nullcontext({}))


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure in this process; `test_a_measurement_has_a_process_of_its_own` does not use this."""

    def measured(
        what: str, path: Any, threads: int, repeats: int, engine: str, spend_seconds: float, _: Any
    ) -> dict[str, Any]:
        measure = {"count": measure_count, "write": measure_write}[what]
        return json.loads(json.dumps(asdict(measure(path, threads, repeats, engine, spend_seconds))))

    monkeypatch.setattr(count_and_write, "_in_fresh_process", measured)


def row(name: str, one: float, two: float | None = None, write: float | None = None, memory: int = 10**8) -> Row:
    """Return a row with made-up times."""
    known = BY_NAME[name]
    facts = (name, known.n_edges, known.n_bicliques or 0, "cpu", "somewhere")
    counts = {
        n: CountTimes(*facts, (t,) * 5, (t * n * 0.96,) * 5, 0.1, 10**8)
        for n, t in ((1, one), (2, two))
        if t is not None
    }
    written = None if write is None else WriteTimes(*facts, (write,), {}, memory, 1)
    return Row(name, known, counts, written)


@pytest.mark.slow
def test_machine_code_is_compiled_afresh_and_removed_afterwards() -> None:
    with measuring.compiled_afresh(Settings(engine="reference")) as environment:
        folder = Path(environment["NUMBA_CACHE_DIR"])
        assert list(folder.rglob("*.code"))
    assert not folder.exists()


def test_a_measurement_has_a_process_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("a,x\na,y\nb,x\nb,z\n")
    written = bench_write(path, repeats=1, engine="reference")
    assert (written.graph, written.n_bicliques) == ("edges", 3)
    assert written.peak_memory_bytes > 1 << 20
    with pytest.raises(InputError, match=r"no\.csv"):
        bench_write(tmp_path / "no.csv", repeats=1, engine="reference")


@pytest.mark.usefixtures("quick_calibration", "compiled_before", "in_this_process")
def test_one_command_prints_the_table(graphs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "mine.csv"
    other.write_text("left,right\na,x\na,y\nb,y\n")
    figures = tmp_path / "figures.json"
    asked = [
        "--graphs",
        "southern_women",
        str(other),
        "--engine",
        "reference",
        "--repeats",
        "2",
        "--json",
        str(figures),
    ]
    assert bench.main([*asked, "--write-repeats", "1"]) == 0
    out = capsys.readouterr().out
    lines = [line for line in out.splitlines() if line.startswith("| ")]
    assert [line.split("|")[1].strip() for line in lines[2:4]] == ["southern_women", "mine"]
    assert [line.split("|")[2].strip() for line in lines[2:4]] == ["63", "2"]
    for word in ("calibration", "idle ", "load ", "commit", "numba", "python", "median of 2"):
        assert word in out
    values = json.loads(figures.read_text())
    first = values["graphs"][0]
    assert set(first["count"]) == {"1", "2"}
    assert len(first["count"]["1"]["seconds"]) == 2
    assert len(first["write"]["seconds"]) == 1
    assert first["write"]["n_bicliques"] == 63
    assert first["write"]["written_bytes"] > 1000
    assert first["write_seconds"] > 0
    assert first["busy_ratio"]["1"] > 0
    assert set(values["calibration"]["before"]["each_of_threads"]) == {"2"}
    assert graphs.is_dir()


@pytest.mark.usefixtures("quick_calibration", "compiled_before", "in_this_process", "graphs")
def test_a_wrong_count_is_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = BY_NAME["southern_women"].__class__("southern_women", 18, 14, 89, 64, "agreed", "", "")
    monkeypatch.setitem(BY_NAME, "southern_women", wrong)
    asked = ["--graphs", "southern_women", "--engine", "reference", "--threads", "1", "--repeats", "1"]
    assert bench.main([*asked, "--write-repeats", "0"]) == 1
    printed = capsys.readouterr()
    assert "63 WRONG" in printed.out
    assert "counted 63 maximal bicliques; expected 64" in printed.err


def test_missing_graphs_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MBE_DATA", str(tmp_path))
    assert bench.main([]) == 2
    assert "youtube.npz" in capsys.readouterr().err
    assert bench.main(["--graphs", "youtube"]) == 2
    assert "KONECT: youtube-groupmemberships" in capsys.readouterr().err
    assert bench.main(["--graphs", "no such graph"]) == 2
    assert "neither a graph of the list nor a file" in capsys.readouterr().err


def test_graphs_are_made_from_their_source(graphs: Path, tmp_path: Path) -> None:
    # Swapped columns, a repeated edge and a different format.
    konect = tmp_path / "out.davis"
    pairs = [f"{event} {woman + 1}" for woman, events in enumerate(DAVIS) for event in events.split()]
    konect.write_text("\n".join(["% bip unweighted", *pairs, pairs[0]]) + "\n")
    made = convert("southern_women", konect, tmp_path / "made")
    with np.load(made) as found, np.load(graphs / "southern_women.npz") as expected:
        assert set(zip(found["u"], found["v"], strict=True)) == set(zip(expected["u"], expected["v"], strict=True))
        assert len(found["u"]) == 89
    with pytest.raises(InputError, match="14 x 18, 89 distinct edges; expected 25 x 15, 95"):
        convert("club_membership", konect, tmp_path / "made")
    assert find_graph("southern_women", tmp_path / "made")[0] == made


def test_figures_belong_to_graphs() -> None:
    assert len(BY_NAME) == len(GRAPHS)
    assert {figure.graph for figure in PEERS} <= set(BY_NAME)
    assert set(AT_MOST_SECONDS) <= {graph.name for graph in GRAPHS if graph.measured}
    for name, most in AT_MOST_SECONDS.items():
        best = best_single_thread(name)
        assert best is not None
        assert most < best.seconds


def test_best_programs() -> None:
    best = best_single_thread("github_half")
    assert best is not None
    assert (best.program, best.seconds) == ("MBET", 1.54)
    assert best_single_thread("bookcrossing") is None
    parallel = best_cpu("bookcrossing")
    assert parallel is not None
    assert (parallel.program, parallel.threads, parallel.seconds) == ("ParAdaMBE", 16, 37.0)


def test_targets() -> None:
    rows = [row("youtube", 1.115, 0.5, 2.0), row("EuAll", 17.5, 10.0, 40.0), row("mushroom", 0.18, 0.18)]
    verdicts = {target.what: target.met for target in targets(rows)}
    assert verdicts == {
        "youtube: counted on one thread": False,
        "youtube: speed-up by two threads": True,
        "youtube: two threads busy, share of their time": True,
        "youtube: written over counted": True,
        "EuAll: counted on one thread": False,
        "EuAll: speed-up by two threads": False,
        "EuAll: two threads busy, share of their time": True,
        "EuAll: written over counted": False,
        "mushroom: counted on one thread": True,
        "time over the best program's, geometric mean of 3 of 9 graphs": False,
        "the same, worst of 3 of 9 graphs": True,
    }
    assert ratio_to_best(rows[0]) == pytest.approx(0.5)
    assert geometric_mean([0.5, 1.0, 0.5]) == pytest.approx(0.63, abs=0.001)
    small, large = (targets([row("bookcrossing", 30.0, None, 60.0, memory)]) for memory in (2 * 10**9, 2 * 10**9 + 1))
    assert [target.met for target in (*small, *large)] == [True, False]


def test_table_holds_every_comparison() -> None:
    table = results_table([row("youtube", 1.0, 0.5, 1.5), row("bookcrossing", 30.0)])
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    youtube = dict(zip(cells[0], cells[2], strict=True))
    assert youtube["bicliques"] == "1,826,587"
    assert youtube["speed-up, 2"] == "2.00"
    assert youtube["write / count"] == "1.50"
    assert youtube["best program, 1 thread"] == "2.23 s AdaMBE"
    assert youtube["ours / best"] == "0.45"
    assert youtube["met"] == "yes"
    bookcrossing = dict(zip(cells[0], cells[3], strict=True))
    assert bookcrossing["best program, 1 thread"] == "(37 s ParAdaMBE, 16 threads)"
    assert bookcrossing["ours / best"] == bookcrossing["write, 1 thread"] == "-"


def test_markdown_table_is_aligned() -> None:
    table = markdown_table(["a", "number"], [["long name", "1"], ["b", "22"]], right_from=1)
    assert table.splitlines() == [
        "| a         | number |",
        "| --------- | -----: |",
        "| long name |      1 |",
        "| b         |     22 |",
    ]


@pytest.mark.slow
def test_the_calibration_loop_does_the_same_work_everywhere() -> None:
    # It checks its own result, here at full length.
    found = machine.calibrate()
    assert found.one_thread > 0
    assert found.each_of_threads == {}


def test_another_result_of_the_calibration_loop_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_STEPS", 1000)
    with pytest.raises(RuntimeError, match="calibration loop"):
        machine.calibrate(steps=1000)


def test_idleness_reports_its_warnings() -> None:
    quick, slow = machine.Calibration(0.5, {}), machine.Calibration(0.6, {})
    alone = machine.Idleness((0.0, 0.0, 0.0), (1.0, 0.5, 0.2), 0.01, 0.0)
    shared = machine.Idleness(None, None, 0.437, 0.2)
    assert machine.why_not_idle(alone, quick, quick) == []
    assert machine.why_not_idle(machine.Idleness(None, None, None, None), quick, quick) == []
    assert machine.why_not_idle(shared, quick, slow) == [
        "other processes took 43.7% of the processor",
        "other virtual machines took 20.0% of the processor",
        "the calibration loop took 20% longer at one end of the benchmark than at the other",
    ]


@pytest.mark.usefixtures("compiled_before")
@pytest.mark.slow
def test_scaling_measures_and_draws(
    graphs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "calibrate", lambda: machine.Calibration(0.5, {}))
    files = ["--json", str(tmp_path / "figures" / "s.json"), "--image", str(tmp_path / "images" / "s.svg")]
    asked = ["--graphs", "southern_women", "--sampled", "southern_women", "--repeats", "1", "--engine", "reference"]
    assert scaling.main([*asked, *files]) == 0
    figures = json.loads((tmp_path / "figures" / "s.json").read_text())
    assert [(entry["graph"], entry["bicliques"]) for entry in figures["graphs"]] == [("southern_women", 63)]
    assert [(entry["percent"], entry["edges"]) for entry in figures["samples"]] == [
        (10, 8),
        (25, 22),
        (50, 44),
        (100, 89),
    ]
    assert figures["samples"][-1]["bicliques"] == 63
    assert "southern_women 10 %" in capsys.readouterr().out
    drawn = (tmp_path / "images" / "s.svg").read_text()
    (tmp_path / "images" / "s.svg").unlink()
    assert scaling.main(["--draw", *files]) == 0
    assert (tmp_path / "images" / "s.svg").read_text() == drawn
    assert graphs.is_dir()


def test_larger_samples_contain_smaller_ones(graphs: Path, tmp_path: Path) -> None:
    found = []
    for share in (10, 50, 100):
        with np.load(scaling.sample_edges(graphs / "southern_women.npz", share, tmp_path)) as edges:
            found.append(set(zip(edges["u"].tolist(), edges["v"].tolist(), strict=True)))
    assert [len(edges) for edges in found] == [8, 44, 89]
    assert found[0] < found[1] < found[2]


def test_the_chart_shows_every_point() -> None:
    graphs = [Point(63, 4e-4, "small"), Point(10**6, 0.5, "large & <odd>"), Point(10**6, 0.5, "the same place")]
    samples = [Point(10**5, 0.1, "10 %"), Point(10**6, 9.0, "100 %")]
    root = ET.fromstring(scaling_svg(graphs, samples, "large", "a note"))
    space = "{http://www.w3.org/2000/svg}"
    titles = [title.text for title in root.iter(f"{space}title")]
    assert sum("maximal bicliques," in (title or "") for title in titles) == 3
    assert sum("edges," in (title or "") for title in titles) == 2
    circles = list(root.iter(f"{space}circle"))
    assert len(circles) == 5
    assert all(0 <= float(circle.attrib["cx"]) <= 560 for circle in circles)
    names = [text.text for text in root.iter(f"{space}text") if text.attrib.get("class") == "name"]
    assert "large & <odd>" in names


def test_options_in_the_readme_exist(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (Path(bench.__file__).parent / "README.md").read_text()
    named = set(re.findall(r"`(--[a-z-]+)", readme))
    on_a_gpu = (bench_gpu, groups_gpu, pq_gpu, pq_gpu_memory, cliques_gpu, projection_gpu, devices_gpu)
    for program in (bench, ablation, checkpoints, cluster, estimates, groups, *on_a_gpu):
        with pytest.raises(SystemExit):
            program.main(["--help"])
    help_text = capsys.readouterr().out
    assert named
    assert [option for option in named if option not in help_text] == []


def _statistics() -> set[str]:
    """Return the keys of `Session.statistics`, read from its source: importing it needs CuPy."""
    source = Path(__file__).parents[1] / "mbe_stage" / "bicliques" / "cuda" / "session.py"
    functions = [each for each in ast.walk(ast.parse(source.read_text())) if isinstance(each, ast.FunctionDef)]
    (statistics,) = (each for each in functions if each.name == "statistics")
    (given,) = (each.value for each in ast.walk(statistics) if isinstance(each, ast.Return))
    assert isinstance(given, ast.Dict)
    return {ast.literal_eval(key) for key in given.keys if key is not None}


def test_a_refused_budget_does_not_end_the_gpu_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def count(_graph: object, execution: Execution, facts: dict[str, float] | None = None) -> int:
        if execution.device_memory_bytes is not None:
            raise MemoryBudgetExceeded("too small")
        if facts is not None:
            facts |= dict.fromkeys(_statistics(), 1.0)
        return bench_gpu.TARGETS["bookcrossing"][0]

    monkeypatch.setattr(bench_gpu, "_median", lambda work, _repeats: (0.5, work()))
    monkeypatch.setattr(bench_gpu, "count", count)
    monkeypatch.setattr(bench_gpu, "_materialise", lambda _graph: bench_gpu.TARGETS["bookcrossing"][0])
    monkeypatch.setattr(bench_gpu, "_host_blocks", lambda _graph: [range(bench_gpu.TARGETS["bookcrossing"][0])])
    row = bench_gpu._measured_graph("bookcrossing", None, 5)
    assert row["visited"] == dict.fromkeys(("opened", "closed_sets", "list_children", "donated", "quanta"), 1.0)
    assert row["small_budget_seconds"] is None
    assert row["refused"] == ["small_budget_seconds: too small"]
    table_row, reason = bench_gpu._line(row).splitlines()
    assert "54,458,949    0.5000" in table_row
    assert "WRONG" not in table_row
    assert reason == "  REFUSED small_budget_seconds: too small"
    monkeypatch.setattr(bench_gpu, "_materialise", lambda _graph: 1)
    assert "WRONG" in bench_gpu._line(bench_gpu._measured_graph("bookcrossing", None, 5))


def test_the_gpu_table_fails_where_a_run_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = {"found": None, "bicliques": 3, "seconds": None, "at_most": 1.0, "gmbe_plus": 2.0, "paradambe": None}
    refused |= {"graph": "marvel", "kernel_seconds": None, "busy_ratio": None, "busy_warps": None}
    refused |= {"refused": ["count: too small"]}
    monkeypatch.setattr(bench_gpu.engine_cuda, "unavailable_reason", lambda: None)
    monkeypatch.setattr(bench_gpu, "device_facts", lambda _commit: {"device": "", "date": "", "commit": ""})
    monkeypatch.setattr(bench_gpu, "_measured", lambda _names, _repeats: iter([refused]))
    assert bench_gpu.main(["marvel"]) == 1
    monkeypatch.setattr(bench_gpu, "_measured", lambda _names, _repeats: iter([refused | {"found": 3, "refused": []}]))
    assert bench_gpu.main(["marvel"]) == 0


def test_wrong_counts_on_a_gpu_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = {(4, 4): pq_gpu.KNOWN["youtube", 4]}
    row = ("youtube", None, PqQuery.of(4, 4), right[4, 4], pq_gpu.GBC["youtube"][1], 2)
    monkeypatch.setattr(pq_gpu, "count", lambda *_, **__: (right, True))
    measured = pq_gpu._row(*row)
    assert measured["right"] is True
    assert measured["times"] == measured["GBC"] / measured["seconds"]
    monkeypatch.setattr(pq_gpu, "count", lambda *_, **__: ({(4, 4): 1}, True))
    assert pq_gpu._row(*row)["right"] is False
    for program in (pq_gpu, pq_gpu_memory, cliques_gpu, projection_gpu, devices_gpu):
        monkeypatch.setattr(program.engine_cuda, "unavailable_reason", lambda: "it is not plugged in")
        assert program.main([]) == 4
        assert "no CUDA engine here: it is not plugged in" in capsys.readouterr().err


def test_failed_or_wrong_counts_with_less_memory_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    preparation = SimpleNamespace(preparation_bytes=lambda _graph: 3200)
    monkeypatch.setitem(sys.modules, "mbe_stage.pq_counts.cuda.prepare", preparation)

    def count(_graph: object, _query: object, facts: dict[str, int], _limit: float, execution: Execution) -> object:
        if execution.device_memory_bytes == 1:
            raise MemoryBudgetExceeded("too little", needed_bytes=77)
        if execution.device_memory_bytes == 77:
            return {(2, 2): 3}, False
        facts |= {"kernel_us": 1000, "plan_bytes": 3000}
        return {(2, 2): 5 if execution.device_memory_bytes != 400 else 4}, True

    monkeypatch.setattr(pq_gpu_memory, "count", count)
    graph = BipartiteCSR.from_edges([0], [0])
    measured = list(pq_gpu_memory._measured(graph, partial(pq_gpu_memory._counted, graph, 2, 9.0, 1)))
    texts, rights = zip(*measured, strict=True)
    assert rights == (True, True, False, True, True)
    assert [text.split(":")[0] for text in texts[1:]] == [
        "1/2 of 3,200, 1,600 bytes",
        "1/8 of 3,200, 400 bytes",
        "1/32 of 3,200, 100 bytes",
        "smallest, 77 bytes",
    ]
    assert "kernel 1.00 times, in all" in texts[1]
    assert texts[-1].startswith("smallest, 77 bytes: given up after")
    assert "kernel" not in texts[-1]


def test_wrong_clique_counts_on_a_gpu_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"kernel_us": 500, "warps": 8, "busy_ns": 3_000_000, "idle_ns": 500_000, "piece_ns": 1_000_000}
    facts |= dict.fromkeys(("visited", "pieces", "nodes", "pool_words", "quanta", "plan_bytes"), 1)
    facts |= {"least_busy_ns": 300_000, "median_busy_ns": 375_000, "most_busy_ns": 750_000}
    peers = cliques_gpu.PEERS["wiki_Vote"]
    found = [peers.n_cliques] * 4
    options: list[set[str]] = []

    def run(*_: object, statistics: dict[str, int], **given: object) -> list[CliqueBlock]:
        options.append({*given})
        statistics.update(facts)
        return [CliqueBlock(found.pop())]

    def enumerate_into(sink: object, *given: object) -> None:
        # As a user calls it: only graph, query, execution and engine.
        assert len(given) == 4
        sink.accept(CliqueBlock(found.pop()))

    monkeypatch.setattr(cliques_gpu.engine_cuda, "run", run)
    monkeypatch.setattr(cliques_gpu.engine_cuda, "device_blocks", run)
    monkeypatch.setattr(cliques_gpu, "enumerate_cliques_into", enumerate_into)
    synchronized = SimpleNamespace(deviceSynchronize=lambda: None)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=synchronized)))
    graph = UndirectedCSR.from_edges([0], [1])
    right = cliques_gpu._row("wiki_Vote", graph, CliqueDetail.COUNT, 1)
    assert right["right"] is True
    assert right["times RDMCE"] == pytest.approx(0.0016 / 0.0005)
    assert right["busy"] == pytest.approx(0.75)
    assert [right[f"{which} load"] for which in ("least", "median", "most")] == pytest.approx([0.8, 1.0, 2.0])
    assert right["seconds"] < 1
    found[:] = [peers.n_cliques, peers.n_cliques, peers.n_cliques, peers.n_cliques - 1]
    assert cliques_gpu._row("wiki_Vote", graph, CliqueDetail.COUNT, 1)["right"] is False
    # The ablation is not a user's run and has no such time.
    found[:] = [peers.n_cliques] * 2
    left_out = cliques_gpu._row("wiki_Vote", graph, CliqueDetail.COUNT, 1, Techniques.without("joins"))
    assert left_out["right"] is True
    assert "seconds" not in left_out
    found[:] = [peers.n_cliques] * 4
    assert cliques_gpu._row("wiki_Vote", graph, CliqueDetail.MEMBERS, 1, on_device=True)["right"] is True
    assert set().union(*options) == {"techniques"}


def test_no_benchmark_of_times_takes_options_for_tests() -> None:
    """Memory plan fields are for tests: callers of the library cannot set them."""
    for path in Path(bench.__file__).parent.glob("*.py"):
        for call in (each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.Call)):
            assert "sizes" not in {keyword.arg for keyword in call.keywords} or path.name == "bench_diff.py", path


def test_cliques_of_a_projection_are_counted_or_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = UndirectedCSR.from_edges([0], [1])

    def run(
        searched: UndirectedCSR, *_: object, statistics: dict[str, int] | None = None, **__: object
    ) -> Iterator[CliqueBlock]:
        if statistics is not None:
            statistics.update(roots=4000, roots_done=1000)
        yield CliqueBlock(1 if searched is not graph else 70, work_done=0.25)
        if searched is graph:
            yield from blocks

    monkeypatch.setattr(projection_gpu.engine_cuda, "run", run)
    blocks = [CliqueBlock(5, work_done=1.0)]
    assert [line.split(" in ")[0] for line in projection_gpu.counted_within(graph, 60.0)] == ["all 75 maximal cliques"]
    (line,) = projection_gpu.counted_within(graph, 0.0)
    assert "70 cliques" in line
    assert "25.0000% of the roots done, 3,000 left" in line


@pytest.mark.usefixtures("graphs")
@pytest.mark.slow
def test_processes_are_timed_from_start_to_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert rapids_start.main(["southern_women", "--engine", "reference", "--repeats", "2"]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    for line in lines:
        wall, steps = map(float, re.search(r" +([\d.]+) +([\d.]+)  ", line).groups())
        assert wall >= steps > 0


@pytest.mark.slow
def test_bench_diff_measures_every_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = bench_diff.measure(tmp_path, 400)
    assert [found["case"] for found in results] == [case.name for case in bench_diff.CASES]
    few, many, others = (found["counts"] for found in results)
    assert 0 < few["new"] + few["grown"] + few["shrunk"] + few["changed"] < 20
    assert many["grown"] > 20
    assert many["new"] + many["grown"] + many["shrunk"] + many["changed"] == 400
    assert others["gone"] > 300
    assert all(found["peak_bytes"] > 1 << 20 and found["searched_from"] == 0 for found in results)
    assert capsys.readouterr().out.count("searched from") == 3


def test_shown_progress_is_printed_next_to_the_truth(capsys: pytest.CaptureFixture) -> None:
    seen = [Progress(10 * k, 0.5, float(k), "cpu", None, 0.09 * k if k > 5 else None, 11.0 - k) for k in range(11)]
    seen.append(Progress(110, 1.0, 11.0, "cpu"))
    rows = [line.split() for line in shown_progress.lines(seen, 110, is_complete=True)]
    assert rows[0] == ["1.0", "9.1%", "9.1%", "50.0%", "-", "10.0", "10.0"]
    assert rows[-1] == ["10.0", "90.9%", "90.9%", "50.0%", "90.0%", "1.0", "1.0"]
    assert shown_progress.lines(seen, 220, is_complete=False)[-1].split()[1::5] == ["45.5%", "-"]
    shown_progress.main(["crown8", "--threads", "1"])
    said = capsys.readouterr().out
    assert said.startswith("crown8: 254 of 254 in ")
    assert re.fullmatch(r"the sampler took \d+\.\d\d s of a core, \d+\.\d% of all", said.splitlines()[1])


def test_the_cost_of_a_trial_in_a_first_look_is_printed(capsys: pytest.CaptureFixture) -> None:
    estimates.main(["crown8", "--inspect"])
    head, row = capsys.readouterr().out.splitlines()
    assert head.split()[0] == "graph"
    name, *walls = row.split()
    without, with_trial, added = map(float, walls)
    assert name == "crown8"
    assert added == pytest.approx(with_trial - without, abs=0.02)


def test_the_cost_of_checkpoints_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("left,right\n" + "".join(f"u{u},v{v}\n" for u in range(9) for v in range(9) if u != v))
    # No separate processes are needed here.
    monkeypatch.setattr(checkpoints, "_alone", checkpoints.published)
    checkpoints.main([str(path), "--repeats", "2"])
    title, wall, processors = capsys.readouterr().out.splitlines()
    assert title.endswith("edges.csv, the least of 2, in turn:")
    # A run this short has none.
    assert re.fullmatch(r"  seconds .* without, .* with 0/0 checkpoints: [+-].*%", wall)
    assert re.fullmatch(r"  of processors .* without, .* with 0/0 checkpoints: [+-].*%", processors)


def test_the_speedup_of_a_cluster_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("distributed", reason="needs Dask: pip install 'mbe-stage[dask]'")
    path = tmp_path / "edges.csv"
    path.write_text("left,right\n" + "".join(f"u{u},v{v}\n" for u in range(9) for v in range(9) if u != v))
    by_cluster = cluster.by_cluster(str(path), 1)
    assert by_cluster.n_bicliques == measure_count(path, 1, 1, "cpu").n_bicliques == 2**9 - 2
    assert len(by_cluster.seconds) == 2
    # No separate processes are needed here.
    rounds = iter([(2.0, 1.0, 4.0, 0.5), (3.0, 2.0, 1.0, 1.0), (4.0, 2.0, 2.0, 1.0)])

    def made_up(_graph: str, _workers: int) -> tuple[Any, ...]:
        one, several, first, again = next(rounds)
        counted = [SimpleNamespace(n_bicliques=7, seconds=(seconds,)) for seconds in (one, several)]
        return (*counted, cluster.Counted(7, 1.5, (first, again), (0.9, 1.0)))

    monkeypatch.setattr(cluster, "_round", made_up)
    cluster.main([str(path), "--rounds", "3"])
    title, *rows, whole, last = capsys.readouterr().out.splitlines()
    assert whole == "  its start counted, the first search gains 1.14 times one thread"
    assert title.endswith("edges.csv, 7 maximal bicliques counted, 3 rounds:")
    said = [[float(number) for number in re.findall(r"\d+\.\d+", row)] for row in rows]
    assert said == [
        [3.0, 2.0, 4.0, 1.0, 1.0, 1.0],
        [2.0, 1.0, 2.0, 2.0, 1.5, 2.0],
        [2.0, 1.0, 4.0, 2.0, 0.5, 3.0],
        [1.0, 0.5, 1.0, 4.0, 3.0, 4.0],
    ]
    assert last.endswith("after 1.5 s; in the first search they were busy 0.90 1.00")


@pytest.mark.parametrize("how", ["in turn", "at once"])
def test_runs_with_and_without_checkpoints_are_distinguished(
    how: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = []

    def alone(_graph: str, checkpoint_seconds: float | None, *, sort: bool, means: object) -> checkpoints.Cost:  # noqa: ARG001
        begun.append(checkpoint_seconds)
        return checkpoints.Cost(*((2.0, 4.0, 0) if checkpoint_seconds is None else (3.0, 5.0, 7)))

    monkeypatch.setattr(checkpoints, "_alone", alone)
    checkpoints.main(["any", "--repeats", "2", *(["--at-once"] if how == "at once" else [])])
    _, *lines = capsys.readouterr().out.splitlines()
    if how == "in turn":
        assert begun == [None, 10.0, 10.0, None]
        assert [line.split()[-5:] for line in lines] == [
            ["3.00", "with", "7/7", "checkpoints:", "+50.0%"],
            ["5.00", "with", "7/7", "checkpoints:", "+25.0%"],
        ]
    else:
        assert sorted(map(str, begun)) == ["10.0", "10.0", "None", "None"]
        assert [line.split()[-5:] for line in lines] == [["5.00", "with", "7", "checkpoints:", "+25.0%"]] * 2
