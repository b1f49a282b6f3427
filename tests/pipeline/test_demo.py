"""The demo: the import graph of a made-up environment, the choice of groups, and the whole command."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from mbe_stage.pipeline.cli import app
from mbe_stage.pipeline.demo import groups
from mbe_stage.pipeline.demo import job as demo
from mbe_stage.pipeline.demo.python_imports import environment_roots, import_graph, modules
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.views.top import Biclique
from tests.patience import begun, output_of

ROOT = Path(__file__).parents[2]
MBE = [sys.executable, "-u", "-c", "from mbe_stage.pipeline.cli.entry import main; main()"]


def _tree(root: Path, files: dict[str, str]) -> Path:
    for name, source in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return root


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    return _tree(
        tmp_path / "env",
        {
            "box/__init__.py": "from __future__ import annotations\nfrom .io import read\nfrom . import codec as c\n",
            "box/io/__init__.py": "from .raw import *\nfrom .. import codec\nfrom ..codec import pack, unpack\n",
            "box/io/raw.py": (
                "import os.path, sys\n"
                "if True:\n"
                "    try:\n"
                "        import zlib\n"
                "    except ImportError:\n"
                "        zlib = 0\n"
            ),
            "box/codec.py": (
                "def f():\n"
                "    import struct\n"
                "    with open('x'):\n"
                "        from os import path\n"
                "    match 1:\n"
                "        case 1:\n"
                "            import a.b.c as d\n"
            ),
            "box/silent.py": "x = 'import os'\n",
            "box/old.py": "print 'python 2'\nimport os\n",
            "box/null.py": "import os\0",
            "box/too_high.py": "from ....nowhere import x\nfrom . import codec\n",
            "box/tests/test_box.py": "import pytest\n",
            "not-a-name/mod.py": "import os\n",
            "site-packages/other.py": "import os\n",
            "single.py": "import sys\nimport sys\n",
        },
    )


EDGES = [
    ("box", "box.codec"),
    ("box", "box.io.read"),
    ("box.codec", "a.b.c"),
    ("box.codec", "os.path"),
    ("box.codec", "struct"),
    ("box.io", "box.codec"),
    ("box.io", "box.codec.pack"),
    ("box.io", "box.codec.unpack"),
    ("box.io", "box.io.raw.*"),
    ("box.io.raw", "os.path"),
    ("box.io.raw", "sys"),
    ("box.io.raw", "zlib"),
    ("box.too_high", "box.codec"),
    ("single", "sys"),
]


@pytest.mark.parametrize("workers", [1, 2])
def test_import_graph_of_a_known_tree(environment: Path, workers: int) -> None:
    graph = import_graph([environment], workers)
    assert graph.edges == EDGES
    assert graph.n_modules == 9
    assert graph.n_unparsed == 2


def test_the_first_root_wins(environment: Path, tmp_path: Path) -> None:
    shadow = _tree(tmp_path / "shadow", {"single.py": "import json\n", "only.py": "import re\n"})
    edges = import_graph([shadow, environment], workers=1).edges
    assert ("single", "json") in edges
    assert ("single", "sys") not in edges
    assert ("only", "re") in edges


def test_environment_roots_hold_this_environment() -> None:
    names = {module.name for root in environment_roots() for module in modules(root)}
    assert {"ast", "json.decoder", "numpy", "pyarrow.parquet.core"} <= names
    assert not any(".tests." in name for name in names)


def _biclique(key: int, left: range, right: range) -> Biclique:
    return Biclique(key, tuple(left), tuple(right), len(left) * len(right))


def test_near_copies_are_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first, copy = _biclique(1, range(10), range(10)), _biclique(2, range(9), range(11))
    touching, apart = _biclique(3, range(9, 18), range(9, 18)), _biclique(4, range(50, 55), range(50, 55))
    monkeypatch.setattr(groups, "largest_bicliques", lambda *_, **__: [first, copy, touching, apart])
    assert groups.telling_groups(tmp_path, 5, fewest=3) == [first, touching, apart]
    assert groups.telling_groups(tmp_path, 2, fewest=3) == [first, touching]


def test_demo_runs(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Parsing the real environment takes a quarter of a minute; `make run` does that.
    monkeypatch.setattr(demo, "environment_roots", lambda: [environment])
    out = tmp_path / "out"
    demo.show_demo(out)
    women, imports = (read_manifest(out / name / "latest") for name in ("southern_women", "python_imports"))
    assert (women.input.n_left, women.input.n_right, women.input.n_edges) == (18, 14, 89)
    assert women.counts.bicliques == 63
    assert imports.input.n_edges == len(EDGES)
    assert pq.read_table(out / "data" / "python_imports.parquet").num_rows == len(EDGES)
    said = capsys.readouterr().out
    assert "63 maximal bicliques" in said
    assert "Evelyn Jefferson" in said
    for manifest, name in ((women, "southern_women"), (imports, "python_imports")):
        report = out / name / "runs" / manifest.run_id / "report.html"
        assert report.is_file()
        assert str(report) in said


@pytest.mark.parametrize("name", ["southern_women", "data"])
def test_demo_names_a_file_in_its_way(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("in the way")
    done = CliRunner().invoke(app.app, ["demo", "--out", str(tmp_path)])
    assert done.exit_code == 3
    assert f"{tmp_path}/{name}" in done.stderr


def test_the_women_are_those_of_networkx() -> None:
    import networkx as nx

    graph = nx.davis_southern_women_graph()
    lines = (ROOT / "pipeline/demo/southern_women.csv").read_text(encoding="utf-8").splitlines()
    pairs = [tuple(line.split(",")) for line in lines]
    assert pairs[0] == ("woman", "event")
    assert {frozenset(pair) for pair in pairs[1:]} == {frozenset(edge) for edge in graph.edges}
    assert len(pairs) == 1 + graph.number_of_edges()
    assert {woman for woman, _ in pairs[1:]} == set(graph.graph["top"])


@pytest.mark.parametrize(
    "last",
    ["enumerating southern_women.csv", pytest.param("reading the imports of every module", marks=pytest.mark.slow)],
)
def test_ctrl_c_is_one_line(tmp_path: Path, last: str) -> None:
    process = begun([*MBE, "demo", "--out", tmp_path], cwd=ROOT, text=True)
    assert process.stderr is not None
    while not process.stderr.readline().startswith(last):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, said = output_of(process)
    assert process.returncode == 130
    (line,) = (line for line in said.splitlines() if not line.startswith(last))
    assert line.startswith("interrupted")
