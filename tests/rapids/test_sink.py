"""Output of the device: list columns, files, parts, order; compared with the host's sink."""

import errno
import functools
import itertools
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from mbe_stage.bicliques.enumerate import enumerate_into
from mbe_stage.bicliques.results import BicliqueBlock, TableSink
from mbe_stage.pipeline.backends.arrow.hashes import key_hashes
from mbe_stage.pipeline.errors import DeviceMemoryExhausted, PublishError
from mbe_stage.pipeline.problems.bicliques.arrow import ParquetSink
from mbe_stage.pipeline.publish.schemas import BICLIQUES, MEMBERS, SIZE_HISTOGRAM, vertices
from tests.pipeline.output_support import crown_pairs, edge_data, random_pairs

pytestmark = pytest.mark.gpu

ROOMY = {"piece_bytes": 1 << 20, "sort_bytes": 1 << 30, "n_writers": 2}


@pytest.fixture(scope="module")
def edges():
    return edge_data(random_pairs(3, n_left=40, n_right=30))


@pytest.fixture(scope="module")
def blocks(edges) -> list[BicliqueBlock]:
    """Return all bicliques of the graph in a few blocks."""
    sink = TableSink()
    enumerate_into(sink, edges.graph(), engine="cpu")
    whole = sink.table()
    cuts = np.linspace(0, len(whole), 6).astype(int)
    return [_block(whole, first, stop) for first, stop in itertools.pairwise(cuts)]


def _block(table, first: int, stop: int) -> BicliqueBlock:
    left, right = table.left_offsets[first : stop + 1], table.right_offsets[first : stop + 1]
    return BicliqueBlock(
        stop - first,
        np.diff(left).astype(np.int32),
        np.diff(right).astype(np.int32),
        table.left_members[left[0] : left[-1]],
        table.right_members[right[0] : right[-1]],
    )


def on_device(block: BicliqueBlock):
    import cupy as cp

    from mbe_stage.bicliques.cuda.blocks import DeviceBlock

    return DeviceBlock(
        cp.asarray(block.left_offsets, cp.int64),
        cp.asarray(block.left_members),
        cp.asarray(block.right_offsets, cp.int64),
        cp.asarray(block.right_members),
    )


def device_sink(edges, run_path: Path, plan: dict, *, compression="zstd", encoder="write_frame", **options):
    from mbe_stage.pipeline.backends.cudf import parquet

    write_file = functools.partial(getattr(parquet, encoder), compression=compression)
    return sink_of(edges, run_path, plan, write_file, **options)


def sink_of(edges, run_path: Path, plan: dict, write_file, *, members=False, bicliques=True, **options):
    import cupy as cp

    from mbe_stage.pipeline.backends.cudf.block_writer import ParquetSink
    from mbe_stage.pipeline.backends.cudf.plan import WritingPlan
    from mbe_stage.pipeline.problems.bicliques.cudf import rows_of, schemas_of, with_members
    from mbe_stage.pipeline.problems.bicliques.cudf_summary import Summary

    hashes = tuple(
        cp.asarray(key_hashes(keys, side)) for keys, side in ((edges.left_keys, "left"), (edges.right_keys, "right"))
    )
    rows = rows_of(hashes, Summary.of(hashes[0].size, hashes[1].size), ())
    schemas, spread = schemas_of(bicliques=bicliques, members=members), with_members if members else None
    return ParquetSink(rows, run_path, schemas, WritingPlan(**plan), write_file, spread=spread, **options)


def host_sink(edges, run_path: Path, **options) -> ParquetSink:
    return ParquetSink(run_path, key_hashes(edges.left_keys, "left"), key_hashes(edges.right_keys, "right"), **options)


def read(directory: Path) -> pa.Table:
    table = ds.dataset(directory).to_table()
    if "side" in table.column_names:
        return table.set_column(1, "side", table["side"].cast(pa.string()))
    return table


def ordered(table: pa.Table) -> pa.Table:
    """Return rows by key; those of one biclique keep their order."""
    return table.take(pa.array(np.argsort(table["biclique_key"].to_numpy(), kind="stable")))


def both(edges, blocks, directory: Path, plan: dict, encoder="write_frame", **options):
    """Send the same blocks to both sinks, into ``host`` and ``device``."""
    for name in ("host", "device"):
        (directory / name).mkdir()
    with host_sink(edges, directory / "host", **options) as host:
        for block in blocks:
            host.accept(block)
    with device_sink(edges, directory / "device", plan, encoder=encoder, **options) as device:
        for block in blocks:
            device.accept(on_device(block))
    return host.summary, device.summary


@pytest.mark.parametrize("compression", ["zstd", "snappy", "lz4", "none"])
@pytest.mark.parametrize("piece_bytes", [1 << 10, 1 << 20])
@pytest.mark.parametrize("encoder", ["write_frame", "write_frame_on_host"])
def test_rows_sums_and_schemas_are_the_hosts(edges, blocks, tmp_path, compression, piece_bytes, encoder):
    plan = ROOMY | {"piece_bytes": piece_bytes}
    host, device = both(edges, blocks, tmp_path, plan, encoder, compression=compression, members=True)
    assert str(device.fingerprint) == str(host.fingerprint)
    assert (device.left_members, device.right_members) == (host.left_members, host.right_members)
    for mine, theirs in ((device.left.to_host(), host.left), (device.right.to_host(), host.right)):
        np.testing.assert_array_equal(mine.n_bicliques, theirs.n_bicliques)
        np.testing.assert_array_equal(mine.largest_edges, theirs.largest_edges)
        np.testing.assert_array_equal(mine.largest_keys, theirs.largest_keys)
    for mine, theirs in zip(device.sizes.sorted_rows(), host.sizes.sorted_rows(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for name in ("bicliques", "members"):
        parts = sorted((tmp_path / "device" / name).iterdir())
        assert (len(parts) > 1) == (piece_bytes == 1 << 10)
        ours, reference = parts[0], min((tmp_path / "host" / name).iterdir())
        assert pq.read_schema(ours) == pq.read_schema(reference)
        # Nullability and names for other readers, without Arrow's own schema.
        assert parquet_schema(ours) == parquet_schema(reference)
        assert pq.read_metadata(ours).row_group(0).column(0).statistics.has_min_max
        assert ordered(read(tmp_path / "device" / name)).equals(ordered(read(tmp_path / "host" / name)))


def test_without_the_table_the_sums_are_the_same_and_nothing_is_written(edges, blocks, tmp_path):
    host, device = both(edges, blocks, tmp_path, ROOMY | {"piece_bytes": 1 << 10}, bicliques=False)
    assert str(device.fingerprint) == str(host.fingerprint)
    assert (device.left_members, device.right_members) == (host.left_members, host.right_members)
    np.testing.assert_array_equal(device.left.to_host().largest_keys, host.left.largest_keys)
    assert list((tmp_path / "device").iterdir()) == list((tmp_path / "host").iterdir()) == []


def parquet_schema(path: Path) -> list[str]:
    """Return the schema as text, without the first line, which holds an address."""
    return str(pq.ParquetFile(path).schema).splitlines()[1:]


@pytest.mark.parametrize("compression", ["zstd", "snappy", "lz4", "none"])
def test_the_codec_is_the_one_asked_for(tmp_path, compression):
    import cudf
    import cupy as cp

    from mbe_stage.pipeline.backends.arrow.parts import write_table
    from mbe_stage.pipeline.backends.cudf.parquet import write_frame

    same = cp.zeros(100_000, cp.int32)
    frame = cudf.DataFrame({"n_left": same, "n_right": same, "n_bicliques": cp.arange(100_000) % 7})
    write_frame(frame, tmp_path / "device.parquet", SIZE_HISTOGRAM, compression)
    write_table(frame.to_arrow().cast(SIZE_HISTOGRAM), tmp_path / "host.parquet", compression)
    mine, theirs = (pq.read_metadata(tmp_path / f"{name}.parquet").row_group(0) for name in ("device", "host"))
    assert mine.column(2).compression == theirs.column(2).compression


@pytest.mark.parametrize("compression", ["zstd", "snappy", "lz4", "none"])
@pytest.mark.parametrize("per_list", [1, 2, 50])
def test_encoding_uses_the_planned_memory(tmp_path, compression, per_list):
    import cupy as cp

    from mbe_stage.bicliques.cuda.blocks import DeviceBlock
    from mbe_stage.pipeline.backends.cudf import plan
    from mbe_stage.pipeline.backends.cudf.memory import device_pool
    from mbe_stage.pipeline.backends.cudf.parquet import encoder_bytes, write_frame
    from mbe_stage.pipeline.backends.cudf.parts import frame_bytes
    from mbe_stage.pipeline.problems.bicliques.cudf import ROWS, members_frame

    n = (24 << 20) // (32 + 8 * per_list)
    with device_pool(8 << 30) as pool:
        chance = cp.random.default_rng(1)
        offsets = cp.arange(n + 1) * per_list
        left, right = (chance.integers(0, 1 << 20, n * per_list, dtype=cp.int32) for _ in range(2))
        frame = ROWS.frame(DeviceBlock(offsets, left, offsets, right), chance.integers(0, 1 << 60, n))
        whatever = encoder_bytes(pool, compression)
        for name, rows, schema in (("bicliques", frame, BICLIQUES), ("members", members_frame(frame), MEMBERS)):
            cp.cuda.get_current_stream().synchronize()
            path = tmp_path / f"{name}.parquet"
            taken = pool.bytes_for(
                lambda rows=rows, path=path, schema=schema: write_frame(rows, path, schema, compression)
            )
            assert taken <= whatever + plan._ENCODED * frame_bytes(rows), name


@pytest.mark.parametrize("piece_bytes", [1 << 10, 1 << 20])
@pytest.mark.parametrize("sort_bytes", [0, 1 << 14, 1 << 30], ids=["spilled", "spilled on the way", "on the device"])
def test_sorted_rows_are_the_hosts(edges, blocks, tmp_path, piece_bytes, sort_bytes):
    plan = ROOMY | {"piece_bytes": piece_bytes, "sort_bytes": sort_bytes}
    both(edges, blocks, tmp_path, plan, members=True, sort=True)
    # Blocks that come back from the host are cut for the device too.
    assert (len(list((tmp_path / "device" / "bicliques").iterdir())) > 1) == (piece_bytes == 1 << 10)
    for name in ("bicliques", "members"):
        assert read(tmp_path / "device" / name).equals(read(tmp_path / "host" / name))
    assert not (tmp_path / "device" / ".sort").exists()


@pytest.mark.parametrize("sort", [False, True])
def test_no_bicliques_make_one_empty_part(edges, tmp_path, sort):
    both(edges, [], tmp_path, ROOMY, members=True, sort=sort)
    for name in ("bicliques", "members"):
        parts = list((tmp_path / "device" / name).iterdir())
        assert [part.name for part in parts] == ["part-00000.parquet"]
        assert pq.read_schema(parts[0]) == pq.read_schema(tmp_path / "host" / name / "part-00000.parquet")
        assert pq.read_table(parts[0]).num_rows == 0


def test_list_columns_share_the_arrays():
    import cupy as cp

    from mbe_stage.pipeline.backends.cudf.frames import list_column

    offsets, members = cp.asarray([0, 2, 2, 5], cp.int64), cp.asarray([4, 7, 1, 2, 3], cp.int32)
    column = list_column(offsets, members)
    assert column.to_arrow().to_pylist() == [[4, 7], [], [1, 2, 3]]
    assert column.list.leaves.values.data.ptr == members.data.ptr


def test_results_larger_than_a_column_are_cut(blocks, monkeypatch):
    import cupy as cp

    from mbe_stage.pipeline.backends.cudf import frames as columns
    from mbe_stage.pipeline.problems.bicliques.cudf import ROWS

    monkeypatch.setattr(columns, "MOST_CHILDREN", 100)
    block = on_device(blocks[0])
    with pytest.raises(OverflowError, match=r"a list column holds at most 100; cut it with pieces\(\)"):
        columns.list_column(block.left_offsets, block.left_members)
    parts = list(ROWS.pieces(block, 4 * 100))
    assert len(parts) > 1
    for part in parts:
        columns.list_column(part.left_offsets, part.left_members)
        columns.list_column(part.right_offsets, part.right_members)
    for name in ("left_members", "right_members"):
        joined = cp.concatenate([getattr(part, name) for part in parts])
        assert bool((joined == getattr(block, name)).all())
    assert sum(part.n_bicliques for part in parts) == block.n_bicliques


def test_a_biclique_above_the_limit_is_alone(blocks):
    from mbe_stage.pipeline.problems.bicliques.cudf import ROWS

    parts = list(ROWS.pieces(on_device(blocks[0]), 1))
    assert [part.n_bicliques for part in parts] == [1] * blocks[0].n_bicliques


def test_a_full_disk_is_an_error():
    """libcudf's own writer would leave short files without an error."""
    import cudf
    import cupy as cp

    from mbe_stage.pipeline.backends.cudf.parquet import write_frame

    sizes = cp.arange(1000, dtype=cp.int32)
    frame = cudf.DataFrame({"n_left": sizes, "n_right": sizes, "n_bicliques": sizes.astype(cp.int64)})
    with pytest.raises(OSError, match="No space left") as error:
        write_frame(frame, Path("/dev/full"), SIZE_HISTOGRAM, "zstd")
    assert error.value.errno == errno.ENOSPC


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns="n_right"), r"columns \['n_left', 'n_bicliques'\]: expected"),
        (lambda frame: frame.astype({"n_left": "int64"}), "column 'n_left' has type int64: expected int32"),
        (lambda frame: frame.assign(n_right=frame["n_right"].mask(frame["n_right"] == 1)), "1 nulls: expected none"),
    ],
)
def test_a_frame_of_another_schema_is_refused(tmp_path, change, message):
    import cudf
    import cupy as cp

    from mbe_stage.pipeline.backends.cudf.parquet import write_frame

    sizes = cp.arange(3, dtype=cp.int32)
    frame = cudf.DataFrame({"n_left": sizes, "n_right": sizes, "n_bicliques": sizes.astype(cp.int64)})
    with pytest.raises(TypeError, match=message):
        write_frame(change(frame), tmp_path / "table.parquet", SIZE_HISTOGRAM, "zstd")


@pytest.mark.parametrize("keys", [[5, 7, 2**40], ["ann", "bob", "ü" * 1000]], ids=["integers", "text"])
def test_vertex_tables_are_the_hosts(tmp_path, keys):
    import cudf
    import cupy as cp

    from mbe_stage.bicliques.vertex_statistics import VertexStatistics
    from mbe_stage.pipeline.backends.arrow.parts import write_table
    from mbe_stage.pipeline.backends.cudf.parquet import write_frame
    from mbe_stage.pipeline.problems.bicliques.arrow import vertex_table
    from mbe_stage.pipeline.problems.bicliques.cudf import vertex_table as vertex_frame

    names = pa.array(keys)
    schema = vertices(names.type)
    sums = VertexStatistics(np.array([2, 0, 1]), np.array([6, 0, 4]), np.array([-9, 0, 2**62]))
    degrees = np.array([3, 1, 2])
    for two_hop in (np.array([1, 0, 2]), None):
        write_table(vertex_table(names, degrees, two_hop, sums), tmp_path / "host.parquet", "zstd")
        on_gpu = None if two_hop is None else cp.asarray(two_hop)
        frame = vertex_frame(cudf.Series.from_arrow(names), cp.asarray(degrees), on_gpu, sums)
        write_frame(frame, tmp_path / "device.parquet", schema, "zstd")
        mine, theirs = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("device", "host"))
        assert mine.equals(theirs)
        assert mine.schema == theirs.schema


@pytest.mark.parametrize("when", ["first", "last"])
def test_a_part_that_cannot_be_written(edges, blocks, tmp_path, when):
    def full(_frame, path, *_):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    plan = ROOMY | {"piece_bytes": 1 << 10 if when == "first" else 1 << 20}
    with pytest.raises(PublishError, match=r"No space left on device.*nothing was published; free some space"):
        feed(sink_of(edges, tmp_path, plan, full), blocks)
    assert not writer_threads()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("a defect")], ids=repr)
def test_an_interruption_ends_the_writers(edges, blocks, tmp_path, error):
    with pytest.raises(type(error)):
        feed(device_sink(edges, tmp_path, ROOMY | {"piece_bytes": 1 << 10}), blocks, error)
    assert not writer_threads()


def feed(sink, blocks, error: BaseException | None = None) -> None:
    with sink:
        for block in blocks:
            sink.accept(on_device(block))
        if error is not None:
            raise error


def writer_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("parquet-writer")]


def test_memory_above_the_limit_is_one_error_and_comes_back():
    import cupy as cp

    from mbe_stage.pipeline.backends.cudf.memory import device_pool

    with pytest.raises(DeviceMemoryExhausted, match=r"the limit of 64 MiB \(execution.device_memory\)") as refusal:
        take_too_much(64 << 20)
    assert not refusal.value.may_pass
    with device_pool(64 << 20) as pool:
        kept = cp.arange(4 << 20)
        assert int(kept[-1]) == (4 << 20) - 1
        assert 32 << 20 <= pool.used_bytes() <= pool.peak_bytes() <= pool.limit_bytes


def take_too_much(limit: int) -> None:
    import cudf
    import cupy as cp

    from mbe_stage.pipeline.backends.cudf.memory import device_pool

    with device_pool(limit):
        half = cp.zeros(limit // 2, cp.uint8)
        cudf.Series(half).repeat(16)


def test_a_full_gpu_and_a_low_limit_are_distinguished():
    import cupy as cp

    from mbe_stage.pipeline.backends.cudf.memory import device_pool

    with (
        pytest.raises(DeviceMemoryExhausted, match=r"lower execution\.device_memory to what is free") as refusal,
        device_pool(1 << 50),
    ):
        cp.zeros(1 << 45, cp.uint8)
    assert refusal.value.may_pass


def test_other_errors_are_unchanged():
    from mbe_stage.pipeline.backends.cudf.memory import device_pool

    for error in (RuntimeError("a defect"), MemoryError("of the host")):
        with pytest.raises(type(error), match=str(error)), device_pool(1 << 30):
            raise error


def test_crowns_have_known_sizes(tmp_path):
    """2**n - 2 bicliques, of which n over k have k left members."""
    edges = edge_data(crown_pairs(10))
    sink = TableSink()
    enumerate_into(sink, edges.graph(), engine="cpu")
    table = sink.table()
    with device_sink(edges, tmp_path, ROOMY) as device:
        device.accept(on_device(_block(table, 0, len(table))))
    n_left, n_right, counts = (np.asarray(column) for column in device.summary.sizes.sorted_rows())
    assert counts.tolist() == [10, 45, 120, 210, 252, 210, 120, 45, 10]
    assert (n_left + n_right == 10).all()
