"""(p, q)-counts on both backends: device edges and host edges give the same tables."""

from __future__ import annotations

from math import comb
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage.engines import engine_names
from mbe_stage.pipeline import Config, count, run
from mbe_stage.pipeline.errors import ConfigError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.verify import verify_run
from tests.pipeline.output_support import random_pairs

PAIRS = random_pairs(3, n_left=40, n_right=30)
EDGES = pa.table({"l": [str(left) for left, _ in PAIRS], "r": pa.array([right for _, right in PAIRS])})

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif("cuda" not in engine_names("pq_counts"), reason="the problem has no engine of a GPU yet"),
]


def settings(out: Path | str, engine: str, **asked: object) -> Config:
    values = {"execution": {"engine": engine}, "output": {"directory": str(out)}, "problem": "pq_counts"}
    return Config.from_mapping({**values, "pq_counts": asked})


def test_the_backends_publish_the_same(tmp_path: Path) -> None:
    runs = [
        run(settings(tmp_path / engine, engine, p=5, q=4, table=True), EDGES) for engine in ("cpu", "cuda", "rapids")
    ]
    assert [each.manifest.engine for each in runs] == ["cpu", "cuda", "rapids"]
    for each in runs[1:]:
        tables = [pq.read_table(one.run_dir / "pq_counts.parquet") for one in (runs[0], each)]
        assert tables[0].equals(tables[1])
        assert each.manifest.counts == runs[0].manifest.counts
        assert each.manifest.content_fingerprint == runs[0].manifest.content_fingerprint
        verify_run(each.run_dir, ingest(Config().input, EDGES))


def test_counting_only_gives_the_same() -> None:
    told = [count(settings("out", engine, p=3, q=3), EDGES).result_text for engine in ("cpu", "cuda", "rapids")]
    assert told[0] is not None
    assert [each.values["counts"] for each in told if each is not None] == [told[0].values["counts"]] * 3


def test_local_counts_are_made_on_the_device_too(tmp_path: Path) -> None:
    runs = [run(settings(tmp_path / each, each, p=3, q=3, local="edges"), EDGES) for each in ("cpu", "auto")]
    assert [each.manifest.engine for each in runs] == ["cpu", "rapids"]
    assert runs[0].manifest.content_fingerprint == runs[1].manifest.content_fingerprint
    verify_run(runs[1].run_dir, ingest(Config().input, EDGES))


def test_a_frame_of_counts(tmp_path: Path) -> None:
    cudf = pytest.importorskip("cudf")
    from mbe_stage.pipeline.rapids.library import count_pq_bicliques

    found = count_pq_bicliques(cudf.DataFrame.from_arrow(EDGES), "l", "r", p=4, q=3, table=True)
    run_dir = run(settings(tmp_path, "cpu", p=4, q=3, table=True), EDGES).run_dir
    assert found.to_arrow(preserve_index=False).to_pylist() == pq.read_table(run_dir / "pq_counts.parquet").to_pylist()
    with pytest.raises(ConfigError, match=r"pq_counts\.p is 0"):
        count_pq_bicliques(cudf.DataFrame.from_arrow(EDGES), "l", "r", p=0)


@pytest.mark.parametrize("local", ["vertices", "edges"])
def test_frames_of_local_counts(tmp_path: Path, local: Literal["vertices", "edges"]) -> None:
    cudf = pytest.importorskip("cudf")
    from mbe_stage.pipeline.rapids.library import count_pq_bicliques

    found = count_pq_bicliques(cudf.DataFrame.from_arrow(EDGES), "l", "r", p=3, q=3, table=True, local=local)
    run_dir = run(settings(tmp_path, "cpu", p=3, q=3, table=True, local=local), EDGES).run_dir
    assert (found.pq_edges is None) == (local == "vertices")
    for name in ("pq_counts", "pq_vertices", *(["pq_edges"] if local == "edges" else [])):
        table = getattr(found, name).to_arrow(preserve_index=False)
        assert table.schema.field("count").type == pa.decimal128(38, 0)
        assert table.to_pylist() == pq.read_table(run_dir / f"{name}.parquet").to_pylist()


def test_frames_of_counts_beyond_38_digits() -> None:
    """A star with 140 leaves counts C(140, 70), and each leaf C(139, 69): 41 digits."""
    cudf = pytest.importorskip("cudf")
    from mbe_stage.pipeline.rapids.library import count_pq_bicliques

    star = cudf.DataFrame({"l": [7] * 140, "r": list(range(140))})
    found = count_pq_bicliques(star, "l", "r", p=1, q=70, local="edges")
    table = found.pq_edges.to_arrow(preserve_index=False)
    assert table["count"].null_count == 140
    assert table["count_text"].to_pylist() == [str(comb(139, 69))] * 140
