"""`auto` chooses a GPU whose memory is too small: the published run and its messages."""

from __future__ import annotations

import pyarrow as pa
import pytest

from mbe_stage import MemoryBudgetExceeded
from mbe_stage.pipeline import RunStore, count, run
from mbe_stage.pipeline.execution import tiers
from mbe_stage.pipeline.execution.tiers import choose_tier
from tests.mbe_stage import small_gpu
from tests.pipeline.output_support import assert_sound, crown_pairs, settings


@pytest.fixture(autouse=True)
def _no_rapids(monkeypatch: pytest.MonkeyPatch) -> None:
    small_gpu.install(monkeypatch)
    monkeypatch.setattr(tiers, "rapids_unavailable_reason", lambda *_: "not here")


def crown() -> pa.Table:
    left, right = zip(*crown_pairs(6), strict=True)
    return pa.table({"left": list(left), "right": list(right)})


@pytest.mark.parametrize(("device_memory", "engine"), [(None, "cpu"), (1 << 20, "cpu"), (1 << 30, "cuda")])
def test_the_engine_that_ran_is_named(tmp_path, device_memory, engine):
    config = settings(tmp_path, execution={"engine": "auto", "device_memory": device_memory})
    assert choose_tier(config.execution).engine == "cuda"
    result = run(config, crown())
    assert result.manifest.counts.bicliques == 62
    assert result.manifest.engine == engine
    assert ("small one" in result.manifest.device) == (engine == "cuda")
    assert_sound(result.run_dir)
    counted = count(config, crown())
    assert (counted.n_bicliques, counted.engine) == (62, engine)
    assert counted.device == result.manifest.device


@pytest.mark.parametrize("job", [run, count])
def test_a_named_engine_keeps_its_error(tmp_path, job):
    config = settings(tmp_path, execution={"engine": "cuda"})
    with pytest.raises(MemoryBudgetExceeded, match="the CUDA engine needs"):
        job(config, crown())
    assert RunStore(tmp_path).latest() is None
