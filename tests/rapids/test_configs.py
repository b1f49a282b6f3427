"""The shipped GPU configuration is read as intended. Needs no GPU."""

from pathlib import Path

from mbe_stage.pipeline.config.model import Config, load_config

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


def test_the_gpu_configuration_asks_for_the_tier_by_name():
    config = load_config(CONFIGS / "gpu.yaml")
    assert config.execution.engine == "rapids"
    changed = {
        "execution": config.execution.model_dump(exclude={"engine"}),
        "output": config.output.model_dump(exclude={"directory"}),
    }
    assert Config.from_mapping(changed) == Config()
