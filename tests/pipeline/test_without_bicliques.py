"""Runs that leave out their bicliques: everything else equals a full run, and is checked as far as possible."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.pipeline import Config, count, load_config, run
from mbe_stage.pipeline.backends.arrow.member_rows import MemberRows
from mbe_stage.pipeline.errors import ConfigError, PublishError, VerificationError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.problems.bicliques.arrow import ParquetSink
from mbe_stage.pipeline.problems.installed import publication_of
from mbe_stage.pipeline.publish.manifest import Manifest, config_fingerprint, read_manifest
from mbe_stage.pipeline.publish.reading import bicliques_parts
from mbe_stage.pipeline.publish.run_files import PLAIN_VERSION
from mbe_stage.pipeline.verify import verify_run
from mbe_stage.pipeline.verify.groups import check as check_groups
from mbe_stage.pipeline.verify.job import Job
from mbe_stage.pipeline.views.export import export_run
from tests.pipeline.groups_support import EDGES, planted, rows, settings, tables
from tests.pipeline.output_support import assert_nothing_staged, assert_sound
from tests.pipeline.test_problem_seam import edit, forge, mbe, refusal, said

LEFT_OUT = {"output": {"bicliques": False}}
SUMS = ("left_vertices", "right_vertices", "size_histogram")


@pytest.fixture(scope="module")
def edges_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("input") / "edges.parquet"
    pq.write_table(EDGES, path)
    return path


@pytest.fixture
def left_out(tmp_path: Path) -> Path:
    """A run with groups only."""
    return run(settings(tmp_path / "out", **LEFT_OUT), EDGES).run_dir


# --- published content --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "section", [{}, {"kind": "grown_cover"}, {"rank_by": "surprise_per_vertex", "limit": 1}], ids=str
)
@pytest.mark.parametrize("seed", range(2))
def test_all_but_the_bicliques_is_the_same(tmp_path: Path, section: dict[str, Any], seed: int) -> None:
    edges, engine = planted(seed), ("reference", "cpu")[seed]
    query = {"min_left": 1 + seed, "min_right": 1 + seed % 2}
    whole, part = (
        run(settings(tmp_path / name, engine, groups=section, query=query, output={"bicliques": keeps}), edges)
        for name, keeps in (("a", True), ("b", False))
    )
    assert part.manifest.counts == whole.manifest.counts
    assert part.manifest.content_fingerprint == whole.manifest.content_fingerprint
    assert part.manifest.derived == whole.manifest.derived
    assert part.manifest.config_fingerprint != whole.manifest.config_fingerprint
    assert tables(part.run_dir) == tables(whole.run_dir)
    for name in SUMS:
        assert pq.read_table(part.run_dir / f"{name}.parquet") == pq.read_table(whole.run_dir / f"{name}.parquet")
    missing = {path.name for path in whole.run_dir.iterdir()} - {path.name for path in part.run_dir.iterdir()}
    assert missing == {"bicliques"}
    assert_sound(part.run_dir)
    checks = {check.name for check in verify_run(part.run_dir, ingest(Config().input, edges)).checks}
    assert {"complete and maximal", "manifest counts and content fingerprint", "groups"} <= checks


def test_results_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No rows are made, no file is opened, and no block stays."""

    def fail(*_: object) -> None:
        raise AssertionError("nobody asked for the table")

    for name in ("batch", "canonical_order"):
        monkeypatch.setattr(MemberRows, name, fail)
    monkeypatch.setattr("mbe_stage.pipeline.problems.bicliques.arrow.members_batch", fail)
    monkeypatch.setattr("mbe_stage.pipeline.backends.arrow.block_writer.PartWriter", fail)
    hashes = np.arange(1, 11, dtype=np.uint64), np.arange(1, 11, dtype=np.uint64)
    ones, members = np.ones(2, np.int32), np.array([0, 1], np.int32)
    with ParquetSink(tmp_path, *hashes, bicliques=False) as sink:
        for _ in range(50):
            sink.accept(BicliqueBlock(2, ones, ones, members, members))
    assert sink.summary.fingerprint.n_items == 100
    assert list(tmp_path.iterdir()) == []


def test_fingerprints_of_full_runs_are_unchanged() -> None:
    """The key is new, and runs that keep the table have the same fingerprint as before."""
    output = {"members": False, "sort": False, "two_hop_steps": 2_000_000_000, "report": True, "top": 20}
    asked = {
        "schema_version": PLAIN_VERSION,
        "key_type": "auto",
        "query": Config().query.model_dump(mode="json"),
        "execution": {"max_bicliques": None, "time_limit_seconds": None},
        "output": output,
    }
    assert config_fingerprint(Config()) == hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def test_a_truncated_run_is_marked_and_verified(tmp_path: Path) -> None:
    limited = {"engine": "cpu", "max_bicliques": 74}
    result = run(settings(tmp_path, "cpu", execution=limited, groups={"kind": "short_list"}, **LEFT_OUT), planted(2))
    assert result.manifest.truncated is not None
    assert "better groups may be missing" in (result.run_dir / "report.html").read_text()
    report = verify_run(result.run_dir, ingest(Config().input, planted(2)))
    assert any("the run is incomplete" in text for text in report.not_checked)
    assert "groups complete and maximal" in {check.name for check in report.checks}


def test_a_run_without_bicliques_at_all(tmp_path: Path) -> None:
    result = run(settings(tmp_path, query={"min_left": 99}, **LEFT_OUT), EDGES)
    verify_run(result.run_dir, ingest(Config().input, EDGES))
    verify_run(result.run_dir)


# --- settings -----------------------------------------------------------------------------------------------------


def test_the_option_is_the_key(tmp_path: Path, edges_file: Path) -> None:
    options = ("--engine", "reference", "--quiet", "--groups", "--no-bicliques")
    told = said("enumerate", edges_file, "--out", tmp_path / "a", *options)
    manifest = read_manifest(told["run"])
    assert not manifest.config.output.bicliques
    assert told["content_fingerprint"] == manifest.content_fingerprint != "0"
    assert said("verify", told["run"], "--quiet")["verified"]
    shown = mbe("enumerate", edges_file, "--out", tmp_path / "a", *options).stdout
    assert f"next       mbe show {tmp_path / 'a'}" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--no-bicliques",), "--no-bicliques: leaves the bicliques out, but nothing else is made of them"),
        (("--no-bicliques", "--groups", "--members"), "--members needs the table of bicliques, but --no-bicliq"),
        (("--no-bicliques", "--groups", "--sort"), "--sort needs the table of bicliques, but --no-bicliques"),
    ],
)
def test_contradictory_options_are_refused(tmp_path: Path, edges_file: Path, options: Any, message: str) -> None:
    assert message in refusal("enumerate", edges_file, "--out", tmp_path / "out", *options, code=2)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("installed")
def test_other_problems_refuse_the_option() -> None:
    with pytest.raises(ConfigError, match=r"output\.bicliques.*is for the problem bicliques"):
        Config.from_mapping({"problem": "butterflies", **LEFT_OUT})


@pytest.mark.usefixtures("installed")
def test_outputs_of_other_packages_count_as_output(tmp_path: Path) -> None:
    config = settings(tmp_path, groups=None, smaller_sides={}, **LEFT_OUT)
    result = run(config, EDGES)
    verify_run(result.run_dir, ingest(Config().input, EDGES))
    assert any("smaller sides" in text for text in verify_run(result.run_dir).not_checked)


def test_the_run_is_read_without_that_package(left_out: Path) -> None:
    edit(left_out, lambda values: values["config"].update(foreign={"key": 1}))
    edit(left_out, lambda values: values["config"].pop("groups"))
    manifest = read_manifest(left_out)
    assert not manifest.config.output.bicliques
    assert manifest.config.section("foreign") == {"key": 1}


def test_counting_alone_is_no_contradiction(tmp_path: Path) -> None:
    config = settings(tmp_path, **LEFT_OUT)
    assert count(config, EDGES).n_found == run(config, EDGES).manifest.n_found


def test_the_shipped_default_keeps_them() -> None:
    assert load_config(None).output.bicliques


# --- readers ------------------------------------------------------------------------------------------------------


def test_readers_of_bicliques_are_refused(left_out: Path) -> None:
    with pytest.raises(PublishError, match=r"was published without its bicliques .*; run it again with them"):
        bicliques_parts(left_out)


def test_groups_are_exported_instead(left_out: Path) -> None:
    exported = mbe("export", left_out, "--csv", "-q").stdout
    assert exported == mbe("export", left_out, "--csv", "--groups", "-q").stdout
    assert exported.startswith('"group"')


def test_exports_of_bicliques_are_refused(left_out: Path) -> None:
    message = r"was published without its bicliques \(output.bicliques: false\).*run it again with them"
    with pytest.raises(PublishError, match=message):
        export_run(left_out, io.BytesIO())


def test_two_different_runs_cannot_be_compared_one_by_one(tmp_path: Path, left_out: Path) -> None:
    other = run(settings(tmp_path / "out", **LEFT_OUT), planted(9)).run_dir
    assert said("diff", left_out, other)["groups"]
    comparison = read_manifest(other).comparison
    assert comparison is not None
    assert comparison.run_id == left_out.name
    assert "the differences are unknown" in comparison.remarks[0]
    again = run(settings(tmp_path / "out", **LEFT_OUT), planted(9)).manifest.comparison
    assert again is not None
    assert "both hold the same bicliques" in again.remarks[0]


def test_inspect_expects_no_bytes(edges_file: Path) -> None:
    asked = ("inspect", edges_file, "--engine", "reference", "--trial", 0.1, "--set", "groups.limit=5")
    assert said(*asked)["estimate"]["bytes"]["middle"] > 0
    assert said(*asked, "--set", "output.bicliques=false")["estimate"]["bytes"]["high"] == 0


def test_the_report_says_so(left_out: Path) -> None:
    page = (left_out / "report.html").read_text()
    assert "the bicliques were counted and not written" in " ".join(page.split())
    assert "bicliques/*.parquet" not in page


def test_a_lost_table_has_its_own_message(tmp_path: Path) -> None:
    result = run(settings(tmp_path), EDGES)
    for part in bicliques_parts(result.run_dir):
        part.unlink()
    with pytest.raises(PublishError, match="no table of bicliques; expected"):
        bicliques_parts(result.run_dir)
    assert_nothing_staged(tmp_path)


# --- verification -------------------------------------------------------------------------------------------------


def put(*path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return a change of a value in the manifest."""

    def change(values: dict[str, Any]) -> None:
        for key in path[:-1]:
            values = values[key]
        values[path[-1]] = value(values[path[-1]]) if callable(value) else value

    return change


def one_more(column: str, row: int = 0) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    def change(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**each, column: each[column] + 1} if n == row else each for n, each in enumerate(table)]

    return change


@pytest.mark.parametrize("given", ["nothing", "input"])
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("size_histogram", one_more("n_bicliques"), r"counts\.bicliques|recomputed"),
        ("size_histogram", one_more("n_left"), r"counts\.left_members|recomputed|twice"),
        ("size_histogram", lambda table: table[1:], r"counts\.bicliques|is missing"),
        ("size_histogram", lambda table: [*table, table[0]], r"twice"),
        ("left_vertices", one_more("n_bicliques"), "n_bicliques"),
        ("right_vertices", one_more("largest_biclique_edges"), "largest_biclique_edges|largest biclique"),
        ("left_vertices", lambda table: [{**table[0], "largest_biclique_key": None}, *table[1:]], "largest_biclique_k"),
        ("left_vertices", one_more("degree"), "degree|surprise|edge_share|explanation|expected|figures"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_forged_sums_are_found(left_out: Path, name: str, change: Any, message: str, given: str) -> None:
    forge(left_out, f"{name}.parquet", change)
    edges = None if given == "nothing" else ingest(Config().input, EDGES)
    with pytest.raises(VerificationError, match=message):
        verify_run(left_out, edges)


@pytest.mark.parametrize("given", ["nothing", "input"])
@pytest.mark.parametrize(
    "change",
    [
        put("counts", "bicliques", value=lambda n: n + 1),
        put("counts", "max_left", value=lambda n: n + 1),
        put("counts", "right_members", value=lambda n: n - 1),
        put("counts", "max_edges", value=lambda n: n + 1),
        put("content_fingerprint", value=lambda text: f"1{text}"),
        put("config", "output", "bicliques", value=True),
    ],
)
def test_forged_counts_are_found(left_out: Path, change: Any, given: str) -> None:
    edit(left_out, change)
    with pytest.raises(VerificationError):
        verify_run(left_out, None if given == "nothing" else ingest(Config().input, EDGES))


def test_a_forged_fingerprint_is_found_by_enumerating_again(left_out: Path) -> None:
    edit(left_out, put("content_fingerprint", value=lambda text: text[:-1] + ("0" if text[-1] != "0" else "1")))
    with pytest.raises(VerificationError, match="content_fingerprint is"):
        verify_run(left_out, ingest(Config().input, EDGES))
    assert any("content fingerprint" in text for text in verify_run(left_out).not_checked)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("groups", lambda table: table[1:], "its group_key is not in groups"),
        ("groups", one_more("surprise"), "surprise is"),
        ("groups", lambda table: [{**table[0], "explanation": "!"}, *table[1:]], "explanation is"),
        ("vertex_scores", lambda table: [table[0], {**table[1], "score": 0.0}, *table[2:]], "score is"),
        ("vertex_scores", one_more("n_groups"), "n_groups is"),
        ("group_members", one_more("n_edges"), "n_edges is"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("given", ["nothing", "input", "sample"])
def test_forged_groups_are_found(left_out: Path, name: str, change: Any, message: str, given: str) -> None:
    forge(left_out, f"{name}.parquet", change)
    edges = None if given == "nothing" else ingest(Config().input, EDGES)
    with pytest.raises(VerificationError, match=message):
        verify_run(left_out, edges, sample=0 if given == "sample" else None)


def test_a_better_group_that_is_left_out_is_found_by_enumerating_again(tmp_path: Path) -> None:
    """There are two groups; a run that states only one is caught with the bicliques only."""
    run_dir = run(settings(tmp_path, groups={"limit": 1}, **LEFT_OUT), EDGES).run_dir
    edit(run_dir, put("config", "groups", "limit", value=2))
    manifest = Manifest.model_validate_json((run_dir / "manifest.json").read_text())
    edit(run_dir, put("config_fingerprint", value=config_fingerprint(manifest.config)))
    with pytest.raises(VerificationError, match="is missing: it overlaps no better group"):
        verify_run(run_dir, ingest(Config().input, EDGES))
    assert any("no better one is missing" in text for text in verify_run(run_dir).not_checked)


def test_a_group_that_is_no_biclique_of_the_input_is_found_without_the_bicliques(left_out: Path) -> None:
    """The input lacks one edge of a group; a forger could make everything else agree with it."""
    groups = rows(left_out, "groups")
    keys = {row["key"] for row in rows(left_out, "group_members") if row["group_key"] == groups[0]["group_key"]}
    pairs = list(zip(*(column.to_pylist() for column in EDGES.columns), strict=True))
    pairs.remove(next(pair for pair in pairs if {pair[0], str(pair[1])} <= keys))
    other = pa.table({"l": [left for left, _ in pairs], "r": [right for _, right in pairs]})
    job = Job(left_out, read_manifest(left_out), None, 0, 0, 1, lambda _: None)
    job.check_input(publication_of("bicliques"))
    job.edges, job.results = ingest(Config().input, other), None
    with pytest.raises(VerificationError, match=r"is not (a maximal biclique|an edge) of the input"):
        check_groups(job)
