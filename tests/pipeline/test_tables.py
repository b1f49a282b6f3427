"""The published tables, compared with the reference and with plain Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.bicliques.vertex_statistics import SizeCounts
from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.two_hop import two_hop_steps
from mbe_stage.pipeline import read_manifest
from mbe_stage.pipeline.backends.arrow import order as order_module
from mbe_stage.pipeline.backends.arrow.parts import PartNames, PartWriter
from mbe_stage.pipeline.execution.steps import load_edges, save_edges
from mbe_stage.pipeline.problems.bicliques.arrow import ROWS
from mbe_stage.pipeline.publish.schemas import BICLIQUES, MEMBERS, SIZE_HISTOGRAM, vertices
from tests.pipeline.output_support import (
    crown_pairs,
    edge_data,
    expected_set,
    publish,
    published_rows,
    published_set,
    random_pairs,
    settings,
)

SMALL_BLOCKS = {"block_bytes": 1024}


@pytest.mark.parametrize("seed", range(12))
def test_published_set_is_the_reference_set(tmp_path, seed):
    edges = edge_data(random_pairs(seed))
    run_dir = publish(edges, settings(tmp_path, execution=SMALL_BLOCKS))
    rows = published_rows(run_dir)
    assert published_set(run_dir) == expected_set(edges)
    assert len(rows) == len(expected_set(edges)), "a biclique is published twice"
    for row in rows:
        assert row["left"] == sorted(row["left"])
        assert row["right"] == sorted(row["right"])
        assert (row["n_left"], row["n_right"]) == (len(row["left"]), len(row["right"]))
        assert row["n_edges"] == row["n_left"] * row["n_right"]


def test_files_have_the_documented_schemas(tmp_path):
    run_dir = publish(edge_data(random_pairs(1)), settings(tmp_path, output={"members": True}))
    assert pq.read_schema(run_dir / "bicliques/part-00000.parquet").equals(BICLIQUES)
    assert pq.read_schema(run_dir / "members/part-00000.parquet").equals(MEMBERS)
    assert pq.read_schema(run_dir / "size_histogram.parquet").equals(SIZE_HISTOGRAM)
    assert pq.read_schema(run_dir / "left_vertices.parquet").equals(vertices(pa.string()))
    assert pq.read_schema(run_dir / "right_vertices.parquet").equals(vertices(pa.int64()))


@pytest.mark.parametrize("seed", [0, 3, 5])
def test_histogram_is_sorted_and_complete(tmp_path, seed):
    run_dir = publish(edge_data(random_pairs(seed)), settings(tmp_path, execution=SMALL_BLOCKS))
    sizes = Counter((row["n_left"], row["n_right"]) for row in published_rows(run_dir))
    rows = [tuple(row.values()) for row in pq.read_table(run_dir / "size_histogram.parquet").to_pylist()]
    assert rows == sorted((*size, count) for size, count in sizes.items())
    counts = read_manifest(run_dir).counts
    assert counts.sizes == len(sizes)
    assert (counts.max_left, counts.max_right) == tuple(max(size[i] for size in sizes) for i in (0, 1))
    assert counts.max_edges == max(left * right for left, right in sizes)


@pytest.mark.parametrize("seed", [0, 4, 6])
@pytest.mark.parametrize("side", ["left", "right"])
def test_vertex_tables(tmp_path, seed, side):
    edges = edge_data(random_pairs(seed))
    # A minimum size leaves some vertices without any biclique; their largest is null.
    run_dir = publish(edges, settings(tmp_path, execution=SMALL_BLOCKS, query={"min_left": 3, "min_right": 3}))
    bicliques = published_rows(run_dir)
    ids = getattr(edges, f"{side}_ids").tolist()
    others = getattr(edges, f"{'right' if side == 'left' else 'left'}_ids").tolist()
    neighbours = [{other for own, other in zip(ids, others, strict=True) if own == vertex} for vertex in range(12)]
    expected = []
    for vertex, key in enumerate(getattr(edges, f"{side}_keys").to_pylist()):
        mine = [row for row in bicliques if vertex in row[side]]
        largest = min(mine, key=lambda row: (-row["n_edges"], row["biclique_key"]), default=None)
        expected.append(
            {
                "vertex": vertex,
                "key": key,
                "degree": ids.count(vertex),
                "two_hop_degree": sum(not neighbours[vertex].isdisjoint(those) for those in neighbours) - 1,
                "n_bicliques": len(mine),
                "largest_biclique_key": largest and largest["biclique_key"],
                "largest_biclique_edges": largest["n_edges"] if largest else 0,
            }
        )
    assert pq.read_table(run_dir / f"{side}_vertices.parquet").to_pylist() == expected


@pytest.mark.parametrize(("most_steps", "left_counted", "right_counted"), [(0, 0, 0), (7, 1, 0), (8, 1, 1)])
def test_two_hop_degrees_are_left_out_if_they_cost_too_much(tmp_path, most_steps, left_counted, right_counted):
    # The base of all left vertices is right 0; beside it, left 0 has neighbours of degree 1 and 2, the others 2, 1, 1.
    # The base of right 0, 1 and 2 is left 0; beside it, right 0 has three neighbours of degree 2, and right 2 one.
    pairs = [(u, 0) for u in range(4)] + [(u, u + 1) for u in range(4)] + [(0, 2)]
    edges = edge_data(pairs)
    assert two_hop_steps(edges.graph()) == (7, 8)
    run_dir = publish(edges, settings(tmp_path, output={"two_hop_steps": most_steps}))
    for side, counted in (("left", left_counted), ("right", right_counted)):
        column = pq.read_table(run_dir / f"{side}_vertices.parquet")["two_hop_degree"]
        assert column.null_count == (0 if counted else len(column))


def test_members_are_the_bicliques_in_long_form(tmp_path):
    run_dir = publish(edge_data(random_pairs(2)), settings(tmp_path, output={"members": True}))
    expected = [
        {"biclique_key": row["biclique_key"], "side": side, "vertex": vertex}
        for row in published_rows(run_dir)
        for side in ("left", "right")
        for vertex in row[side]
    ]
    assert pq.read_table(run_dir / "members").to_pylist() == expected


@pytest.mark.parametrize("members", [False, True])
def test_canonical_order_gives_the_same_files_whatever_the_blocks(tmp_path, members):
    edges = edge_data(crown_pairs(9))
    output = {"sort": True, "members": members}
    manifests = [
        read_manifest(publish(edges, settings(tmp_path, output=output, execution={"block_bytes": size})))
        for size in (1 << 10, 10_000, 1 << 24)
    ]
    assert manifests[0].files == manifests[1].files == manifests[2].files
    rows = published_rows(tmp_path / "latest")
    assert [row["biclique_key"] for row in rows] == sorted(row["biclique_key"] for row in rows)
    assert published_set(tmp_path / "latest") == expected_set(edges)


@pytest.mark.parametrize("spill_batch_bytes", [200, 5_000, 1 << 30])
def test_canonical_order_spills_and_gives_the_same_rows(tmp_path, monkeypatch, spill_batch_bytes):
    monkeypatch.setattr(order_module, "_BATCH_BYTES", spill_batch_bytes)
    batches = [_synthetic_batch(seed, 250) for seed in range(20)]
    results = []
    for memory_bytes in (1 << 30, 20_000):
        order = ROWS.canonical_order(tmp_path / "scratch", memory_bytes=memory_bytes, group_bytes=40_000)
        for batch in batches if memory_bytes > 20_000 else reversed(batches):
            order.add(batch)
        assert (tmp_path / "scratch").exists() == (memory_bytes == 20_000), "only the small memory has to spill"
        results.append(list(order.batches()))
        assert not (tmp_path / "scratch").exists()
    whole, spilled = results
    assert len(whole) > 5
    assert [batch.num_rows for batch in whole] == [batch.num_rows for batch in spilled]
    assert pa.Table.from_batches(whole).equals(pa.Table.from_batches(spilled))
    assert pa.Table.from_batches(whole).equals(pa.Table.from_batches(batches).sort_by("biclique_key"))


def test_canonical_order_of_nothing(tmp_path):
    assert list(ROWS.canonical_order(tmp_path / "scratch").batches()) == []


def test_parts_rotate_and_read_as_one_table(tmp_path):
    batches = [_synthetic_batch(seed, 200) for seed in range(30)]
    writer = PartWriter(PartNames(tmp_path / "rows"), BICLIQUES, "none", row_group_bytes=20_000, file_bytes=50_000)
    for batch in batches:
        writer.write(batch)
    writer.close()
    parts = sorted((tmp_path / "rows").iterdir())
    assert [part.name for part in parts] == [f"part-{i:05d}.parquet" for i in range(len(parts))]
    assert len(parts) > 3
    assert pq.read_metadata(parts[0]).num_row_groups > 1
    assert pq.read_table(tmp_path / "rows").equals(pa.Table.from_batches(batches))


@pytest.mark.parametrize("compression", ["zstd", "snappy", "lz4", "none"])
def test_compressions(tmp_path, compression):
    edges = edge_data(random_pairs(7))
    run_dir = publish(edges, settings(tmp_path, output={"compression": compression}))
    column = pq.read_metadata(run_dir / "bicliques/part-00000.parquet").row_group(0).column(1)
    assert column.compression == {"none": "UNCOMPRESSED"}.get(compression, compression.upper())
    assert published_set(run_dir) == expected_set(edges)


def test_no_biclique_at_all_still_reads(tmp_path):
    edges = edge_data([(1, 1), (2, 2)])
    run_dir = publish(edges, settings(tmp_path, query={"min_left": 2}, output={"members": True, "sort": True}))
    assert pq.read_table(run_dir / "bicliques").schema.equals(BICLIQUES)
    assert published_rows(run_dir) == []
    assert pq.read_table(run_dir / "members").num_rows == 0
    assert pq.read_table(run_dir / "size_histogram.parquet").num_rows == 0
    assert pq.read_table(run_dir / "left_vertices.parquet")["largest_biclique_key"].null_count == 2


def test_members_are_not_copied_into_the_batch():
    block = _block(np.random.default_rng(0), 100)
    batch = ROWS.batch(block, np.arange(100))
    assert block.left_members is not None
    assert batch["left"].values.buffers()[1].address == block.left_members.ctypes.data


@pytest.mark.parametrize("side", ["left", "right"])
def test_more_members_than_a_list_column_holds_are_refused(side):
    few = np.ones(2, np.int32), np.zeros(2, np.int32)
    many = np.full(2, 2**30, np.int32), np.broadcast_to(np.int32(0), 2**31)
    (left_sizes, left), (right_sizes, right) = (many, few) if side == "left" else (few, many)
    block = BicliqueBlock(2, left_sizes, right_sizes, left, right)
    with pytest.raises(InvalidArgument, match=f"a block has 2,147,483,648 members \\({side}\\): expected fewer than"):
        ROWS.batch(block, np.arange(2))


def test_sizes_beyond_the_dense_counts():
    counts, plain = SizeCounts(), Counter()
    for left, right in (([1, 600, 5], [2, 1, 70_000]), ([600, 1, 511], [1, 2, 512])):
        counts.add(np.array(left, np.int32), np.array(right, np.int32))
        plain.update(zip(left, right, strict=True))
    rows = list(zip(*(column.tolist() for column in counts.sorted_rows()), strict=True))
    assert rows == sorted((*size, count) for size, count in plain.items())


def test_keys_and_fingerprint_follow_the_users_keys_alone(tmp_path):
    pairs = random_pairs(8)
    first = publish(edge_data(pairs), settings(tmp_path / "a"))
    # A new first vertex shifts every dense id; groups that it does not touch keep their keys.
    second = publish(edge_data([*pairs, ("a newcomer", -10_000)]), settings(tmp_path / "b"))
    keys = [{row["biclique_key"] for row in published_rows(run)} for run in (first, second)]
    assert len(keys[1] - keys[0]) == 1
    assert keys[0] < keys[1]
    assert read_manifest(first).content_fingerprint != read_manifest(second).content_fingerprint


def test_fingerprint_is_that_of_the_content_not_of_order_or_blocks(tmp_path):
    edges = edge_data(crown_pairs(8))
    prints = {
        read_manifest(
            publish(edges, settings(tmp_path, output=output, execution={"block_bytes": size}))
        ).content_fingerprint
        for size in (1 << 10, 1 << 24)
        for output in ({"sort": False}, {"sort": True, "members": True})
    }
    assert len(prints) == 1
    assert prints != {read_manifest(publish(edge_data(crown_pairs(7)), settings(tmp_path))).content_fingerprint}


def test_save_and_load_edges(tmp_path):
    edges = edge_data(random_pairs(9))
    again = load_edges(save_edges(edges, tmp_path / "new/edges"))
    for name in ("left_ids", "right_ids"):
        assert np.array_equal(getattr(again, name), getattr(edges, name))
        assert getattr(again, name).dtype == np.int32
    assert again.left_keys.equals(edges.left_keys)
    assert again.right_keys.equals(edges.right_keys)
    assert again.facts == edges.facts


def _block(rng: np.random.Generator, n: int) -> BicliqueBlock:
    left_sizes, right_sizes = (rng.integers(1, 9, n).astype(np.int32) for _ in range(2))
    return BicliqueBlock(
        n,
        left_sizes,
        right_sizes,
        rng.integers(0, 100, left_sizes.sum()).astype(np.int32),
        rng.integers(0, 100, right_sizes.sum()).astype(np.int32),
    )


def _synthetic_batch(seed: int, n: int) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    return ROWS.batch(_block(rng, n), rng.integers(-(2**63), 2**63 - 1, n))
