"""The query of a run in words: filters of the input, conditions on the results, limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from markupsafe import Markup

from mbe_stage.pipeline.clean.facts import InputFacts
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.problems.searched_graph import graph_of_input, sizes_text
from mbe_stage.pipeline.report.wording import count, key, tuple_key
from mbe_stage.pipeline.wording import bytes_text, has_parts, plural, seconds_text


def conditions(config: Config) -> list[Markup]:
    """Return one HTML sentence per condition; empty if there is none."""
    return [Markup(text) for text in (*_query(config), *_filters(config), *_limits(config))]


def _query(config: Config) -> Iterator[str]:
    query = config.query
    for side, fewest, most, wanted in (
        ("left", query.min_left, query.max_left, query.containing_left),
        ("right", query.min_right, query.max_right, query.containing_right),
    ):
        if fewest > 1:
            yield f"at least {plural(fewest, f'{side} vertex', f'{side} vertices')}"
        if most is not None:
            yield f"at most {plural(most, f'{side} vertex', f'{side} vertices')}"
        if wanted:
            yield f"containing on the {side}: {', '.join(key(vertex) for vertex in wanted)}"
    if query.min_edges > 1:
        yield f"at least {plural(query.min_edges, 'edge')}"


def _filters(config: Config) -> Iterator[str]:
    filters = config.input
    if filters.by is not None:
        yield f"a graph of its own for each value of {key(filters.by)}"
    if filters.min_weight is not None:
        yield f"edges of weight {filters.min_weight:g} or more"
    if filters.time_bucket is not None:
        begin = f", which begin {key(filters.time_offset)} after 1970-01-01 00:00 UTC" if filters.offset_seconds else ""
        yield f"a right vertex for each right key and {key(filters.time_bucket)} of time{begin}"
    if filters.time_from is not None:
        yield f"edges from {key(filters.time_from)} on"
    if filters.time_until is not None:
        yield f"edges until {key(filters.time_until)}"


def _limits(config: Config) -> Iterator[str]:
    limits = config.execution
    if limits.max_bicliques is not None:
        yield f"stop after {plural(limits.max_bicliques, 'biclique')}"
    if limits.max_cliques is not None:
        yield f"stop after {plural(limits.max_cliques, 'clique')}"
    if limits.max_output_bytes is not None:
        yield f"stop after {bytes_text(limits.max_output_bytes)} of rows"
    if limits.time_limit_seconds is not None:
        yield f"stop after {seconds_text(limits.time_limit_seconds)}"


def side_name(config: Config, side: str) -> str:
    """Return the side, with the name of its column if it has one: ``left (user)``."""
    columns = (config.input.left,) if side == "left" else config.input.right_columns
    named = all(isinstance(column, str) for column in columns) and columns != (side,)
    return Markup(f"{side} ({', '.join(map(key, columns))})") if named else side


def left_key(config: Config) -> Callable[[object], str]:
    """Return the formatter of left keys: part by part if there is a column of graphs."""
    return key if config.input.by is None else tuple_key


def right_key(config: Config) -> Callable[[object], str]:
    """Return the formatter of right keys: part by part if several columns form the key, or a time bucket does."""
    return tuple_key if has_parts(config) else key


def input_facts(facts: InputFacts) -> list[tuple[str, str]]:
    """Return the facts on the input and its rows; dropped rows are listed only if there are any."""
    items = [
        ("source", key(facts.source)),
        ("read as", key(facts.taken)),
        ("rows read", count(facts.rows_read)),
        ("duplicates merged", count(facts.duplicate_edges)),
        ("graph", sizes_text(graph_of_input(facts), facts)),
    ]
    if facts.n_edges_held is not None:
        items.append(("edges that may be in a result", count(facts.n_edges_held)))
    if facts.undirected is not None:
        items += [
            ("loops", count(facts.undirected.loops)),
            ("merged with their reverse", count(facts.undirected.reversed_edges)),
            ("vertices without an edge", count(facts.undirected.lone_vertices)),
        ]
    for label, dropped in (
        ("rows dropped: null", facts.rows_dropped_null),
        ("rows dropped: weight", facts.rows_dropped_weight),
        ("rows dropped: time", facts.rows_dropped_time),
    ):
        if dropped:
            items.append((label, count(dropped)))
    if not (facts.rows_dropped_null or facts.rows_dropped_weight or facts.rows_dropped_time):
        items.append(("rows dropped", "0"))
    return items
