"""Parts written by workers: the same rows, sums and bytes, even if workers are late or lost."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from mbe_stage import BicliqueQuery, CliqueQuery, Execution, UndirectedCSR
from mbe_stage.bicliques import engine_cpu
from mbe_stage.bicliques.results import Detail
from mbe_stage.cliques import engine_cpu as cliques_engine
from mbe_stage.cliques.results import Detail as CliqueDetail
from mbe_stage.groups.candidates import CandidateSink
from mbe_stage.groups.null_model import NullModel
from mbe_stage.pipeline.backends.arrow import block_writer
from mbe_stage.pipeline.backends.arrow.parts import PartWriter
from mbe_stage.pipeline.backends.arrow.row_sink import RowSink
from mbe_stage.pipeline.backends.arrow.worker_parts import Proof, WorkerParts
from mbe_stage.pipeline.backends.arrow.written import WorkerSums
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.problems.bicliques.arrow import ParquetSink
from mbe_stage.pipeline.problems.cliques.arrow import ParquetSink as CliqueSink
from mbe_stage.pipeline.problems.derived import GuardedCollector
from mbe_stage.runners.parts import Part
from tests.mbe_stage import graphs

LEFT, RIGHT = (np.random.default_rng(n).integers(0, 1 << 64, n, np.uint64) for n in (14, 17))


@dataclass(frozen=True)
class Found:
    """A problem whose results become rows.

    Attributes
    ----------
    name, key : str
        Name of the problem and its data set, and of its column of keys.
    sink : callable
        Makes a sink from a directory and the options of a sink.
    leases : list of list of block
        Results of some leases; one lease has none.
    """

    name: str
    key: str
    sink: Callable[..., RowSink[Any]]
    leases: list[list[Any]]

    def keys(self, run_path: Path) -> list[int]:
        tables = [pq.read_table(part) for part in run_path.glob(f"{self.name}/*")]
        return sorted(key for table in tables for key in table[self.key].to_pylist())

    def sums(self, sink: RowSink[Any]) -> list[Any]:
        summary = sink.summary
        sides = [summary.vertices] if self.name == "cliques" else [summary.left, summary.right]
        numbers = [each.tolist() for side in sides for each in (side.n_bicliques, side.largest_edges)]
        return [str(summary.fingerprint), [each.tolist() for each in summary.sizes.sorted_rows()], *numbers]


def found_by(engine: Any, graph: Any, query: Any, detail: Any) -> list[list[Any]]:
    tasks = engine.tasks_of(graph, query, 3)
    assert len(tasks) == 3
    return [*(list(engine.run(graph, query, Execution(threads=1), detail, [task])) for task in tasks), []]


def bicliques() -> Found:
    graph = graphs.from_matrix(graphs.random_matrix(2, 14, 17, 0.4))
    sink = partial(ParquetSink, left_hashes=LEFT, right_hashes=RIGHT, members=True)
    return Found("bicliques", "biclique_key", sink, found_by(engine_cpu, graph, BicliqueQuery(), Detail.MEMBERS))


def cliques() -> Found:
    matrix = graphs.random_matrix(3, 17, 17, 0.45)
    graph = UndirectedCSR.from_edges(*graphs.from_matrix(matrix).edges(), 17)
    leases = found_by(cliques_engine, graph, CliqueQuery(), CliqueDetail.MEMBERS)
    return Found("cliques", "clique_key", partial(CliqueSink, hashes=RIGHT), leases)


@pytest.fixture(params=[bicliques, cliques], ids=["bicliques", "cliques"])
def found(request: pytest.FixtureRequest) -> Found:
    return request.param()


def made_by(directory: Path, sink: Callable[..., RowSink[Any]], **asked: Any) -> WorkerParts:
    # As a worker receives it.
    return pickle.loads(pickle.dumps(WorkerParts(directory, partial(sink, **asked))))


def proven(parts: WorkerParts, proof: Proof | None) -> bool:
    return "worker" in parts.proven({"worker": proof})


HERE = Proof("a file", "found")


def written(parts: WorkerParts, name: str, blocks: list[Any], proof: Proof = HERE) -> Part:
    with parts.open(name, Execution(), proof) as sink:
        for block in blocks:
            sink.accept(block)
    made, n_bytes = sink.part()
    assert (n_bytes > 0) == any(map(len, blocks))
    return pickle.loads(pickle.dumps(Part(sum(map(len, blocks)), made)))


def files_of(run_path: Path) -> dict[str, bytes]:
    return {path.relative_to(run_path).as_posix(): path.read_bytes() for path in run_path.rglob("*") if path.is_file()}


@pytest.fixture(params=[False, True], ids=["as found", "sorted"])
def sort(request: pytest.FixtureRequest) -> Iterator[bool]:
    return request.param


def test_workers_write_the_same_as_one_process(tmp_path: Path, found: Found, sort: bool) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    with found.sink(ours, sort=sort) as alone:
        for block in (block for blocks in found.leases for block in blocks):
            alone.accept(block)
    parts = made_by(tmp_path / "theirs.parts", found.sink, sort=sort)
    with found.sink(theirs, sort=sort, parts=parts) as sink:
        # One worker sends its results, and one finds results that are no longer needed.
        for block in found.leases[0]:
            sink.accept(block)
        for i, blocks in enumerate(found.leases[1:]):
            sink.take_part(written(parts, f"lease-{i}", blocks))
        sink.take_part(Part(0, None))
        written(parts, "late", found.leases[1])
        (parts.directory / "late" / "torn.parquet").write_bytes(b"PAR1")
    assert found.sums(sink) == found.sums(alone)
    assert found.keys(theirs) == found.keys(ours)
    assert len(found.keys(ours)) == alone.summary.fingerprint.n_items > 40
    if sort:
        assert files_of(theirs) == files_of(ours)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("theirs")] == ["theirs"]


@dataclass
class Recorder:
    """Stands in for the collector of a derived output.

    Attributes
    ----------
    seen : list of (int, members)
        Key and members of every result that it received.
    """

    seen: list[tuple[int, Any]] = field(default_factory=list)
    most_rows: int = 0

    def accept(self, block: Any, keys: np.ndarray) -> None:
        self.most_rows = max(self.most_rows, len(keys))
        ends, members = (block.offsets, block.members) if hasattr(block, "members") else _left_of(block)
        lists = np.split(members, ends[1:-1])
        self.seen += [(key, tuple(each.tolist())) for key, each in zip(keys.tolist(), lists, strict=True)]


def _left_of(block: Any) -> tuple[np.ndarray, np.ndarray]:
    return block.left_offsets, block.left_members


def test_derived_outputs_receive_workers_results_once(tmp_path: Path, found: Found, sort: bool) -> None:
    both = {}
    for name in ("alone", "shared"):
        (tmp_path / name).mkdir()
        derived = Recorder()
        parts = made_by(tmp_path / f"{name}.parts", found.sink, sort=sort) if name == "shared" else None
        with found.sink(tmp_path / name, sort=sort, derived=[derived], parts=parts) as sink:
            for i, blocks in enumerate(found.leases):
                if parts is not None and i:
                    sink.take_part(written(parts, f"lease-{i}", blocks))
                    continue
                for block in blocks:
                    sink.accept(block)
            if parts is not None:
                sink.take_part(Part(0, None))
                written(parts, "late", found.leases[1])
        both[name] = sorted(derived.seen), found.sums(sink)
    assert both["shared"] == both["alone"]
    assert [key for key, _ in both["alone"][0]] == found.keys(tmp_path / "alone")


def test_rows_are_read_back_a_row_group_at_a_time(
    tmp_path: Path, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_writer, "ROW_GROUP_BYTES", 1)
    monkeypatch.setattr(PartWriter.__init__, "__defaults__", (1, 512 << 20))
    (tmp_path / "run").mkdir()
    parts, derived = made_by(tmp_path / "run.parts", found.sink), Recorder()
    with found.sink(tmp_path / "run", derived=[derived], parts=parts) as sink:
        sink.take_part(written(parts, "lease", [block for blocks in found.leases for block in blocks]))
    assert len(derived.seen) == sink.summary.fingerprint.n_items
    assert derived.most_rows == max(len(block) for blocks in found.leases for block in blocks)
    assert derived.most_rows < len(derived.seen)


def test_a_failing_derived_output_ends_the_run(tmp_path: Path, found: Found, sort: bool) -> None:
    class Failing:
        def accept(self, *_: Any) -> None:
            raise PublishError("no room for groups")

    (tmp_path / "run").mkdir()
    parts = made_by(tmp_path / "run.parts", found.sink, sort=sort)
    with (
        pytest.raises(PublishError, match="no room for groups"),
        found.sink(tmp_path / "run", sort=sort, derived=[Failing()], parts=parts) as sink,
    ):
        sink.take_part(written(parts, "lease", found.leases[0]))


def test_a_lease_that_comes_after_the_end_writes_nothing(tmp_path: Path, found: Found) -> None:
    parts = made_by(tmp_path / "run.parts", found.sink)
    with parts.opened(), parts.open("early", Execution(), HERE):
        pass
    with (
        pytest.raises(PublishError, match=r"run\.parts/late: cannot be written"),
        parts.open("late", Execution(), HERE),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_without_bicliques_sums_travel_alone(tmp_path: Path, sort: bool) -> None:
    found = bicliques()
    parts = made_by(tmp_path / "run.parts", found.sink, bicliques=False, members=False, sort=sort)
    (tmp_path / "run").mkdir()
    with found.sink(tmp_path / "run", bicliques=False, members=False, parts=parts) as sink:
        for i, blocks in enumerate(found.leases):
            with parts.open(str(i), Execution(), HERE) as lease:
                for block in blocks:
                    lease.accept(block)
            made, n_bytes = lease.part()
            assert (made.files, made.spills, n_bytes) == ({}, (), 0)
            sink.take_part(Part(0, made))
    assert sink.summary.fingerprint.n_items > 40
    assert not list((tmp_path / "run").iterdir())


def test_without_bicliques_derived_outputs_are_summed_up(tmp_path: Path) -> None:
    """No directory is needed."""
    found = bicliques()
    matrix = graphs.random_matrix(2, 14, 17, 0.4)
    make = partial(CandidateSink, NullModel.of(graphs.from_matrix(matrix)), 14, 17, 30)
    sink = partial(found.sink, bicliques=False, members=False)
    parts = pickle.loads(pickle.dumps(WorkerSums(sink, (make,))))
    assert parts.proven({"begun": parts.prove(), "over": None}) == {"begun"}
    (tmp_path / "run").mkdir()
    together, alone = make(), make()

    def guarded(collector: CandidateSink) -> GuardedCollector:
        """Guard it as in a run, where the sink's threads and this one take turns."""
        collecting: Any = SimpleNamespace(run_path=tmp_path / "run")
        return GuardedCollector("groups", collecting, lambda _: collector)  # type: ignore[arg-type, return-value]

    with sink(tmp_path / "run", derived=[guarded(together)], parts=parts) as shared:
        for block in found.leases[0]:
            shared.accept(block)
        for i, blocks in enumerate(found.leases[1:]):
            with parts.open(str(i), Execution(), parts.prove()) as lease:
                for block in blocks:
                    lease.accept(block)
            made, n_bytes = lease.part()
            assert (made.files, n_bytes) == ({}, 0)
            shared.take_part(pickle.loads(pickle.dumps(Part(sum(map(len, blocks)), made))))
    with sink(tmp_path / "run", derived=[guarded(alone)]) as one:
        for block in (block for blocks in found.leases for block in blocks):
            one.accept(block)
    assert found.sums(shared) == found.sums(one)
    ours, theirs = alone.finish(), together.finish()
    assert theirs.keys.tolist() == ours.keys.tolist()
    assert theirs.surprise.tolist() == ours.surprise.tolist()
    assert [each.tolist() for pair in theirs.members for each in pair] == [
        each.tolist() for pair in ours.members for each in pair
    ]
    assert together.left_share.tolist() == alone.left_share.tolist()
    assert not list((tmp_path / "run").iterdir())


def test_only_workers_that_share_the_directory_write(tmp_path: Path) -> None:
    parts, elsewhere = (made_by(tmp_path / name, CliqueSink, hashes=RIGHT) for name in ("here", "there"))
    with parts.opened():
        assert proven(parts, parts.prove())
        assert not proven(parts, None)
        proof = parts.prove()
        # Its content is not valid text.
        (parts.directory / proof.name).write_bytes(b"\xff")
        assert not proven(parts, proof)
        proof = parts.prove()
        assert not proven(parts, replace(proof, text=f"{proof.text} "))
        proof = elsewhere.prove()
        assert not proven(parts, proof)
        assert "there: cannot be written on" in parts.what_is_sent(proof)
        with elsewhere.opened():
            # A directory of the same name on another disk.
            proof = elsewhere.prove()
            assert not proven(parts, proof)
            assert "here: is another directory there" in parts.what_is_sent(proof)


@pytest.mark.parametrize("how", ["elsewhere", "up", "link"])
def test_a_part_outside_of_its_directory_is_refused(tmp_path: Path, found: Found, sort: bool, how: str) -> None:
    run_path, outside = tmp_path / "run", tmp_path / "outside"
    run_path.mkdir()
    parts = made_by(tmp_path / "run.parts", found.sink, sort=sort)
    with found.sink(run_path, sort=sort, parts=parts) as sink:
        made = (part := written(parts, "lease", found.leases[0])).made
        path = made.spills[0].path if sort else next(iter(made.files.values()))[0][0]
        path.rename(outside)
        if how == "link":
            path.symlink_to(outside)
        named = {"elsewhere": outside, "up": parts.directory / "../outside", "link": path}[how]
        files = {name: ((named, size),) for name, ((_, size), *_) in made.files.items()}
        spills = tuple(replace(spill, path=named) for spill in made.spills)
        with pytest.raises(PublishError, match="expected"):
            sink.take_part(replace(part, made=replace(made, files=files, spills=spills)))
        assert not files_of(run_path)
    assert outside.exists()


@pytest.mark.parametrize(("change", "said"), [("cut", "has 4 bytes"), ("removed", "is missing")])
def test_a_part_that_has_not_arrived_is_refused(
    tmp_path: Path, found: Found, sort: bool, change: str, said: str
) -> None:
    run_path = tmp_path / "run"
    run_path.mkdir()
    parts = made_by(tmp_path / "run.parts", found.sink, sort=sort)
    with found.sink(run_path, sort=sort, parts=parts) as sink:
        made = (part := written(parts, "lease", found.leases[0])).made
        # The last file is missing; the files of the lease that have arrived are not taken over either.
        path = made.spills[-1].path if sort else list(made.files.values())[-1][-1][0]
        path.unlink()
        if change == "cut":
            path.write_bytes(b"PAR1")
        with pytest.raises(PublishError, match=f"{said}; expected"):
            sink.take_part(part)
        assert not files_of(run_path)


def test_the_first_results_of_a_part() -> None:
    for n in (0, 3):
        assert Part(n, "made", 0.5).first(0) == Part(0, None, 0.5)
    assert Part(3, "made").first(3) == Part(3, "made")
