"""Check the table against the published bicliques; shares no code with the collector."""

from __future__ import annotations

import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.verify import Job

__all__ = ["check"]


def check(job: Job) -> None:
    """Compare `smaller_sides.parquet` with `bicliques/`, and the manifest's counts with both."""
    path, asked = job.run / "smaller_sides.parquet", job.manifest.config.section("smaller_sides")
    if job.results is None:
        job.not_checked("smaller sides: the bicliques are not to be had")
        return
    bicliques = pq.read_table(job.results / "bicliques", columns=["biclique_key", "n_left", "n_right"])
    smaller = pc.min_element_wise(bicliques["n_left"], bicliques["n_right"])
    groups = bicliques.append_column("size", smaller).group_by("size")
    expected = [
        {"size": row["size"], "n_bicliques": row["biclique_key_count"], "largest_key": row["biclique_key_max"]}
        for row in groups.aggregate([("biclique_key", "count"), ("biclique_key", "max")]).sort_by("size").to_pylist()
        if row["size"] >= asked.at_least
    ]
    if not asked.largest_key:
        expected = [{name: row[name] for name in ("size", "n_bicliques")} for row in expected]
    found = pq.read_table(path).to_pylist()
    if found != expected:
        wrong = next((i for i, pair in enumerate(zip(found, expected, strict=False)) if pair[0] != pair[1]), None)
        row = min(len(found), len(expected)) if wrong is None else wrong
        raise VerificationError(f"{path}, row {row}: {found[row : row + 1]}; recomputed {expected[row : row + 1]}")
    counts = {"sizes": len(expected), "bicliques": sum(row["n_bicliques"] for row in expected)}
    if job.manifest.derived["smaller_sides"] != counts:
        raise VerificationError(
            f"{job.run / 'manifest.json'}: derived.smaller_sides is {job.manifest.derived['smaller_sides']}; "
            f"recomputed {counts}"
        )
    job.passed("smaller sides", f"{len(expected)} sizes")
