"""The wheel in a fresh virtual environment, without checkout or home, in read-only folders.

By default the wheel is built here and uses the dependencies of the test environment, so nothing is downloaded. `make
release-check` passes its wheel in ``MBE_WHEEL``; then dependencies and extras come from the package index.
"""

from __future__ import annotations

import ctypes
import doctest
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.patience import completed
from tests.test_one_import_name import OLD_MODULES
from tests.test_readme import blocks

ROOT = Path(__file__).parent.parent
WHEEL = os.environ.get("MBE_WHEEL")
BUILT_FROM = ("mbe_stage", "pipeline", "flows", "configs", "pyproject.toml", "setup.py", "README.md", "LICENSE")
BUILT_FROM = (*BUILT_FROM, "THIRD_PARTY_NOTICES.md")
NO_HOME = "/proc/none"
SILENT = {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "PREFECT_LOGGING_LEVEL": "WARNING"}
SILENT |= {"PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "600"}
from_the_index = pytest.mark.skipif(not WHEEL, reason="`make release-check` does this: it downloads packages")
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1


def obey_permissions() -> None:
    """Make permissions hold for root too, from the next program on."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


@dataclass(frozen=True)
class Installation:
    """A virtual environment with the wheel.

    Attributes
    ----------
    folder : Path
        The environment.
    variables : dict
        Environment variables of its processes, except ``PATH``.
    """

    folder: Path
    variables: dict[str, str]

    def __call__(
        self, *command: object, cwd: Path, exit_code: int = 0, **variables: str
    ) -> subprocess.CompletedProcess:
        """Run a command or a path of ``bin/`` as a user without root's rights."""
        environment = {"PATH": f"{self.folder}/bin:/usr/bin:/bin", **self.variables, **variables}
        program = self.folder / "bin" / str(command[0])
        first = program if program.exists() else command[0]
        done = completed([first, *command[1:]], cwd=cwd, env=environment, preexec_fn=obey_permissions)
        assert done.returncode == exit_code, f"{command}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def may_be_written(self, may: bool) -> None:
        completed(["chmod", "-R", "u+w" if may else "a-w", self.folder], check=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy, because building writes into the tree."""
    if WHEEL:
        return Path(WHEEL).resolve()
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", built]
    completed([*build, source], check=True)
    (found,) = built.glob("*.whl")
    return found


def empty_environment(folder: Path) -> Path:
    """Make an environment without the wheel; without an index it sees this one's packages."""
    completed([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    if not WHEEL:
        (site,) = folder.glob("lib/*/site-packages")
        (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return folder


def pip(folder: Path, *arguments: object) -> None:
    options = ["--quiet", "--disable-pip-version-check", "--python", folder / "bin" / "python"]
    completed([sys.executable, "-m", "pip", *options, *arguments], check=True)


def install(folder: Path, wheel: Path, *more: object, extra: str = "") -> None:
    offline = () if WHEEL else ("--no-index", "--no-deps", "--ignore-installed")
    pip(folder, "install", *offline, f"mbe-stage{extra} @ {wheel.as_uri()}", *more)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder, cache = empty_environment(tmp_path_factory.mktemp("environment")), tmp_path_factory.mktemp("cache")
    install(folder, wheel, *(("networkx", "mypy") if WHEEL else ()))
    made = Installation(folder, {"HOME": NO_HOME, "NUMBA_CACHE_DIR": str(cache), **SILENT})
    made.may_be_written(False)
    yield made
    made.may_be_written(True)


@pytest.fixture(scope="module")
def compiled(installed: Installation, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Return the installation with its code compiled into a given directory."""
    said = installed("mbe", "compile", "--engine", "cpu", "--json", cwd=tmp_path_factory.mktemp("work")).stdout
    assert installed.variables["NUMBA_CACHE_DIR"] in said
    return installed


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    """Return a file in a project directory whose packages have the same names as ours."""
    for package in ("pipeline", "flows"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("own = True\n")
    path = tmp_path / "edges.csv"
    path.write_text("left,right\na,x\na,y\nb,x\nb,y\n")
    return path


def site_of(installation: Installation) -> Path:
    (site,) = installation.folder.glob("lib/*/site-packages")
    return site


def test_the_wheel_has_one_package_with_all_modules(installed: Installation) -> None:
    site = site_of(installed)
    if not WHEEL:
        assert sorted(path.name for path in site.iterdir() if path.suffix not in (".dist-info", ".pth")) == [
            "mbe_stage"
        ]
    for package, folder in (("mbe_stage", "."), ("pipeline", "pipeline"), ("flows", "flows")):
        wanted = {path.relative_to(ROOT / package) for path in (ROOT / package).rglob("*.py")}
        assert [path for path in wanted if not (site / "mbe_stage" / folder / path).is_file()] == []


def test_it_works_beside_a_project_with_its_own_pipeline_and_flows(installed: Installation, edges: Path) -> None:
    code = (
        "import pipeline, flows\n"
        "assert pipeline.own and flows.own\n"
        "from mbe_stage.pipeline.clean.facts import InputFacts\n"
        "import mbe_stage.pipeline as ours\n"
        f"assert ours.__file__.startswith({str(installed.folder)!r}), ours.__file__\n"
        "from mbe_stage.pipeline.execution.ingest import ingest\n"
        "print(ingest(ours.InputConfig(path='edges.csv')).facts.n_edges)\n"
    )
    assert installed("python", "-c", code, cwd=edges.parent).stdout.split() == ["4"]


def test_an_installation_has_no_forwarding_names(installed: Installation, tmp_path: Path) -> None:
    code = (
        "import importlib, mbe_stage.pipeline\n"
        "found = []\n"
        f"for old in {['tools', *OLD_MODULES]}:\n"
        "    try:\n"
        "        importlib.import_module(old)\n"
        "        found.append(old)\n"
        "    except ModuleNotFoundError:\n"
        "        pass\n"
        "print(found)\n"
    )
    assert installed("python", "-c", code, cwd=tmp_path).stdout.strip() == "[]"


def test_the_version_has_one_source_and_the_wheel_its_commit(installed: Installation, tmp_path: Path) -> None:
    declared = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert declared is not None
    said = installed("mbe", "--version", cwd=tmp_path).stdout
    assert re.fullmatch(rf"mbe {re.escape(declared[1])}{r' [(][0-9a-f]{12}[)]' if WHEEL else ''}\n", said)


def test_the_default_configuration_is_installed(installed: Installation, tmp_path: Path) -> None:
    code = "from mbe_stage.pipeline.package_files import default_configuration as d; print(d().read_text())"
    shown = installed("python", "-c", code, cwd=tmp_path).stdout
    assert shown.strip() == (ROOT / "configs/default.yaml").read_text(encoding="utf-8").strip()


def test_without_a_cache_directory_it_works_and_warns(installed: Installation, edges: Path) -> None:
    # A command would compile some twenty functions.
    code = (
        "from mbe_stage import BipartiteCSR, enumerate_bicliques\n"
        "graph = BipartiteCSR.from_edges([0, 0, 1, 1], [0, 1, 0, 1])\n"
        "print(len(enumerate_bicliques(graph, engine='reference')))\n"
    )
    done = installed("python", "-c", code, cwd=edges.parent, NUMBA_CACHE_DIR="")
    assert done.stdout == "1\n"
    assert "compiled code cannot be kept" in done.stderr
    assert "set NUMBA_CACHE_DIR" in done.stderr
    refused = installed("mbe", "compile", "--engine", "cpu", cwd=edges.parent, exit_code=3, NUMBA_CACHE_DIR="")
    assert refused.stderr.endswith("expected a writable directory; set NUMBA_CACHE_DIR to one\n")


@pytest.mark.slow
def test_cleaned_and_uninstalled_it_leaves_nothing(wheel: Path, edges: Path) -> None:
    folder, home = empty_environment(edges.parent / "environment"), edges.parent / "home"
    home.mkdir()

    def files() -> set[Path]:
        return {path for place in (folder, home) for path in place.rglob("*")}

    if WHEEL:
        # The dependencies stay.
        install(folder, wheel)
        pip(folder, "uninstall", "--yes", "mbe-stage")
    before = files()
    install(folder, wheel)
    run = Installation(folder, {"HOME": str(home)})
    enumerate_ = ["mbe", "enumerate", edges.name, "--out", "out", "--engine", "reference"]
    beside, of_user = site_of(run) / "mbe_stage/__pycache__", home / ".cache"
    # If the folder of the modules is read-only, it writes below the home.
    beside.chmod(0o555)
    run(*enumerate_, cwd=edges.parent)
    (code,) = (of_user / "mbe-stage").iterdir()
    code.parent.chmod(0o555)
    refused = run("mbe", "clean", "--cache", cwd=edges.parent, exit_code=3).stderr
    assert refused.startswith(f"error: {code}: cannot be removed; ")
    code.parent.chmod(0o755)
    assert run("mbe", "clean", "--cache", cwd=edges.parent).stdout == f"removed    {code}\n"
    beside.chmod(0o755)
    run(*enumerate_, cwd=edges.parent)
    removed = run("mbe", "clean", "--cache", cwd=edges.parent).stdout
    assert removed == f"removed    {beside}/mbe-stage/{code.name}\n"
    assert run("mbe", "clean", "--cache", cwd=edges.parent).stdout == "compiled code: nothing to remove\n"
    # Shared with other programs, like ~/.cache.
    of_user.rmdir()
    pip(folder, "uninstall", "--yes", "mbe-stage")
    assert files() - before == set()


@pytest.mark.slow
def test_the_demo(compiled: Installation, tmp_path: Path) -> None:
    said = compiled("mbe", "demo", cwd=tmp_path).stdout
    assert "63 maximal bicliques" in said
    assert "Python imports" in said
    assert len(list(tmp_path.glob("out/*/latest/report.html"))) == 2


@pytest.mark.slow
@pytest.mark.parametrize("document", ["README.md", "docs/reference/arrays.md"])
def test_blocks_of_documents(compiled: Installation, document: str, tmp_path: Path) -> None:
    commands = {"bash": ["bash", "-euo", "pipefail", "-c"], "python": ["python", "-c"]}
    runnable = [block for block in blocks(document) if block.language in commands]
    assert runnable
    # HOME is unset here; other tests set one that does not exist.
    homeless = {name: value for name, value in compiled.variables.items() if name != "HOME"}
    run = Installation(compiled.folder, homeless)
    for block in runnable:
        done = run(*commands[block.language], block.code, cwd=tmp_path, COLUMNS="100")
        shown = done.stdout if block.output is None else block.output
        assert doctest.OutputChecker().check_output(shown, done.stdout, doctest.ELLIPSIS), done.stdout


@pytest.mark.slow
def test_networkx_finds_its_backend(compiled: Installation, tmp_path: Path) -> None:
    code = (
        "import networkx as nx\n"
        "assert 'mbe' in nx.config.backends\n"
        "print(sorted(map(sorted, nx.find_cliques(nx.path_graph(3), backend='mbe'))))\n"
    )
    assert compiled("python", "-c", code, cwd=tmp_path).stdout.strip() == "[[0, 1], [1, 2]]"


@pytest.mark.slow
def test_type_checkers_find_its_types(installed: Installation, tmp_path: Path) -> None:
    """One marker covers all packages below it (PEP 561)."""
    (tmp_path / "user.py").write_text(
        "from mbe_stage import BicliqueQuery\n"
        "from mbe_stage.flows.command import main\n"
        "from mbe_stage.pipeline import Config, RunResult, run\n"
        "reveal_type(BicliqueQuery().min_left)\n"
        "reveal_type(run(Config()).run_dir)\n"
        "reveal_type(main)\n"
    )
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", installed.folder / "bin" / "python"]
    said = completed([*mypy, "--cache-dir", tmp_path / "cache", "user.py"], cwd=tmp_path).stdout
    assert 'is "int' in said, said
    assert 'is "pathlib.Path"' in said, said
    assert "import-untyped" not in said, said
    assert said.count("Any") == 0, said


def flow_of(edges: Path) -> list[object]:
    return ["python", "-m", "mbe_stage.flows.enumerate", "--input", edges.name]


@pytest.mark.slow
def test_a_flow(compiled: Installation, edges: Path) -> None:
    if not WHEEL:
        compiled(*flow_of(edges), cwd=edges.parent, PREFECT_HOME=str(edges.parent / "prefect"))
        assert (edges.parent / "out" / "latest" / "report.html").is_file()
        return
    refused = compiled(*flow_of(edges), cwd=edges.parent, exit_code=4)
    assert "Prefect is not installed: pip install 'mbe-stage[flows]'" in refused.stderr


@pytest.fixture
def with_extra(request: pytest.FixtureRequest, wheel: Path, compiled: Installation, tmp_path: Path) -> Installation:
    """Return a new environment with one extra; its code is already compiled."""
    folder = empty_environment(tmp_path / "environment")
    install(folder, wheel, extra=f"[{request.param}]")
    return Installation(folder, {**compiled.variables, "PREFECT_HOME": str(tmp_path / "prefect")})


extra = partial(pytest.mark.parametrize, "with_extra", indirect=True, ids=str)


@from_the_index
@pytest.mark.slow
@extra(["flows"])
def test_extra_flows(with_extra: Installation, edges: Path) -> None:
    with_extra(*flow_of(edges), cwd=edges.parent)
    assert (edges.parent / "out" / "latest" / "report.html").is_file()


@from_the_index
@pytest.mark.slow
@extra(["dask"])
def test_extra_dask(with_extra: Installation, edges: Path) -> None:
    enumerate_ = ["mbe", "enumerate", edges.name, "--out", "out", "--workers", 1, "--json"]
    assert '"bicliques": 1' in with_extra(*enumerate_, cwd=edges.parent).stdout


@from_the_index
@pytest.mark.slow
@extra(["flows-dask"])
def test_extra_flows_dask(with_extra: Installation, edges: Path) -> None:
    code = (
        "import os\n"
        "from dask.distributed import LocalCluster\n"
        "if __name__ == '__main__':\n"
        "    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:\n"
        "        os.environ['DASK_SCHEDULER_ADDRESS'] = cluster.scheduler_address\n"
        "        from mbe_stage.flows.on_cluster import enumerate_on_cluster_flow as flow\n"
        "        flow(input_path='edges.csv', output_directory='out', overrides=['execution.runner=dask'])\n"
    )
    (edges.parent / "job.py").write_text(code)
    with_extra("python", "job.py", cwd=edges.parent)
    manifest = (edges.parent / "out" / "latest" / "manifest.json").read_text()
    assert '"runner": "dask"' in manifest
    assert '"cluster": "tcp://127.0.0.1:' in manifest


@from_the_index
@pytest.mark.slow
@extra(["object-stores"])
def test_extra_object_stores(with_extra: Installation, edges: Path) -> None:
    from tests.pipeline.stores.server import KEY_ID, SECRET, Bucket, Server

    server = Server()
    bucket = Bucket(server, "bucket")
    keys = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
    run = ["mbe", "enumerate", edges.name, "--out", f"{bucket.url}/out", "--json"]
    done = with_extra(*run, cwd=edges.parent, AWS_ENDPOINT_URL=server.url, **keys)
    assert '"bicliques": 1' in done.stdout


@from_the_index
@pytest.mark.slow
@extra(["filesystems"])
def test_extra_filesystems(with_extra: Installation, edges: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=edges.parent)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/{edges.name}"
        done = with_extra("mbe", "enumerate", address, "--out", "out", "--json", cwd=edges.parent)
        server.shutdown()
    assert '"bicliques": 1' in done.stdout


@from_the_index
@pytest.mark.slow
@extra(["explore"])
def test_extra_explore(with_extra: Installation, edges: Path) -> None:
    with_extra("mbe", "groups", edges.name, "--out", "out", "--quiet", cwd=edges.parent)
    code = (
        "import signal, subprocess, urllib.request\n"
        "page = subprocess.Popen(['mbe', 'explore', 'out'], stdout=subprocess.PIPE, text=True)\n"
        "address = page.stdout.readline().split()[-1]\n"
        "opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())\n"
        "print(b'mbe explore' in opener.open(address).read())\n"
        "page.send_signal(signal.SIGINT)\n"
        "print(page.wait(60))\n"
    )
    assert with_extra("python", "-c", code, cwd=edges.parent).stdout.split() == ["True", "130"]
