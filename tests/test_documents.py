"""The prose lint, and the reference pages generated from the code."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tools import prose, reference, site

ROOT = Path(__file__).parent.parent


def faults_of(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    return list(prose.faults(path))


def words(n: int) -> str:
    return "A" + " b" * (n - 1) + "."


def test_a_sentence_of_forty_words_passes_and_one_more_does_not(tmp_path: Path) -> None:
    assert not faults_of(tmp_path, words(40))
    (fault,) = faults_of(tmp_path, "# Title\n\n" + words(41))
    assert "page.md:3: a sentence of 41 words" in fault


def test_the_median_counts(tmp_path: Path) -> None:
    assert not faults_of(tmp_path, "\n".join([words(18)] * 3 + [words(30)] * 2))
    (fault,) = faults_of(tmp_path, "\n".join([words(19)] * 5))
    assert "a median of 19 words" in fault


@pytest.mark.parametrize(
    "text",
    [
        f"```text\n{words(45)}\n```",
        f"| a | b |\n|---|---|\n| {words(45)} | x |",
        f"- {words(45)}\n" + "  more words in this item\n" * 10,
        f"1. {words(15)}\n   {words(15)[:-1]}\n   {words(15)}",
        f"# {words(45)}",
        f"    {words(45)}",
    ],
)
def test_code_tables_lists_and_headings_do_not_count(tmp_path: Path, text: str) -> None:
    assert not faults_of(tmp_path, text)


def test_a_paragraph_after_a_list_counts(tmp_path: Path) -> None:
    assert faults_of(tmp_path, f"- item\n- item\n\n{words(41)}")


def test_lines_and_glue_are_reported(tmp_path: Path) -> None:
    assert "page.md:2: a line of 101 characters" in faults_of(tmp_path, "# T\n" + "words " * 16 + "words")[0]
    assert "'whoever'" in faults_of(tmp_path, "This is for whoever reads it.")[0]
    assert "'Of'" in faults_of(tmp_path, "Of these one is left.")[0]


def test_code_and_links_count_as_their_text() -> None:
    (sentence,) = prose.sentences(["See [two words](a/b.md#c) and `a b c` at 3.5 s."])
    assert sentence.n_words == 8


def test_the_documents_have_no_fault() -> None:
    assert [fault for path in prose.documents() for fault in prose.faults(path)] == []


def test_the_reference_is_up_to_date() -> None:
    for name, text in reference.pages().items():
        assert (reference.REFERENCE / name).read_text(encoding="utf-8") == text, f"{name}: run `make reference`"


def test_guides_are_short() -> None:
    for path in (ROOT / "docs" / "how-to").glob("*.md"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 80, path.name
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_links_to_files_that_are_not_copied_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "ROOT", tmp_path)
    monkeypatch.setattr(site, "SOURCE", tmp_path)
    (tmp_path / "there.txt").write_text("", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text("[a](there.txt#x) [b](gone.txt) ![c](gone.png) `[d](code.txt)` <https://e>", encoding="utf-8")
    assert site.missing(page) == ["page.md: gone.txt is not there", "page.md: gone.png is not there"]


def test_pages_named_in_code_and_configurations_exist() -> None:
    files = [
        path
        for folder in ("mbe_stage", "pipeline", "flows", "tests", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
    ]
    files += [*(ROOT / "configs").glob("*.yaml"), ROOT / "prefect.yaml", ROOT / "pyproject.toml", ROOT / "llms.txt"]
    for path in files:
        for name in re.findall(r"\bdocs/[\w/-]+\.md", path.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{path.relative_to(ROOT)} names {name}"


def test_every_place_with_the_version_has_the_declared_one() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    places = {"CITATION.cff": r"^version: (\S+)$", "CHANGELOG.md": r"\A(?s:.*?)^## \[(.+?)\] - \d{4}-\d\d-\d\d$"}
    places |= {f"examples/containers/{name}": r"\bmbe:([\d.]+)-" for name in ("Dockerfile", "job.yaml", "cronjob.yaml")}
    for name, form in places.items():
        stated = re.findall(form, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
        assert set(stated) == {version}, name


def test_a_missing_document_is_one_error_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert prose.main("nothing.md") == 2
    assert "nothing.md: no such file" in capsys.readouterr().err
