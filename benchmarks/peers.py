"""Times of the best known programs, as data, and this project's targets.

All programs were built and run on the very graphs of `graphs`, on 2026-11-20. They count; none of them writes the
bicliques. A figure is only as comparable as its machine: see README.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["AT_MOST_SECONDS", "PEERS", "PeerFigure", "best_cpu", "best_single_thread"]

EPYC = "2-core AMD EPYC"
XEON = "Intel Xeon of the H200 machine"
H200 = "NVIDIA H200"


@dataclass(frozen=True, slots=True)
class PeerFigure:
    """One program's time on one graph.

    Attributes
    ----------
    seconds : float
    threads : int or None
        CPU threads; None on a GPU.
    hardware : str
    note : str
        What the time excludes, if known.
    """

    graph: str
    program: str
    seconds: float
    threads: int | None
    hardware: str
    note: str = ""


def _figures(program: str, threads: int | None, hardware: str, note: str, **seconds: float) -> list[PeerFigure]:
    return [PeerFigure(graph, program, value, threads, hardware, note) for graph, value in seconds.items()]


PEERS: tuple[PeerFigure, ...] = (
    *_figures(
        "AdaMBE",
        1,
        EPYC,
        "tuned, -O3",
        movielens_ti=0.34,
        marvel=0.18,
        mushroom=0.91,
        github_half=2.36,
        actor_movies=3.18,
        BMS_WebView2=1.94,
        youtube=2.23,
        EuAll=17.5,
    ),
    *_figures("AdaMBE", 1, XEON, "tuned, -O3", lastfm_tag_artist=4.6, dbpedia_writer=0.023),
    *_figures("MBET", 1, EPYC, "", movielens_ti=0.23, github_half=1.54, actor_movies=3.52, youtube=4.22),
    *_figures("BBK", 1, EPYC, "", marvel=0.56, mushroom=14.6, EuAll=33.7),
    *_figures("best of AdaMBE, MBET, BBK, PLCM", 1, EPYC, "which of them was not noted", mushroom=0.36),
    *_figures("LCM 3.0", None, "not stated", "closed itemsets, minimum support 1", youtube=64.0),
    *_figures("PLCM++", None, "not stated", "closed itemsets, minimum support 1", youtube=26.0),
    *_figures(
        "ParAdaMBE",
        16,
        XEON,
        "",
        movielens_ti=0.100,
        marvel=0.089,
        mushroom=0.081,
        github_half=0.594,
        actor_movies=0.755,
        BMS_WebView2=0.842,
        youtube=0.853,
        lastfm_tag_artist=2.23,
        EuAll=7.15,
        gowalla=24.4,
        bookcrossing=37.0,
        dbpedia_writer=0.041,
    ),
    *_figures(
        "GMBE+",
        None,
        H200,
        "enumeration only: no reading, ordering or two-hop statistics on the host",
        movielens_ti=0.041,
        marvel=0.050,
        mushroom=0.222,
        github_half=0.257,
        actor_movies=0.153,
        BMS_WebView2=0.195,
        youtube=0.301,
        lastfm_tag_artist=0.461,
        EuAll=4.07,
        bookcrossing=14.95,
        dbpedia_writer=0.007,
    ),
)

# One thread, counting: half of the best program's time in the geometric mean, slower on none.
AT_MOST_SECONDS: dict[str, float] = {
    "dbpedia_writer": 0.02,
    "movielens_ti": 0.12,
    "marvel": 0.12,
    "mushroom": 0.25,
    "github_half": 0.8,
    "actor_movies": 1.6,
    "BMS_WebView2": 1.0,
    "youtube": 1.1,
    "EuAll": 8.5,
}


def best_single_thread(graph: str) -> PeerFigure | None:
    """Return the fastest program on one CPU thread."""
    return _fastest(figure for figure in PEERS if figure.graph == graph and figure.threads == 1)


def best_cpu(graph: str) -> PeerFigure | None:
    """Return the fastest program on a CPU with any number of threads."""
    return _fastest(figure for figure in PEERS if figure.graph == graph and figure.hardware != H200)


def _fastest(figures: Iterable[PeerFigure]) -> PeerFigure | None:
    return min(figures, key=lambda figure: figure.seconds, default=None)
