"""Results of commands on stdout: a few lines or a table, or one JSON object."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mbe_stage.pipeline.cli.tables import results_console, table
from mbe_stage.pipeline.cli.terminal import print_json, say, shortened, visible
from mbe_stage.pipeline.config.plugin_sections import is_here
from mbe_stage.pipeline.errors import ConfigError, PublishError
from mbe_stage.pipeline.problems.installed import derived_of, publication_of
from mbe_stage.pipeline.problems.result_text import found, listed, text_of_run, values
from mbe_stage.pipeline.problems.searched_graph import sizes_text
from mbe_stage.pipeline.publish.listing import query_settings
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.stores.local_copies import address_of
from mbe_stage.pipeline.wording import bytes_text, percent_text, plural, seconds_text

if TYPE_CHECKING:
    from rich.table import Table

    from mbe_stage.pipeline.clean.facts import InputFacts
    from mbe_stage.pipeline.cli.compile import Compiled
    from mbe_stage.pipeline.execution.job import CountResult, RunResult
    from mbe_stage.pipeline.execution.unfinished import Unfinished
    from mbe_stage.pipeline.execution.worker_stats import WorkerStats
    from mbe_stage.pipeline.problems.base import Differences, ResultText, Shown
    from mbe_stage.pipeline.publish.listing import ListedRun
    from mbe_stage.pipeline.publish.manifest import Manifest
    from mbe_stage.pipeline.verify import VerifyReport
    from mbe_stage.pipeline.views.inspect import Inspection, SideFacts

# Characters of a path in a list of runs.
_SOURCE = 64


def run(result: RunResult, as_json: bool, is_all: bool = True) -> None:
    """Show a published run, or the latest one if nothing has changed; the next command, unless more follows."""
    manifest = result.manifest
    if as_json:
        print_json(run_facts(result))
        return
    if result.unchanged:
        say("unchanged  the latest run has the same edges and query: nothing enumerated, no file written")
    result_text = text_of_run(result.place, manifest)
    _headline(found(manifest.problem, manifest.n_found, result_text), manifest)
    _more(result_text)
    for name, value in publication_of(manifest.problem).further(manifest).items():
        say(f"{name:<11}{'unknown' if value is None else value if isinstance(value, str) else f'{value:,.10g}'}")
    for name, counts in manifest.derived.items():
        say(f"derived    {name}: {_in_words(counts)}")
    for facts in (facts for inputs in manifest.derived_inputs.values() for facts in inputs.values() if facts.classes):
        say(f"labels     {facts.classes_text}")
    say(f"run        {result.address}")
    if (result.place / "report.html").exists():
        say(f"report     {result.address}/report.html")
    if not result.unchanged:
        on_device = manifest.peak_device_memory_bytes
        _means(manifest.engine, manifest.device, manifest.seconds, manifest.peak_memory_bytes, on_device)
    if is_all:
        next_command(result)


def next_command(result: RunResult) -> None:
    """Print the command to run next: of a derived output with results, else of the problem."""
    manifest = result.manifest
    derived = manifest.derived
    commands = [each.next_command for each in derived_of(manifest.config) if derived.get(each.name, {}).get(each.name)]
    if manifest.config.output.bicliques:
        commands.append(publication_of(manifest.problem).next_command)
    command = next(filter(None, [*commands, "mbe verify {}"]))
    say(f"next       {command.format(shlex.quote(address_of(result.place.parent.parent)))}")


def _in_words(counts: Mapping[str, int]) -> str:
    """Format the first count, and all others that are not 0."""
    words = {what.replace("_", " "): n for i, (what, n) in enumerate(counts.items()) if n or not i}
    singulars = {what: re.sub("ies$", "y", what).removesuffix("s") for what in words}
    return ", ".join(plural(n, singulars[what], what) for what, n in words.items())


def run_facts(result: RunResult) -> dict[str, Any]:
    """Return the `--json` values of a published run."""
    manifest = result.manifest
    return {
        "problem": manifest.problem,
        **values(manifest.problem, manifest.n_found, text_of_run(result.place, manifest)),
        **publication_of(manifest.problem).further(manifest),
        "derived": manifest.derived,
        "derived_inputs": {
            name: {key: facts.model_dump(mode="json") for key, facts in inputs.items()}
            for name, inputs in manifest.derived_inputs.items()
        },
        "truncated": manifest.truncated,
        "engine": manifest.engine,
        "device": manifest.device,
        "seconds": manifest.seconds,
        "peak_memory_bytes": manifest.peak_memory_bytes,
        "peak_device_memory_bytes": manifest.peak_device_memory_bytes,
        "ranks": _ranks(manifest.ranks),
        "content_fingerprint": manifest.content_fingerprint,
        "run": result.address,
        "unchanged": result.unchanged,
        "input": manifest.input.as_json(),
        "graph": asdict(manifest.graph),
        "warnings": manifest.warnings,
    }


def _ranks(ranks: WorkerStats | None) -> dict[str, Any] | None:
    return None if ranks is None else ranks.model_dump(mode="json")


def count(result: CountResult, as_json: bool) -> None:
    """Show a count without stored results."""
    if as_json:
        print_json(
            {
                "problem": result.problem,
                **values(result.problem, result.n_found, result.result_text),
                "truncated": result.truncated,
                "engine": result.engine,
                "device": result.device,
                "seconds": {step: round(value, 6) for step, value in result.seconds.items()},
                "peak_memory_bytes": result.peak_memory_bytes,
                "peak_device_memory_bytes": result.peak_device_memory_bytes,
                "ranks": _ranks(result.ranks),
                "content_fingerprint": None,
                "run": None,
                "unchanged": False,
                "input": result.input.as_json(),
                "graph": asdict(result.graph),
                "warnings": result.warnings,
            }
        )
        return
    _headline(found(result.problem, result.n_found, result.result_text), result)
    _more(result.result_text)
    on_device = result.peak_device_memory_bytes
    _means(result.engine, result.device, result.seconds, result.peak_memory_bytes, on_device)


def inspection(found: Inspection, as_json: bool) -> None:
    """Show a graph and its forecast."""
    if as_json:
        print_json(found.as_json())
        return
    facts = found.input
    say(f"{facts.source}: {sizes_text(found.graph, facts)}; density {found.density:.3g}")
    _reading(facts, facts.warnings)
    columns = ["side", "vertices", "mean degree", "median", "90 %", "99 %", "max", "degree 1", "two-hop pairs"]
    sides = (("vertices", found.left),) if found.right is None else (("left", found.left), ("right", found.right))
    rows: list[list[object]] = [
        [name, s.n, f"{s.mean:.2f}", f"{s.median:g}", f"{s.p90:g}", f"{s.p99:g}", s.max, s.n_degree_one, s.two_hop]
        for name, s in sides
    ]
    results_console().print(table(columns, rows))
    tables = f"{bytes_text(found.tables_bytes)} for tables waiting in memory, " if found.tables_bytes else ""
    say(
        f"memory     about {bytes_text(found.expected_memory_bytes)} at most: reading "
        f"({bytes_text(found.read_memory_bytes)}; the graph itself is {bytes_text(found.graph_bytes)}), "
        f"--memory-budget, {tables}and the forecast of the time left"
    )
    for line in _two_hop_lines(sides) if found.right is not None else ():
        say(f"two-hop    {line}")
    for label, text in found.lines:
        say(f"{label:10} {text}")
    for suggestion in found.suggestions:
        say(f"hint       {suggestion}")


def _show_top(run_dir: Path, found: Shown, as_json: bool) -> None:
    """Show the largest results of a run of another problem than bicliques."""
    publication = publication_of(read_manifest(run_dir).problem)
    if as_json:
        print_json({"run": address_of(run_dir), publication.counted: list(found.values)})
    elif found.rows:
        results_console().print(_shown(found))
    else:
        say(f"{address_of(run_dir)}: no such {publication.unit[0]}")


def _show_differences(old: Path, new: Path, found: Differences, out: Path | None, as_json: bool) -> None:
    """Show the differences between two runs of such a problem."""
    unit = publication_of(read_manifest(new).problem).unit
    counts = {"gone": found.n_old - found.n_same, "new": found.n_new - found.n_same}
    if as_json:
        print_json(
            {
                "old": str(old),
                "new": str(new),
                "remarks": list(found.remarks),
                "counts": {**counts, "same": found.n_same},
                "gone": list(found.gone.values),
                "new_ones": list(found.new.values),
                "out": None if out is None else str(out),
            }
        )
        return
    for remark in found.remarks:
        say(f"NOTE       {remark}")
    say(f"old        {old}: {plural(found.n_old, *unit)}")
    say(f"new        {new}: {plural(found.n_new, *unit)}, {found.n_same:,} of them as before")
    say(f"different  {', '.join(f'{n:,} {what}' for what, n in counts.items() if n) or 'nothing'}")
    for what, shown in (("gone", found.gone), ("new", found.new)):
        if shown.rows:
            results_console().print(_shown(shown, f"{what}, {len(shown.rows):,} of {counts[what]:,}"))
    if out is not None:
        say(f"written    {out}")


def _shown(found: Shown, title: str | None = None) -> Table:
    return table(list(found.columns), [list(row) for row in found.rows], title)


def runs(directory: str | Path, found: list[ListedRun], unfinished: list[Unfinished], as_json: bool) -> None:
    """List the runs of a directory, the newest last, and the interrupted ones."""
    if as_json:
        begun = {"unfinished": [_unfinished_run(run) for run in unfinished]} if unfinished else {}
        print_json({"directory": str(directory), "runs": [_listed_run(run) for run in found], **begun})
        return
    if found:
        _published_runs(found)
    else:
        say(f"{directory}: no published run")
    for run in unfinished:
        say(_unfinished_line(run))


def cleaned(directory: str | None, removed: list[str], as_json: bool) -> None:
    """Show the removed files of interrupted runs; or, without a directory, the removed ones of compiled code."""
    if as_json:
        print_json({"directory": directory, "removed": removed})
    elif removed:
        for each in removed:
            say(f"removed    {each}")
    else:
        say(f"{'compiled code' if directory is None else directory}: nothing to remove")


def _unfinished_run(run: Unfinished) -> dict[str, Any]:
    header = run.header
    return {
        "run": str(run.staging_dir),
        "running": run.is_running,
        "problem": None if header is None else header.problem,
        "input": None if header is None else header.source,
        "asked": None if header is None else header.asked,
        "found": run.n_found,
        "work_done": round(run.work_done, 4),
        "kept_until": run.records[-1].at if run.records else None,
        "has_read": header is not None and bool(header.reading),
    }


def _unfinished_line(run: Unfinished) -> str:
    state = "running" if run.is_running else "unfinished"
    if run.header is None or not (run.records or run.header.reading):
        return f"{state:10} {run.staging_dir.name}: cannot be resumed"
    asks = ", ".join(f"{key}={value}" for key, value in run.header.asked.items())
    unit = publication_of(run.header.problem).unit
    how = "" if run.is_running else "; continue with --resume"
    done = "finished steps of reading are saved"
    if run.records:
        done = f"about {percent_text(run.work_done, 0, '%')} of the work, kept {run.records[-1].at}"
    return (
        f"{state:10} {run.staging_dir.name}: {run.header.source}{f' ({asks})' if asks else ''}, "
        f"{plural(run.n_found, *unit)}, {done}{how}"
    )


def _published_runs(found: list[ListedRun]) -> None:
    whats = {_counted(run.manifest) for run in found if run.manifest is not None}
    # One word in the column title if it fits all rows, else one in each row.
    what = whats.pop() if len(whats) == 1 else None
    columns = ["run", "when (UTC)", "input", "asked", "edges", what or "found", "took", ""]
    rows = [_run_row(run, with_words=what is None) for run in found]
    results_console().print(table(columns, rows, unbroken=("run", "when (UTC)")))


def verification(report: VerifyReport, as_json: bool) -> None:
    """Show a run that passed."""
    if as_json:
        print_json(
            {
                "verified": True,
                "run": address_of(report.run),
                "problem": report.problem,
                publication_of(report.problem).counted: report.n_found,
                "checked_against_input": report.n_against_input,
                "checks": {check.name: check.detail for check in report.checks},
                "not_checked": report.not_checked,
                "seconds": report.seconds,
            }
        )
        return
    for check in report.checks:
        say(f"ok         {check.name}: {check.detail}")
    for text in report.not_checked:
        say(f"unchecked  {text}")
    say(f"verified   {address_of(report.run)} in {seconds_text(report.seconds)}")


def compiled(found: Compiled, as_json: bool) -> None:
    """Show what was compiled ahead."""
    directories = [str(path) for path in found.directories]
    if as_json:
        print_json(
            {
                "engine": found.tier,
                "functions": found.n_steps,
                "compiled": found.n_compiled,
                "seconds": found.seconds,
                "directories": directories,
            }
        )
        return
    done = (
        f"compiled {found.n_compiled} of them in {seconds_text(found.seconds)}"
        if found.n_compiled
        else "all compiled before"
    )
    say(f"engine {found.tier}: {found.n_steps} functions, {done}")
    for directory in directories:
        say(f"saved in {visible(directory)}")


def _more(result_text: ResultText | None) -> None:
    if result_text is None:
        return
    for label, text in result_text.lines:
        say(f"{label:10} {text}")
    if result_text.table is not None:
        columns, rows = result_text.table
        lines: list[list[object]] = [list(row) for row in rows]
        results_console().print(table(list(columns), lines, right=columns))


def _headline(results: str, of: Manifest | CountResult) -> None:
    say(f"{results} in {sizes_text(of.graph, of.input)}")
    if of.truncated is not None:
        say(f"INCOMPLETE {of.truncated}")
    _reading(of.input, of.warnings)


def _reading(facts: InputFacts, warnings: Sequence[str]) -> None:
    say(f"input      {facts.taken}")
    say(_rows_read(facts))
    for warning in warnings:
        say(f"warning    {warning}")


def _rows_read(facts: InputFacts) -> str:
    undirected = facts.undirected
    left_out = [(plural(facts.duplicate_edges, "duplicate"), facts.duplicate_edges)]
    if undirected is not None:
        left_out += [(plural(undirected.loops, "loop"), undirected.loops)]
        left_out += [(f"{undirected.reversed_edges:,} reversed", undirected.reversed_edges)]
    left_out += [
        (plural(facts.rows_dropped_null, "null"), facts.rows_dropped_null),
        (f"{facts.rows_dropped_weight:,} below the weight", facts.rows_dropped_weight),
        (f"{facts.rows_dropped_time:,} outside the time window", facts.rows_dropped_time),
    ]
    counted = ", ".join(text for text, n in left_out if n) or "nothing left out"
    held = (
        "" if facts.n_edges_held is None else f"; {plural(facts.n_edges_held, 'edge')} held, the others fit no result"
    )
    return f"read       {plural(facts.rows_read, 'row')}: {counted}{held}"


def _means(engine: str, device: str, seconds: dict[str, float], peak: int, on_device: int | None) -> None:
    memory = bytes_text(peak) + ("" if on_device is None else f", of the device {bytes_text(on_device)}")
    steps = ", ".join(f"{step} {seconds_text(value)}" for step, value in seconds.items() if step != "total")
    say(f"engine     {engine}: {device}; peak memory {memory}")
    say(f"time       {seconds_text(seconds['total'])} ({steps})")


def _listed_run(run: ListedRun) -> dict[str, Any]:
    manifest = run.manifest
    about: dict[str, Any] = {"run": run.address, "latest": run.is_latest, "damaged": run.damage}
    if manifest is None:
        return about
    return about | {
        "created_at": manifest.created_at,
        "input": manifest.input.as_json(),
        "graph": asdict(manifest.graph),
        "asked": query_settings(manifest.config),
        "config_fingerprint": manifest.config_fingerprint,
        "problem": manifest.problem,
        _counted(manifest): _n_found(manifest),
        "derived": manifest.derived,
        "truncated": manifest.truncated,
        "content_fingerprint": manifest.content_fingerprint,
        "engine": manifest.engine,
        "seconds": manifest.seconds.get("total"),
        "bytes": sum(entry.bytes for entry in manifest.files),
    }


def _counted(manifest: Manifest) -> str:
    """Return the name of a run's results; for a problem that is not installed, the problem's name."""
    return publication_of(manifest.problem).counted if is_here(manifest.problem) else manifest.problem


def _n_found(manifest: Manifest) -> int | None:
    return manifest.n_found if is_here(manifest.problem) else None


def _run_row(run: ListedRun, with_words: bool) -> list[object]:
    state = "latest" if run.is_latest else ""
    name, manifest = run.run_dir.name, run.manifest
    if manifest is None:
        return [name, "", "", "", "", "", "", f"{state} DAMAGED {run.damage}".strip()]
    if run.damage is not None:
        state = f"{state} DAMAGED {run.damage}".strip()
    if manifest.truncated is not None:
        state = f"{state} INCOMPLETE {manifest.truncated}".strip()
    settings = query_settings(manifest.config).items()
    question = ", ".join(key if value == {} else f"{key}={value}" for key, value in settings) or "all"
    took = seconds_text(manifest.seconds["total"]) if "total" in manifest.seconds else ""
    when = manifest.created_at.removesuffix("+00:00").replace("T", " ")
    n_edges, n_found = f"{manifest.graph.n_edges:,}", _n_found(manifest)
    shown = [*([] if n_found is None else [listed(manifest)]), *([_counted(manifest)] if with_words else [])]
    return [name, when, shortened(manifest.input.source, _SOURCE), question, n_edges, " ".join(shown), took, state]


def _two_hop_lines(sides: Sequence[tuple[str, SideFacts]]) -> list[str]:
    lines = []
    for name, side in sides:
        found = side.two_hop_degrees
        if found is None:
            lines.append(f"{name}: not counted, because it takes too many steps (output.two_hop_steps)")
        else:
            most = f"estimates from {found.n_sampled:,} vertices" if found.max is None else f"most {found.max:,}"
            lines.append(
                f"{name}: other vertices that share a neighbour: mean {found.mean:,.1f}, median {found.median:,g}, "
                f"90 % {found.p90:,g}, 99 % {found.p99:,g}, {most}"
            )
    return lines


def show_by_problem(
    run_dir: Path, limit: int, vertex: str | None, as_json: bool, of_bicliques: Mapping[str, object]
) -> bool:
    """Show the largest results of a run with `Publication.top`; return False if its problem is unknown or has none.

    Parameters
    ----------
    vertex : str or None
        See `Publication.top`.
    of_bicliques : mapping of str to object
        Options of bicliques, and whether each was given.

    Raises
    ------
    ConfigError
        An option of bicliques was given.
    """
    from mbe_stage.pipeline.publish.reading import problem_of

    problem = problem_of(run_dir)
    top = None if problem is None or not is_here(problem) else publication_of(problem).top
    if top is None:
        return False
    wrong = next((option for option, value in of_bicliques.items() if value), None)
    if wrong is not None:
        raise ConfigError(
            f"command line: {wrong}: only applies to bicliques, but {run_dir} holds results of the problem "
            f"{problem!r}; leave it out"
        )
    _show_top(run_dir, top(run_dir, limit, vertex), as_json)
    return True


def compared_by_problem(old: Path, new: Path, out: Path | None, limit: int, as_json: bool) -> bool | None:
    """Compare two runs by their problem and show the result; None if the problem has no comparison.

    Raises
    ------
    PublishError
        The runs have different problems.
    """
    from mbe_stage.pipeline.publish.reading import problem_of

    problems = [problem_of(run) for run in (old, new)]
    known = next((each for each in problems if each is not None and is_here(each)), None)
    diff = None if known is None else publication_of(known).diff
    if diff is None:
        return None
    if problems[0] != problems[1]:
        raise PublishError(
            f"{old} and {new}: have results of the problems {problems[0]} and {problems[1]}; expected runs of "
            "one problem; name two such runs"
        )
    found = diff(old, new, limit, out)
    _show_differences(old, new, found, out, as_json)
    return found.n_same < max(found.n_old, found.n_new)
