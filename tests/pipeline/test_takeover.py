"""`auto` chose the tier `rapids` and its memory is too small: the run of the next tier. Needs no GPU."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

from mbe_stage import MemoryBudgetExceeded
from mbe_stage import engines as registry
from mbe_stage.pipeline import RunStore, count, run
from tests.mbe_stage import small_gpu
from tests.pipeline import small_rapids
from tests.pipeline.output_support import assert_sound, crown_pairs, settings
from tests.pipeline.small_rapids import STEPS, SmallRapids


@pytest.fixture
def rapids(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> SmallRapids:
    return small_rapids.install(monkeypatch, request.param)


@pytest.fixture(autouse=True)
def _gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    small_gpu.install(monkeypatch)


def crown() -> pa.Table:
    left, right = zip(*crown_pairs(6), strict=True)
    return pa.table({"left": list(left), "right": list(right)})


@pytest.mark.parametrize("rapids", STEPS[:3], indirect=True)
@pytest.mark.parametrize(("device_memory", "engine"), [(1 << 20, "cpu"), (1 << 30, "cuda")])
def test_the_next_tier_takes_over_and_the_manifest_says_so(tmp_path, rapids, device_memory, engine, caplog):
    config = settings(tmp_path, execution={"engine": "auto", "device_memory": device_memory})
    manifest = run(config, crown()).manifest
    assert rapids.n_refused == 1
    assert (manifest.engine, manifest.counts.bicliques) == (engine, 62)
    assert manifest.warnings[0].startswith(
        "tier auto: rapids had too little device memory before the first result, and cuda takes over; rapids "
        f"reported: the limit of 1 MiB is reached in {rapids.refuses_at}"
    )
    # The engine's own refusal comes second.
    assert len(manifest.warnings) == (2 if engine == "cpu" else 1)
    logged = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert logged == list(manifest.warnings)
    (published,) = RunStore(tmp_path).runs()
    assert not (published / "left-behind").exists()
    assert_sound(published)
    counted = count(config, crown())
    assert (counted.n_bicliques, counted.engine) == (62, engine)
    assert counted.warnings == manifest.warnings


@pytest.mark.parametrize("rapids", ["blocks"], indirect=True)
@pytest.mark.parametrize("job", [run, count])
def test_after_the_first_biclique_the_error_stays(tmp_path, rapids, job):
    told = []
    with pytest.raises(MemoryBudgetExceeded, match="is reached in blocks") as refusal:
        job(settings(tmp_path, execution={"engine": "auto"}), crown(), on_progress=told.append)
    assert refusal.value.has_begun
    assert (rapids.n_refused, [progress.n_bicliques for progress in told]) == (1, [0, 5])
    assert RunStore(tmp_path).runs() == []


@pytest.mark.parametrize("rapids", STEPS, indirect=True)
@pytest.mark.parametrize("job", [run, count])
def test_a_named_tier_keeps_its_error(tmp_path, rapids, job):
    with pytest.raises(MemoryBudgetExceeded, match=f"is reached in {rapids.refuses_at}"):
        job(settings(tmp_path, execution={"engine": "rapids"}), crown())
    assert rapids.n_refused == 1
    assert RunStore(tmp_path).runs() == []


@pytest.mark.parametrize("rapids", ["ingest"], indirect=True)
def test_an_error_of_the_next_tier_is_raised(tmp_path, rapids, monkeypatch):
    monkeypatch.setattr(registry, "_AUTO_PREFERENCE", ("cuda",))
    with pytest.raises(MemoryBudgetExceeded, match="the CUDA engine needs"):
        run(settings(tmp_path, execution={"engine": "auto"}), crown())
    assert rapids.n_refused == 1
