"""Estimate the number of maximal bicliques from samples of the search tree, with a reliable interval."""

from mbe_stage.bicliques.estimation.estimate import Effort, Estimate, compile_steps, estimate_bicliques
from mbe_stage.bicliques.estimation.interval import Interval

__all__ = ["Effort", "Estimate", "Interval", "compile_steps", "estimate_bicliques"]
