"""The size of a subtree, learnt from those that were walked: a power law in what can be seen from above."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

__all__ = ["GrowthModel"]

# Where nothing has been seen: half random growth, half the engine's own measure of cost.
_FIRST = np.array([0.0, 0.5, 0.75, 0.0])
_ROUNDS = 100
# Beyond so many times the size that was expected, a subtree counts by the logarithm.
_MOST_SURPRISE = 8.0
# What the first guess weighs, where all that was seen weighs 100.
_FIRST_WEIGHT = np.array([0.01, 0.5, 0.5, 0.5])


@dataclass(slots=True)
class GrowthModel:
    """Expected logarithm of the bicliques below a child, ``coefficients @ (1, *features)``.

    Fitted to means, not to logarithms: a subtree whose sample was lost along the way has an estimate of next to
    nothing, and another stands for it.
    """

    coefficients: np.ndarray = field(default_factory=_FIRST.copy)
    _features: list[np.ndarray] = field(default_factory=list)
    _log_counts: list[np.ndarray] = field(default_factory=list)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Expected logarithm, ``(n,) float64``, never below that of one biclique."""
        return np.maximum(0.0, self.coefficients[0] + features @ self.coefficients[1:])

    def learn(self, features: np.ndarray, log_counts: np.ndarray) -> None:
        """Fit again, with some more subtrees whose counts were estimated without bias."""
        self._features.append(features)
        self._log_counts.append(log_counts)
        all_features, y = np.concatenate(self._features), np.concatenate(self._log_counts)
        x = np.column_stack([np.ones(len(y)), all_features])
        weights = _even_weights(all_features[:, 0])
        scale = 1.0 + np.average(x**2, axis=0, weights=weights)
        theta = self.coefficients.copy()
        inside = np.log(1.0 + _MOST_SURPRISE)
        normal = (x * weights[:, None]).T @ x + np.diag(_FIRST_WEIGHT * scale)
        for _ in range(_ROUNDS):
            # Gamma regression with a logarithmic link: the working response is the expected value and the surprise,
            # which far out grows as its logarithm does.
            expected = x @ theta
            surprise = np.expm1(np.minimum(y - expected, inside)) + np.maximum(0.0, y - expected - inside)
            target = (x * weights[:, None]).T @ (expected + surprise) + _FIRST_WEIGHT * scale * _FIRST
            step = np.linalg.solve(normal, target) - theta
            theta += 0.7 * step
            if np.abs(step).max() < 1e-3:
                break
        theta[1:] = np.clip(theta[1:], 0.0, 6.0)
        self.coefficients = theta


def _even_weights(growth: np.ndarray) -> np.ndarray:
    """Weights by which every size of subtree counts alike, however many were seen; 100 in all."""
    classes = np.floor(growth).astype(np.int64)
    weights = 1.0 / np.sqrt(np.bincount(classes)[classes])
    return 100.0 * weights / weights.sum()
