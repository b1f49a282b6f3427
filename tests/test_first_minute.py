"""Setup: `make run` installs only what a run needs and shows it; and the benchmark of the first minute."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import signal
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.first_minute import Line, longest_silence, parts
from tests.patience import begun, completed, output_of

ROOT = Path(__file__).resolve().parents[1]
BASE = {
    "annotated-types",
    "pydantic-core",
    "jinja2",
    "markupsafe",
    "llvmlite",
    "numba",
    "numpy",
    "pyarrow",
    "pydantic",
    "yaml",
    "rich",
    "scipy",
    "typer",
}
OWN = {"mbe_stage", "pipeline", "examples"}


@pytest.fixture
def install() -> ModuleType:
    spec = importlib.util.spec_from_file_location("install", ROOT / "tools" / "install.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_running_needs_the_base_dependencies_only() -> None:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {re.split(r"[><=!]", line)[0].replace("pyyaml", "yaml") for line in dependencies} == BASE
    imported = set()
    for path in (ROOT / "pipeline" / "demo").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            imported |= {name.split(".")[0] for name in names}
    assert imported - BASE - OWN <= sys.stdlib_module_names
    assert imported & BASE


def test_each_stamp_installs_its_groups() -> None:
    text = (ROOT / "Makefile").read_text()
    found = re.findall(r"^(\$\(\w+\)|\w+): (\S+).*\n((?:\t.*\n)+)", text, re.MULTILINE)
    rules = {target: (needs, recipe) for target, needs, recipe in found}
    assert rules["run"][0] == "$(RUN_READY)"
    assert rules["$(RUN_READY)"][1].count("--editable .\n") == 1
    assert "[" not in rules["$(RUN_READY)"][1].split("tools/install.py")[1]
    assert rules["check"][0] == "$(TEST_READY)"
    assert rules["$(TEST_READY)"][0] == "$(RUN_READY)"
    assert "$(VENV) $(TESTED)\n" in rules["$(TEST_READY)"][1]
    assert "\nTESTED := --editable '.[flows]' --group dev --group cuda-compile\n" in text


def test_groups_are_those_of_the_project(install: ModuleType) -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    assert install.with_groups(["--editable", ".", "--group", "cuda-compile"]) == [
        "--editable",
        ".",
        *groups["cuda-compile"],
    ]
    with pytest.raises(SystemExit, match=r"no dependency group 'nothing' in pyproject.toml; expected one of .*dev"):
        install.with_groups(["--group", "nothing"])


def test_a_long_installation_repeats_its_message(
    install: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(install, "_SECONDS_BETWEEN_LINES", 0.1)
    program = "import time; print('Collecting numba>=0.64', flush=True); time.sleep(3)"
    assert install._run([sys.executable, "-c", program], "installing . into .venv") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "installing . into .venv ..."
    assert lines[-1].endswith("done")
    assert (
        sum(bool(re.search(r"looking up numba>=0\.64(, for \d+ s)?, packages so far: 1$", line)) for line in lines) >= 2
    )


def test_the_message_names_the_current_step(
    install: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Show the current step and its duration, not the last download during unpacking."""
    monkeypatch.setattr(install, "_SECONDS_BETWEEN_LINES", 0.1)
    said = ["Collecting a", "Collecting oauthlib", "  Downloading oauthlib-3.3.1-py3-none-any.whl.metadata (7 kB)"]
    said += ["Installing collected packages: a, oauthlib"]
    program = "import time\nfor line in " + repr(said) + ": print(line, flush=True); time.sleep(1)"
    assert install._run([sys.executable, "-c", program], "installing . into .venv") == 0
    lines = [line.split(" s  ")[1] for line in capsys.readouterr().out.splitlines()[1:-1]]
    kinds = list(dict.fromkeys(re.sub(r", for \d+ s", "", line) for line in lines))
    assert kinds == [
        "looking up a, packages so far: 1",
        "looking up oauthlib, packages so far: 2",
        "installing 2 packages",
    ]
    assert any(re.fullmatch(r"installing 2 packages, for \d+ s", line) for line in lines)


def test_a_failure_shows_its_output(install: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    program = "import sys; print('No matching distribution'); sys.exit(7)"
    assert install._run([sys.executable, "-c", program], "installing") == 7
    assert "No matching distribution" in capsys.readouterr().err


@pytest.mark.slow
def test_ctrl_c_prints_one_line_and_a_partial_environment_is_rebuilt(tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    command = [sys.executable, "-u", str(ROOT / "tools" / "install.py"), str(environment)]
    process = begun([*command, "none-of-this-name"], text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == f"making {environment} ...\n"
    while not (environment / "bin" / "python").exists():
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    _, said = output_of(process)
    assert process.returncode == 130
    assert said.endswith("interrupted: the same command goes on from here\n")
    assert not (environment / "bin" / "pip").exists()
    # Nothing to install, but with its requirements.
    assert completed([*command, "pip"]).returncode in (0, 1)
    assert (environment / "bin" / "pip").exists()


def test_the_longest_silence_may_be_anywhere() -> None:
    lines = [Line(1.0, "one"), Line(2.0, "two"), Line(7.0, "three")]
    assert longest_silence(lines, 8.0) == (5.0, "two")
    assert longest_silence(lines, 20.0) == (13.0, "three")
    assert longest_silence([], 3.0) == (3.0, "(the beginning)")


def test_parts_of_the_minute() -> None:
    lines = [
        Line(0.5, "making .venv ..."),
        Line(30.0, "12:00:00 compiling the engine for this processor, once: 1 of 29"),
        Line(50.0, "enumerating two real graphs"),
        Line(51.0, "enumerating southern_women.csv, 1 s"),
    ]
    assert parts(lines, 60.0) == {"installing": 29.5, "compiling": 20.0, "running": 10.0}


@pytest.mark.parametrize(
    ("arguments", "code", "begins"),
    [(["-m", "mbe_stage.flows.enumerate"], 4, "error: "), (["-c", "import mbe_stage.flows.enumerate"], 1, "Traceback")],
)
def test_flows_without_prefect_say_what_to_install(
    arguments: list[str], code: int, begins: str, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['prefect'] = None\n")
    done = completed(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        cwd=tmp_path,
    )
    assert done.returncode == code
    assert done.stderr.startswith(begins)
    assert "Prefect is not installed: pip install 'mbe-stage[flows]'" in done.stderr.splitlines()[-1]
