"""Choice of the tier, and messages if one cannot run. Needs no GPU."""

import logging
import sys

import pytest

from mbe_stage.bicliques import engine_cuda
from mbe_stage.errors import EngineUnavailable
from mbe_stage.pipeline.config.model import ExecutionConfig
from mbe_stage.pipeline.execution import tiers
from mbe_stage.pipeline.execution.tiers import Tier, choose_tier, rapids_unavailable_reason, tier_named
from tests.patience import completed


@pytest.fixture
def installed(monkeypatch):
    """A machine with the named modules, where the CUDA engine runs or gives a reason."""

    def install(*modules: str, cuda_reason: str | None = None) -> None:
        find_spec = lambda name: object() if name in modules else None  # noqa: E731
        monkeypatch.setattr(tiers.importlib.util, "find_spec", find_spec)
        monkeypatch.setattr(engine_cuda, "unavailable_reason", lambda: cuda_reason)

    return install


def test_auto_takes_rapids_if_everything_is_installed(installed, caplog):
    installed("cudf", "cugraph")
    with caplog.at_level(logging.DEBUG, "mbe_stage.pipeline.execution.tiers"):
        tier = choose_tier(ExecutionConfig())
    assert (tier.name, tier.engine, tier.uses_gpu) == ("rapids", "cuda", True)
    assert "tier auto: rapids" in caplog.text


def test_auto_takes_the_cuda_engine_without_rapids(installed, caplog):
    installed("cudf")
    with caplog.at_level(logging.DEBUG, "mbe_stage.pipeline.execution.tiers"):
        tier = choose_tier(ExecutionConfig())
    assert (tier.name, tier.engine) == ("cuda", "cuda")
    assert "not rapids: cugraph is not installed: pip install 'mbe-stage[rapids-cu13]'" in caplog.text


def test_auto_takes_the_cpu_without_a_gpu(installed, caplog):
    installed("cudf", "cugraph", cuda_reason="no NVIDIA GPU is visible: check nvidia-smi")
    with caplog.at_level(logging.DEBUG, "mbe_stage.pipeline.execution.tiers"):
        tier = choose_tier(ExecutionConfig())
    assert (tier.name, tier.uses_gpu) == ("cpu", False)
    assert "not rapids: no NVIDIA GPU is visible" in caplog.text


@pytest.mark.parametrize(
    ("modules", "cuda_reason", "said"),
    [
        ((), None, "cudf and cugraph are not installed"),
        (("cugraph",), None, "cudf is not installed: pip install"),
        (("cudf", "cugraph"), "the driver is too old", "the driver is too old"),
    ],
)
def test_rapids_by_name_runs_or_says_why_not(installed, modules, cuda_reason, said):
    installed(*modules, cuda_reason=cuda_reason)
    with pytest.raises(EngineUnavailable, match=r"engine 'rapids' cannot run here: .*") as refusal:
        choose_tier(ExecutionConfig(engine="rapids"))
    assert said in str(refusal.value)


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_engines_by_name_are_tiers_of_the_host(name):
    assert tier_named(name) == Tier(name, name, "requested by name")


def test_nothing_of_rapids_is_imported():
    """Neither importing the package nor checking the tier touches a GPU library."""
    code = (
        "import sys, pipeline, flows, mbe_stage.pipeline.rapids\n"
        "from mbe_stage.pipeline.execution.tiers import rapids_unavailable_reason\n"
        "rapids_unavailable_reason()\n"
        "assert not {'cudf', 'cugraph', 'rmm', 'pylibcudf'} & set(sys.modules)"
    )
    completed([sys.executable, "-c", code], check=True)


def test_the_reason_is_none_or_one_line():
    reason = rapids_unavailable_reason()
    assert reason is None or "\n" not in reason
