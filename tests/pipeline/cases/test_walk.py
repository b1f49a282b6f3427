"""An investigation from input to verdict and on the next day, using only the README, printed commands and links.

With ``MBE_PICTURES=DIR``, the generated half also saves the pictures of the guides (`make pictures`).
"""

from __future__ import annotations

import csv
import os
import random
import re
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.browser import opened
from tests.commands import Commands
from tests.patience import begun, output_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("starlette", reason="the extra explore is not installed")

ROOT = Path(__file__).parents[3]
PICTURES = os.environ.get("MBE_PICTURES")
# Sizes of the planted rings (the last one appears on the next day), and the days on which they act.
RINGS, DAYS = ((8, 6), (9, 5), (4, 6), (6, 5)), (3, 13, 8, 23)
NAMES = ("account", "page", "rating", "time", "amount")


def reviews(n_rings: int) -> list[tuple[str, ...]]:
    """Random reviews of November, and rings that give five stars to the same pages within ten hours.

    If the last ring is included, the third one has one more account.
    """
    dice, start = random.Random(4), datetime(2026, 11, 1)
    found: list[tuple[str, ...]] = []

    def act(account: str, page: str, rating: int, minute: int) -> None:
        moment = start + timedelta(minutes=minute)
        found.append((account, page, str(rating), f"{moment:%Y-%m-%dT%H:%M}", f"{dice.uniform(5, 50):.2f}"))

    for user in range(400):
        for page in dice.sample(range(80), 4):
            act(f"user {user}", f"page {page}", dice.randrange(1, 6), dice.randrange(24 * 24 * 60))
    for ring, ((n_accounts, n_pages), day) in list(enumerate(zip(RINGS, DAYS, strict=True)))[:n_rings]:
        for account in range(n_accounts):
            for page in range(n_pages):
                act(f"ring {ring}-{account}", f"shop {ring}-{page}", 5, day * 24 * 60 + dice.randrange(600))
            act(f"ring {ring}-{account}", f"page {dice.randrange(80)}", 4, dice.randrange(24 * 24 * 60))
    for page in range(RINGS[2][1]) if n_rings == len(RINGS) else ():
        act("ring 2-late", f"shop 2-{page}", 5, DAYS[2] * 24 * 60 + 300)
    return found


def write(path: Path, names: tuple[str, ...], table: Any) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(table)
    return path


@dataclass
class Analyst:
    """Runs commands in a folder and remembers the next command that the output suggests."""

    folder: Path
    commands: Commands
    printed: str = ""
    shown: dict[str, str] = field(default_factory=dict)

    def run(self, line: str) -> dict[str, str]:
        """Run a command and return its labelled output lines."""
        name, *arguments = shlex.split(line, comments=True)
        assert name == "mbe"
        done = self.commands.mbe(*arguments, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        self.printed = done.stdout
        self.shown = dict(re.findall(r"^(\w+) {2,}(\S.*)$", done.stdout, re.MULTILINE))
        return self.shown

    def follow(self, *beginning: str) -> dict[str, str]:
        """Run the suggested next command, which must start with these words."""
        assert shlex.split(self.shown["next"])[: len(beginning)] == list(beginning), self.shown["next"]
        return self.run(self.shown["next"])


def first_command(file: str, left: str, right: str) -> str:
    """Return the first command of the README's guide to groups, with another file and columns."""
    readme = (ROOT / "README.md").read_text()
    link = re.search(r"a short list of significant groups.*?\]\((\S+?)\)", readme)
    assert link is not None
    command = re.search(r"^\$ (mbe groups .*)$", (ROOT / link[1]).read_text(), re.MULTILINE)
    assert command is not None
    own = {"actions.csv": file, "account": left, "page": right}
    return shlex.join(own.get(word, word) for word in shlex.split(command[1]))


def picture(page: Page, name: str, until: str | None = None) -> None:
    """Save a screenshot of the page, down to the end of an element."""
    if PICTURES is None:
        return
    page.set_viewport_size({"width": 900, "height": 640})
    box = page.locator(until).first.bounding_box() if until else None
    height = 640 if box is None else box["y"] + box["height"] + 24
    page.screenshot(path=Path(PICTURES) / name, full_page=True, clip={"x": 0, "y": 0, "width": 900, "height": height})


def read_report(browser: Browser, analyst: Analyst, *, planted: bool) -> str:
    """Follow the report from its finding to a case, an account and back; return the id of the case."""
    with opened(browser, analyst.folder / analyst.shown["report"]) as page:
        finding = page.locator("h1").inner_text()
        assert re.fullmatch(r"[\d,]+ of [\d,]+ \w+ act together in \d+ cases\.", finding)
        if planted:
            picture(page, "investigate-report.png", ".case .pictures")
        page.locator("#case-list a").first.click()
        case = page.url.partition("#case-")[2]
        section = page.locator(f"#case-{case}")
        assert section.get_by_role("heading", name="Case 1: ").is_visible()
        section.locator("a[href^='#a']").first.click()
        account = page.locator(f"li{page.url[page.url.index('#') :]}")
        assert account.get_by_role("heading").is_visible()
        account.get_by_role("link", name="case 1", exact=True).click()
        assert page.url.endswith("#c1")
        page.get_by_role("link", name="Next steps").click()
        commands = page.locator("footer pre").inner_text()
    assert re.findall(r"^mbe [a-z ]+RUN(?: --case)? (\w+)", commands, re.MULTILINE) == [case] * 3
    assert analyst.follow("mbe", "show")["finding"] == finding
    return case


@contextmanager
def explored(browser: Browser, analyst: Analyst) -> Iterator[Page]:
    """Open the page of `mbe explore`; end the command with Ctrl-C."""
    entry = [sys.executable, "-m", "mbe_stage.pipeline.cli.entry"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = begun([*entry, "explore", "out"], text=True, cwd=analyst.folder, env=environment)
    assert process.stdout is not None
    with opened(browser, process.stdout.readline().split()[-1]) as page:
        yield page
    process.send_signal(signal.SIGINT)
    assert "interrupted" in output_of(process)[1]
    assert process.returncode == 130


def walk(browser: Browser, analyst: Analyst, source: Path, command: str, *, planted: bool = False) -> list[str]:
    """Investigate a file; return the ids of the cases decided as fraud and as fine."""
    analyst.run(command)
    case = read_report(browser, analyst, planted=planted)
    assert analyst.follow("mbe", "show", "out", "--case")["case"].startswith(f"{case}: ")
    analyst.follow("mbe", "cases", "export", "out", case, "--with", source.name)
    exported = analyst.folder / analyst.shown["out"]
    with source.open(newline="") as file:
        names, *lines = csv.reader(file)
    with (exported / "rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    # Rows are counted from 1, without the header.
    assert rows
    assert all([row[name] for name in names] == lines[int(row["row"]) - 1] for row in rows)
    if planted:
        ring = {at for at, line in enumerate(lines, 1) if line[0].startswith("ring 0-") and line[2] == "5"}
        assert {int(row["row"]) for row in rows} == ring
    with opened(browser, exported / "report.html") as page:
        assert page.locator("h1").inner_text().startswith("8 accounts and 6 pages" if planted else "")
        assert case in page.locator("body").inner_text()
    analyst.follow("mbe", "cases", "label", "out", case, "fraud")
    assert f"fraud for the case {case}" in analyst.shown["verdict"]
    analyst.follow("mbe", "cases", "list")

    with explored(browser, analyst) as page:
        assert case in page.locator("h1").inner_text()
        page.get_by_role("link", name="Next undecided case").click()
        fine = page.locator("h1").inner_text().split()[-1]
        if planted:
            page.locator(".node.left a").nth(2).focus()
            picture(page, "explore.png", "figure")
        page.get_by_role("link", name="Rows behind this case").click()
        page.wait_for_selector("tbody tr")
        assert page.get_by_role("columnheader").all_inner_texts()[:2] == ["row", "groups"]
        if planted:
            picture(page, "investigate-rows.png")
        page.get_by_role("link", name="Back to the case").click()
        page.get_by_label("Note").fill("staff of the shop")
        page.get_by_role("button", name="Fine").click()
        assert re.search("fine by .*: staff of the shop", page.locator(".history").inner_text())
    return [case, fine]


def decided(analyst: Analyst, command: str) -> dict[str, dict[str, str]]:
    """Run the previous day's command again; return the cases by id."""
    analyst.run(command)
    finding = analyst.follow("mbe", "show", "out")["finding"]
    next_command = analyst.shown["next"]
    analyst.run("mbe cases list out --csv cases.csv")
    analyst.shown |= {"finding": finding, "next": next_command}
    with (analyst.folder / "cases.csv").open(newline="") as file:
        return {row["case"]: row for row in csv.DictReader(file)}


@pytest.mark.slow
def test_three_planted_rings(browser: Browser, commands: Commands, tmp_path: Path) -> None:
    analyst = Analyst(tmp_path, commands)
    source = write(tmp_path / "reviews.csv", NAMES, reviews(3))
    command = first_command(source.name, "account", "page") + " --timestamp time --weight amount"
    command += " --chance-copies 1 --quiet"
    fraud, fine = walk(browser, analyst, source, command, planted=True)
    yesterday = Path(tmp_path / "out/latest").resolve()

    write(source, NAMES, reviews(4))
    cases = decided(analyst, command)
    found = {case["n_left"]: (case["since"], case["verdict"], case["is_muted"]) for case in cases.values()}
    assert found == {
        "8": ("same", "fraud", "false"),
        "9": ("same", "fine", "true"),
        "5": ("grown", "", "false"),
        "6": ("new", "", "false"),
    }
    assert (cases[fraud]["verdict"], cases[fine]["verdict"]) == ("fraud", "fine")
    today = f"{datetime.strptime(Path(tmp_path / 'out/latest').resolve().name[:8], '%Y%m%d'):%-d %B}"
    assert analyst.shown["finding"] == f"19 of 428 accounts act together in 3 cases; 1 is new since {today}."
    (new,) = (case for case, row in cases.items() if row["since"] == "new")
    assert analyst.shown["next"] == f"mbe show out --case {new}"
    with opened(browser, tmp_path / "out/latest/report.html") as page:
        assert page.locator("h1").inner_text() == analyst.shown["finding"]
        listed = page.locator("#case-list tbody tr").all_inner_texts()
        assert [next(word for word in (fraud, fine, new, "") if word in row) for row in listed] == [fraud, new, ""]
        assert ["fraud" in row for row in listed] == [True, False, False]
        picture(page, "investigate-next-day.png", "#cases")
        page.get_by_text(re.compile("[0-9] muted group")).click()
        assert page.get_by_text(fine).first.is_visible()
    analyst.run(f"mbe diff {yesterday} out")
    assert analyst.shown["different"] == "1 new, 1 grown"
    assert re.search("│ ring 2-late │ +│$", analyst.printed, re.MULTILINE)
    analyst.run(f"mbe verify out --input {source.name} --quiet")


@pytest.mark.slow
def test_bitcoin_otc(browser: Browser, commands: Commands, data_dir: Path, tmp_path: Path) -> None:
    path = data_dir / "labelled" / "bitcoin_otc.npz"
    if not path.is_file():
        pytest.skip(f"no {path}: the folder of real graphs has no labelled ones")
    with np.load(path) as given:
        ends = (given[f"{side}_names"][given[side]].tolist() for side in ("u", "v"))
        rows = list(zip(*ends, given["t"].tolist(), given["w"].astype(int).tolist(), strict=True))
    source = write(tmp_path / "bitcoin.csv", ("rater", "rated", "time", "rating"), rows)
    analyst = Analyst(tmp_path, commands)
    command = first_command(source.name, "rater", "rated") + " --timestamp time --quiet"
    fraud, fine = walk(browser, analyst, source, command)
    cases = decided(analyst, command)
    assert {row["since"] for row in cases.values()} == {"same"}
    assert (cases[fraud]["verdict"], cases[fraud]["is_muted"]) == ("fraud", "false")
    assert (cases[fine]["verdict"], cases[fine]["is_muted"]) == ("fine", "true")
    assert sum(row["verdict"] != "" for row in cases.values()) == 2
    assert f"in {len(cases) - 1} cases; none is new since " in analyst.shown["finding"]
