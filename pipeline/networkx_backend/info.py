"""The facts about the backend that networkx reads before loading it."""

from __future__ import annotations

from typing import Any

__all__ = ["get_info"]


def get_info() -> dict[str, Any]:
    """See "Backends and configs" in the documentation of networkx."""
    engine = {"engine : str, optional (default: 'auto')": "auto, cpu, cuda or reference."}
    cliques = {
        "additional_docs": "Cliques come in another order than networkx has them, as the search finds them.",
        "additional_parameters": engine,
    }
    return {
        "backend_name": "mbe",
        "project": "mbe-stage",
        "package": "mbe_stage",
        "short_summary": "Maximal cliques on all cores, or a GPU.",
        "functions": {
            "find_cliques": cliques,
            "find_cliques_recursive": cliques,
            "butterflies": {"additional_docs": "Exact at any size.", "additional_parameters": engine},
        },
    }
