"""Compiling is a separate step; once everything is compiled, no command compiles."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from mbe_stage.bicliques import engine_cuda, reference
from mbe_stage.bicliques.estimation import sampler
from mbe_stage.pipeline import Config, count, run
from mbe_stage.pipeline.cli.app import app
from mbe_stage.pipeline.cli.compile import compile_everything
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution import tiers
from mbe_stage.pipeline.execution.compiling import host_steps
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.stream import Listener, wants_outlook
from tests.patience import completed

ROOT = Path(__file__).resolve().parents[2]
PAIRS = ([0, 0, 1], [0, 1, 1])

# Compiles everything, runs the usual commands, and prints what Numba compiled meanwhile.
USUAL = """
import sys
from numba.core import event
from mbe_stage.pipeline.cli.compile import compile_everything
compile_everything("cpu", lambda _: None)
from mbe_stage.bicliques.estimation import sampler
# The sampler takes what is kept, and does not compile.
assert sampler._walk_that_is_compiled() is False
from mbe_stage.pipeline.cli.app import app
source, numbers, out = sys.argv[1:]
compiled = []
class Listener(event.Listener):
    def on_start(self, noted):
        compiled.append(f"{noted.data['dispatcher'].py_func.__qualname__} {noted.data['args']}")
    def on_end(self, noted):
        pass
event.register("numba:compile", Listener())
engine = ["--engine", "cpu", "--quiet"]
commands = [
    ["enumerate", source, "--count-only", *engine],
    ["enumerate", numbers, "--count-only", *engine],
    ["enumerate", source, "--count-only", "--min-left", "2", "--min-right", "2", *engine],
    ["enumerate", source, "--count-only", "--containing-left", "u1", *engine],
    ["enumerate", source, "--out", out, "--members", "--sort", *engine],
    ["enumerate", numbers, "--out", out, "--min-left", "2", *engine],
    ["enumerate", source, "--out", out, "--containing-right", "v1", *engine],
    ["enumerate", source, "--out", out, "--groups", *engine],
    ["enumerate", source, "--out", out, "--groups-kind", "grown_cover", *engine],
    ["verify", out, "--quiet"],
    ["top", out],
    ["groups", out, "--quiet"],
    ["groups", source, "--out", out, *engine],
    ["verify", out, "--quiet"],
    ["enumerate", source, "--out", out, "--timestamp", "2", "--time-bucket", "7d", "--groups", *engine],
    ["verify", out, "--quiet"],
    ["count-pq", source, *engine],
    ["count-pq", source, "-p", "4", "-q", "3", "--table", "--out", out, *engine],
    ["verify", out, "--quiet"],
    ["cliques", source, "--count-only", "--project", "right", "--min-shared", "3", *engine],
    ["cliques", numbers, "--out", out, "--sort", "--containing", "0", *engine],
    ["verify", out, "--quiet"],
    ["inspect", source, "--engine", "cpu", "--trial", "0.1"],
]
for command in commands:
    app(command, standalone_mode=False)
print("\\n".join(["compiled:", *compiled]))
"""


def test_once_compiled_no_usual_command_compiles(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    left, right = np.unique(rng.integers(0, (160, 50), (1500, 2)), axis=0).T
    left, right = np.concatenate([left, np.arange(160)]), np.concatenate([right, np.full(160, 50)])
    # A twin on either side.
    left, right = np.concatenate([left, [200, 201]]), np.concatenate([right, [0, 0]])
    texts, numbers = tmp_path / "texts.csv", tmp_path / "numbers.csv"
    rows = list(enumerate(zip(left, right, strict=True)))
    texts.write_text("left,right,time\n" + "".join(f"u{u},v{v},{3600 * i}\n" for i, (u, v) in rows))
    numbers.write_text("left,right,time\n" + "".join(f"{u},{v},{3600 * i}\n" for i, (u, v) in rows))
    done = completed(
        [sys.executable, "-c", USUAL, texts, numbers, tmp_path / "out"], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.partition("compiled:\n")[2] == "", done.stdout


# Publishes a run of eight edges; prints which of our functions it loaded, and the names of its steps.
EIGHT_EDGES = """
import sys
from mbe_stage.runtime import jit
from mbe_stage.pipeline.cli.app import app
from mbe_stage.pipeline.publish.manifest import read_manifest
source, out = sys.argv[1:]
columns = ["--left", "0", "--right", "1"]
app(["enumerate", source, *columns, "--out", out, "--engine", "cpu", "--quiet"], standalone_mode=False)
print(*sorted(each.py_func.__module__ for each in jit._known if each.overloads))
print([each for each in ("numba.np.linalg", "scipy.linalg", "scipy.stats") if each in sys.modules])
print(list(read_manifest(out + "/latest").seconds))
"""


def asked_to_compile(monkeypatch: pytest.MonkeyPatch, *problems: str | None) -> list[set[str]]:
    """Return the names of all steps that the commands of each problem (None: of all) may need."""
    asked: list[set[str]] = []

    def noted(self: tiers.Tier, steps: Sequence[CompileStep], _: object = None) -> dict[str, float]:  # noqa: ARG001
        asked.append({step.what for step in steps})
        return {"load": 0.0}

    with monkeypatch.context() as patched:
        patched.setattr(tiers.Tier, "compile", noted)
        for problem in problems:
            compile_everything("cpu", None, problem)
    return asked


def test_loading_imports_no_linear_algebra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code needs only Numba's memory functions; importing the rest would take half a second."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    source = tmp_path / "edges.csv"
    source.write_text("a,x\na,y\na,z\nb,x\nb,y\nb,z\nc,x\nc,z\n")
    (everything,) = asked_to_compile(monkeypatch, None)
    command = [sys.executable, "-c", EIGHT_EDGES, source, tmp_path / "out"]
    functions, modules, steps = completed(command, env=environment, check=True).stdout.splitlines()[-3:]
    assert modules == "[]"
    assert "'load'" in steps
    assert "'compile'" not in steps
    # Nothing that verifies, samples or searches for other problems is loaded.
    assert len(functions.split()) < len({what.partition(" (")[0] for what in everything}) / 2
    assert not [each for each in functions.split() if each.startswith(("pipeline.", "mbe_stage.bicliques.estimation"))]


def settings(tmp_path: Path) -> Config:
    return Config.from_mapping({"execution": {"engine": "reference"}, "output": {"directory": str(tmp_path / "out")}})


def compiles_slowly(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the specification need compiling; return the list of compiled steps."""
    compiled: list[str] = []

    def slow() -> None:
        time.sleep(0.3)
        compiled.append("slow")

    step = CompileStep("slow", lambda: bool(compiled), lambda: False, slow)
    monkeypatch.setattr(reference, "compile_steps", lambda *_: (step,))
    return compiled


def test_compiling_has_its_own_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compiles_slowly(monkeypatch)
    seconds = count(settings(tmp_path), PAIRS).seconds
    assert seconds["compile"] >= 0.3
    assert seconds["total"] == pytest.approx(sum(value for step, value in seconds.items() if step != "total"))
    compiled.clear()
    result = run(settings(tmp_path), PAIRS)
    assert result.manifest.seconds["compile"] >= 0.3
    assert "compile" in (result.run_dir / "report.html").read_text(encoding="utf-8")


def test_an_unusable_input_is_refused_before_compiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compiles_slowly(monkeypatch)
    with pytest.raises(InputError):
        count(settings(tmp_path), ([], []))
    assert compiled == []


@pytest.mark.parametrize("job", [count, run])
def test_an_unknown_key_is_refused_before_compiling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: Callable
) -> None:
    compiled = compiles_slowly(monkeypatch)
    config = settings(tmp_path)
    asked = Config.from_mapping(config.model_dump(exclude_unset=True) | {"query": {"containing_left": ["nobody"]}})
    with pytest.raises(InputError, match="no left vertex 'nobody'"):
        job(asked, PAIRS)
    assert compiled == []


def test_compiling_is_reported_to_the_listener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # This compiles everything else that a run needs.
    run(settings(tmp_path), PAIRS)
    compiles_slowly(monkeypatch)
    notes: list[str] = []
    run(settings(tmp_path), PAIRS, on_compile=lambda standing: notes.append(str(standing)))
    assert notes[0] == "compiling the engine for this processor, once: 1 of 1"


def test_the_command_reports_compiled_functions() -> None:
    done = CliRunner().invoke(app, ["compile", "--engine", "reference", "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["engine"] == "reference"
    assert said["functions"] >= said["compiled"] >= 0


def test_the_command_fails_if_code_cannot_be_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise an image built with it would compile at every start."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    done = CliRunner().invoke(app, ["compile", "--engine", "reference"])
    assert done.exit_code == 3
    assert "compiled code cannot be saved" in done.stderr


@pytest.mark.parametrize("engine", ["cuda", "rapids"])
def test_an_unavailable_engine_is_refused_by_name(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_cuda, "unavailable_reason", lambda: "no NVIDIA GPU is visible")
    done = CliRunner().invoke(app, ["compile", "--engine", engine])
    assert done.exit_code == 4
    assert f"engine '{engine}' cannot run here: " in done.stderr


@pytest.mark.parametrize("job", [run, count])
@pytest.mark.parametrize("listener", [None, Listener(lambda _: None, False), Listener(lambda _: None)])
def test_the_sampler_is_compiled_only_for_an_outlook(
    job: Callable[..., object], listener: Listener | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def noting(_engine: str, part: str, _config: Config, *, samples: bool) -> Sequence[CompileStep]:
        asked.extend([samples] if part != "read" else [])
        return ()

    monkeypatch.setattr(tiers, "host_steps", noting)
    job(settings(tmp_path), PAIRS, on_progress=listener)
    assert asked == [wants_outlook(listener)]


def test_only_sampling_needs_the_steps_of_the_sampler() -> None:
    own = {step.what for step in sampler.compile_steps()}
    for part in ("count", "publish"):
        assert own <= {step.what for step in host_steps("cpu", part, Config())}
        assert not own & {step.what for step in host_steps("cpu", part, Config(), samples=False)}


def test_steps_are_named_once() -> None:
    names = [step.what for step in host_steps("cpu")]
    assert len(names) == len(set(names))
    assert host_steps("reference", "count", Config()) == ()


def test_compiling_for_one_problem_leaves_out_the_engines_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that every command needs stay, and so do those that both problems need."""
    everything, of_bicliques, of_counts, of_cliques = asked_to_compile(
        monkeypatch, None, "bicliques", "pq_counts", "cliques"
    )
    counts = {what for what in everything if what.startswith("mbe_stage.pq_counts.")}
    cliques = {what for what in everything if what.startswith("mbe_stage.cliques.")}
    pairs = ("mbe_stage.shared_neighbours.engine_cpu.", "mbe_stage.shared_neighbours.projection.")
    of_best = ("mbe_stage.bicliques.best.", "mbe_stage.groups.members.")
    further = {what for what in everything if what.startswith((*pairs, *of_best))}
    assert counts
    assert cliques
    assert everything - of_bicliques == counts | cliques | further
    assert counts <= of_counts
    assert not cliques & of_counts
    assert cliques <= of_cliques
    assert not counts & of_cliques
    assert any(what.startswith("mbe_stage.graphs.") for what in of_bicliques & of_counts)
    result = CliRunner().invoke(app, ["compile", "--problem", "triangles"])
    assert result.exit_code == 2
    assert "problem is 'triangles': expected one of bicliques" in result.output
