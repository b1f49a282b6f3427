"""The measured graphs: their sources, sizes and numbers of maximal bicliques.

``python -m benchmarks.graphs`` lists which exist; ``python -m benchmarks.graphs NAME FILE`` makes one from its source's
file, and refuses other sizes than those of the recorded figures.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mbe_stage.errors import StageError
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import InputError, exit_code

__all__ = ["BY_NAME", "GRAPHS", "BenchGraph", "convert", "data_directory", "find_graph"]


@dataclass(frozen=True, slots=True)
class BenchGraph:
    """One graph.

    Attributes
    ----------
    n_bicliques : int or None
        Maximal bicliques with both sides non-empty; None if unknown.
    known : str
        Source of the number: "published" (printed in a paper), "agreed" (at least two independent programs), "one
        program" or "unknown".
    what : str
        Left x right.
    source : str
        Where it is available, and under which name.
    measured : bool
        Whether it is in the table by default.
    """

    name: str
    n_left: int
    n_right: int
    n_edges: int
    n_bicliques: int | None
    known: str
    what: str
    source: str
    measured: bool = True

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Left vertices, right vertices, edges."""
        return self.n_left, self.n_right, self.n_edges

    @property
    def expected(self) -> int | None:
        """Return the count that an engine must give; None if no source is certain enough."""
        return self.n_bicliques if self.known in {"published", "agreed", "one program"} else None


_SOURCES = {
    "southern_women": "networkx: davis_southern_women_graph",
    "corporate_leadership": "KONECT: brunson_corporate-leadership",
    "club_membership": "KONECT: brunson_club-membership",
    "moreno_crime": "KONECT: moreno_crime",
    "unicodelang": "KONECT: unicodelang",
    "ucforum": "KONECT: opsahl-ucforum",
    "dbpedia_writer": "KONECT: dbpedia-writer",
    "movielens_ti": "KONECT: movielens-10m_ti",
    "marvel": "KONECT: marvel",
    "mushroom": "FIMI repository: mushroom.dat",
    "github_half": "a sample of half the edges of KONECT: github",
    "actor_movies": "KONECT: actor-movie",
    "BMS_WebView2": "KDD Cup 2000: BMS-WebView-2",
    "youtube": "KONECT: youtube-groupmemberships",
    "lastfm_tag_artist": "GroupLens HetRec 2011: hetrec2011-lastfm-2k, user_taggedartists.dat",
    "EuAll": "SNAP: email-EuAll",
    "gowalla": "SNAP: loc-gowalla, as cut down for LightGCN (its train.txt and test.txt together)",
    "bookcrossing": "Book-Crossing: BX-Book-Ratings (KONECT: bookcrossing_full-rating is one edge larger)",
    "chess": "FIMI repository: chess.dat",
    "kddcup99_onehot": "UCI: KDD Cup 1999, 10 % subset, a right vertex for each value of a column",
}


def _graph(name: str, sizes: tuple[int, int, int], n: int | None, known: str, what: str, measured: bool) -> BenchGraph:
    return BenchGraph(name, *sizes, n, known, what, _SOURCES[name], measured)


GRAPHS: tuple[BenchGraph, ...] = (
    _graph("southern_women", (18, 14, 89), 63, "agreed", "women x events", False),
    _graph("corporate_leadership", (20, 24, 99), 66, "agreed", "persons x companies", False),
    _graph("club_membership", (25, 15, 95), 60, "agreed", "persons x clubs", False),
    _graph("moreno_crime", (829, 551, 1_476), 620, "agreed", "persons x crimes", False),
    _graph("unicodelang", (254, 614, 1_255), 460, "published", "countries x languages", False),
    _graph("ucforum", (899, 522, 7_089), 16_261, "published", "users x topics", False),
    _graph("dbpedia_writer", (89_355, 46_213, 144_340), 57_222, "agreed", "works x writers", True),
    _graph("movielens_ti", (16_528, 7_601, 71_154), 140_266, "published", "tags x films", True),
    _graph("marvel", (6_486, 12_942, 96_662), 206_135, "published", "characters x comics", True),
    _graph("mushroom", (8_124, 119, 186_852), 238_709, "published", "records x attribute values", True),
    _graph("github_half", (41_934, 75_752, 226_116), 691_250, "agreed", "users x repositories", True),
    _graph("actor_movies", (383_640, 127_823, 1_470_404), 1_075_444, "published", "actors x films", True),
    _graph("BMS_WebView2", (77_512, 3_340, 358_278), 1_691_049, "agreed", "sessions x products", True),
    _graph("youtube", (94_238, 30_087, 293_360), 1_826_587, "published", "users x groups", True),
    _graph("lastfm_tag_artist", (9_749, 12_523, 109_750), 5_318_319, "agreed", "tags x artists", True),
    _graph("EuAll", (225_409, 74_661, 420_046), 12_306_755, "published", "e-mail recipients x senders", True),
    _graph("gowalla", (29_858, 40_981, 1_027_370), 36_353_156, "one program", "users x places", True),
    _graph("bookcrossing", (105_278, 340_516, 1_149_738), 54_458_949, "agreed", "readers x books", True),
    _graph("chess", (3_196, 75, 118_252), 930_851_335, "agreed", "positions x attribute values", False),
    _graph("kddcup99_onehot", (494_020, 19_468, 20_748_840), None, "unknown", "connections x values", False),
)
BY_NAME = {graph.name: graph for graph in GRAPHS}


def data_directory() -> Path:
    """Return the directory of graphs: `MBE_DATA`, or ``../shared/data`` next to the checkout."""
    given = os.environ.get("MBE_DATA")
    return Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"


def find_graph(name: str, directory: Path | None = None) -> tuple[Path, BenchGraph | None]:
    """Return the file of a listed graph, or any other input, and its entry.

    Raises
    ------
    InputError
        There is no such graph or file.
    """
    if name not in BY_NAME:
        if Path(name).exists():
            return Path(name), None
        raise InputError.at(
            name,
            found="neither a graph of the list nor a file",
            expected=f"a path, or one of {', '.join(BY_NAME)}",
            remedy="correct the name",
        )
    directory = directory or data_directory()
    path = directory / f"{name}.npz"
    if not path.is_file():
        raise InputError.at(
            path,
            found="no such file",
            expected=f"the graph from {BY_NAME[name].source}",
            remedy="set MBE_DATA to the directory that holds it, or make it: benchmarks/README.md says how",
        )
    return path, BY_NAME[name]


def convert(name: str, source: str | Path, directory: Path | None = None, input_format: str = "auto") -> Path:
    """Make a listed graph from its source's file, in any format that `mbe` reads.

    Returns
    -------
    Path
        ``<directory>/<name>.npz``, arrays `u` and `v` (int32, dense left and right ids, one edge per position).

    Raises
    ------
    InputError
        The file cannot be read, or holds another graph.
    """
    from mbe_stage.pipeline.execution.ingest import ingest

    if name not in BY_NAME:
        raise InputError.at(name, found="unknown graph", expected=", ".join(BY_NAME), remedy="correct the name")
    edges = ingest(InputConfig.model_validate({"path": str(source), "format": input_format}))
    left, right = edges.left_ids, edges.right_ids
    facts = edges.facts
    known = BY_NAME[name]
    if (facts.n_right, facts.n_left, facts.n_edges) == known.sizes:
        left, right = right, left
    elif (facts.n_left, facts.n_right, facts.n_edges) != known.sizes:
        raise InputError.at(
            source,
            found=f"{facts.n_left:,} x {facts.n_right:,}, {facts.n_edges:,} distinct edges",
            expected=f"{known.n_left:,} x {known.n_right:,}, {known.n_edges:,} for {name} ({known.source})",
            remedy="take that source's file, or measure this one under its own name: --graphs FILE",
        )
    directory = directory or data_directory()
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.npz"
    np.savez_compressed(path, u=left, v=right)
    return path


def _main(arguments: list[str]) -> None:
    if len(arguments) in (2, 3):
        print(convert(arguments[0], arguments[1], None, *arguments[2:]))
        return
    if arguments:
        sys.exit("usage: python -m benchmarks.graphs [NAME FILE [FORMAT]]")
    directory = data_directory()
    print(f"{directory}:")
    for graph in GRAPHS:
        there = "there  " if (directory / f"{graph.name}.npz").is_file() else "missing"
        count = "?" if graph.n_bicliques is None else f"{graph.n_bicliques:,}"
        print(
            f"{there} {graph.name:21}{graph.n_edges:>12,} edges {count:>13} bicliques ({graph.known})  {graph.source}"
        )


if __name__ == "__main__":
    try:
        _main(sys.argv[1:])
    except StageError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(exit_code(error))
