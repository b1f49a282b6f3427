"""A run's summary in Markdown, safe against any key."""

import pyarrow as pa
from markdown_it import MarkdownIt

from mbe_stage.flows.artifacts import code, report_markdown, since_markdown, summary_markdown, text
from mbe_stage.pipeline import Config, run

EVIL = "a|b [x](http://e) <img src=x> `c`\n# d *e* _f_"


def published(out, edges):
    config = Config.from_mapping({"execution": {"engine": "reference"}, "output": {"directory": str(out)}})
    left, right = zip(*edges, strict=True)
    return run(config, pa.table({"l": left, "r": right}))


def test_keys_are_shown_as_plain_text(tmp_path):
    shown = text(EVIL)
    assert not set("|[]<>`*_\n") & set(shown)
    assert "http:" not in shown
    published(tmp_path, [(EVIL, "x")])
    result = published(tmp_path, [(EVIL, "x"), (EVIL, EVIL)])
    for page in (report_markdown(result.run_dir, result.manifest), since_markdown(result.manifest.comparison)):
        assert shown in page
        assert EVIL not in page
        assert "http:" not in page


def test_the_heat_map_counts_every_biclique(tmp_path):
    crown = [(f"l{i}", f"r{j}") for i in range(5) for j in range(5) if i != j]
    result = published(tmp_path, crown)
    page = report_markdown(result.run_dir, result.manifest)
    assert "# 30 maximal bicliques" in page
    assert "| **1** |  |  |  | ▓ 5 |" in page
    assert "| **3** |  | █ 10 |  |  |" in page
    assert code(result.run_dir.absolute() / "report.html") in page


def test_a_run_without_bicliques_has_a_summary(tmp_path):
    config = Config.from_mapping(
        {
            "execution": {"engine": "reference"},
            "output": {"directory": str(tmp_path), "report": False},
            "query": {"min_left": 9},
        }
    )
    result = run(config, pa.table({"l": ["a"], "r": ["b"]}))
    page = report_markdown(result.run_dir, result.manifest)
    assert "# 0 maximal bicliques" in page
    assert "No report was asked for" in page


def test_paths_break_no_table(tmp_path):
    edges, out = tmp_path / "a|b `c` <i>.csv", tmp_path / "o|ut `d`"
    edges.write_text("le|ft,right`<i>\na,x\n")
    asked = {"execution": {"engine": "reference"}, "input": {"path": str(edges)}, "output": {"directory": str(out)}}
    result = run(Config.from_mapping(asked))
    shown = MarkdownIt("commonmark").enable("table").render(summary_markdown(result.run_dir, result.manifest))
    assert (
        "a|b ˋcˋ &lt;i&gt;.csv</code> (<code>csv, comma, header; left = 0 'le|ft', right = 1 'rightˋ&lt;i&gt;'" in shown
    )
    assert f"o|ut ˋdˋ/runs/{result.manifest.run_id}</code></td>" in shown
