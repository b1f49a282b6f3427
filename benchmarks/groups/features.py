"""Effect of our columns on a classifier of accounts: gradient boosting on account features, with and without them.

python -m benchmarks.groups.features [GRAPH ...] [--repeats N] [--json FILE]

Five-fold cross-validation, repeated; models score only accounts whose labels they did not see. It is transductive:
groups, scores and features use the whole graph, including the test fold and unlabelled accounts, but no labels. Columns
that could carry labels (`association`, `n_known` and derived ones) are excluded. Average precision is that of the
out-of-fold scores, the mean of the repeats; intervals resample accounts, equally for each set of features.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.groups import metrics
from benchmarks.groups.labelled import DEVELOPMENT, Events, exit_without, load
from benchmarks.groups.metrics import Estimate
from benchmarks.machine import describe
from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.cases.fraud_gnn import OF_LABELS

__all__ = ["FEATURES", "Compared", "account_features", "compare", "compared_scores", "our_columns"]

FEATURES = "features", "features and ours", "ours"
"""The sets of columns."""

FOLDS = 5
_SEED = 20_261_127
_SECONDS = 86_400
# A time that is certainly in seconds, for times with another origin.
_EPOCH = 1_500_000_000
_FROM_GROUP = ("rank", "n_left", "n_right", "n_edges", "density", "surprise", "evidence", "expected_edges")
_FROM_GROUP += ("left_edge_share", "median_right_degree", "n_bicliques", "busiest_share", "busiest_item_share")


@dataclass(frozen=True, slots=True)
class Compared:
    """The figures of one graph.

    Attributes
    ----------
    precision : dict of Estimate
        Average precision of each set of columns in `FEATURES`.
    gain : Estimate
        Increase with our columns.
    """

    name: str
    n_accounts: int
    n_positive: int
    precision: dict[str, Estimate]
    gain: Estimate
    seconds: float

    @property
    def verdict(self) -> str:
        """Return on which side of 0 the interval of the gain is."""
        return "WIN" if self.gain.low > 0 else "LOSS" if self.gain.high < 0 else "even"


def table_of(events: Events) -> pa.Table:
    """Return the rows as a pipeline reads them; times in seconds."""
    columns = {"account": events.left, "item": events.right}
    if events.weights is not None:
        columns["amount"] = events.weights
    if events.times is not None:
        seconds = events.times * _SECONDS // events.day
        columns["time"] = seconds + (0 if seconds.max() >= 10**8 else _EPOCH)
    return pa.table(columns)


def account_features(events: Events) -> dict[str, np.ndarray]:
    """Return the usual features of each account: degrees, entropies, times and amounts; ``(n_left,) float64`` each."""
    n = events.labels.size
    left, right = events.left, events.right
    pairs, counts = np.unique(left * (int(right.max()) + 1) + right, return_counts=True)
    accounts, items = np.divmod(pairs, int(right.max()) + 1)
    popularity = np.bincount(items, minlength=int(right.max()) + 1).astype(np.float64)[items]
    n_rows = np.bincount(left, minlength=n).astype(np.float64)
    found = {
        "degree": np.bincount(accounts, minlength=n).astype(np.float64),
        "rows": n_rows,
        "item_entropy": entropies(accounts, counts, n),
        **{f"item_degree_{name}": values for name, values in summaries(accounts, popularity, n).items()},
        "item_degree_entropy": value_entropies(accounts, popularity, n),
    }
    if events.times is not None:
        times = events.times.astype(np.float64) / events.day
        found |= {f"day_{name}": values for name, values in summaries(left, times, n).items()}
        found["active_days"] = distinct_counts(left, np.floor(times), n)
        found["day_entropy"] = value_entropies(left, np.floor(times), n)
        found["hour_entropy"] = value_entropies(left, np.floor(times * 24) % 24, n)
        order = np.lexsort((times, left))
        same = left[order][1:] == left[order][:-1]
        gaps, of_gap = np.diff(times[order])[same], left[order][1:][same]
        found |= {f"gap_{name}": values for name, values in summaries(of_gap, gaps, n).items()}
    if events.weights is not None:
        found |= {f"amount_{name}": values for name, values in summaries(left, events.weights, n).items()}
        found["amount_total"] = np.bincount(left, events.weights, minlength=n)
        found["amount_entropy"] = value_entropies(left, events.weights, n)
    return found


def summaries(groups: np.ndarray, values: np.ndarray, n: int) -> dict[str, np.ndarray]:
    """Return minimum, maximum, mean, median and deviation of each group's values; NaN without values."""
    order = np.lexsort((values, groups))
    ordered = values[order].astype(np.float64)
    counts = np.bincount(groups, minlength=n)
    ends = np.cumsum(counts)
    first, last = ends - counts, ends - 1
    some = counts > 0
    safe = np.where(some, counts, 1)
    mean = np.bincount(groups, values, minlength=n) / safe
    square = np.bincount(groups, (values - mean[groups]) ** 2, minlength=n) / safe
    at = {"least": first, "greatest": last, "median": (first + last) // 2}
    padded = np.append(ordered, np.nan)
    found = {name: padded[np.where(some, where, ordered.size)] for name, where in at.items()}
    return found | {"mean": np.where(some, mean, np.nan), "deviation": np.where(some, np.sqrt(square), np.nan)}


def entropies(groups: np.ndarray, counts: np.ndarray, n: int) -> np.ndarray:
    """Return the entropy of each group's counts, in nats."""
    totals = np.bincount(groups, counts, minlength=n)
    shares = counts / totals[groups]
    return np.bincount(groups, -shares * np.log(shares), minlength=n)


def value_entropies(groups: np.ndarray, values: np.ndarray, n: int) -> np.ndarray:
    pairs, counts = _pairs(groups, values)
    return entropies(pairs, counts, n)


def distinct_counts(groups: np.ndarray, values: np.ndarray, n: int) -> np.ndarray:
    return np.bincount(_pairs(groups, values)[0], minlength=n).astype(np.float64)


def _pairs(groups: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    distinct, codes = np.unique(values, return_inverse=True)
    pairs, counts = np.unique(groups * distinct.size + codes, return_counts=True)
    return pairs // distinct.size, counts


def our_columns(events: Events) -> dict[str, np.ndarray]:
    """Return a default run's columns for each account and for its first group; NaN without a group."""
    with tempfile.TemporaryDirectory() as below:
        reads = {"left": "account", "right": "item"}
        reads |= {"weight": "amount"} if events.weights is not None else {}
        reads |= {"timestamp": "time"} if events.times is not None else {}
        # Copies only assess the list.
        asked = {"input": reads, "groups": {"chance_copies": 0}, "output": {"directory": below, "bicliques": False}}
        asked["output"]["report"] = False
        tables = run(Config.from_mapping(asked), table_of(events)).tables
        scores, groups = tables["vertex_scores"].to_pandas(), tables["groups"].to_pandas()
    scores = scores[scores["side"] == "left"].set_index("key")
    kept = [name for name in scores.columns if name not in (*OF_LABELS, "side", "vertex", "group_key")]
    of_groups = groups.set_index("group_key")[list(_FROM_GROUP)].astype(np.float64)
    found = scores[kept].join(of_groups.reindex(scores["group_key"]).set_index(scores.index).add_prefix("group_"))
    found = found.reindex(np.arange(events.labels.size)).astype(np.float64)
    return {name: found[name].to_numpy() for name in found.columns}


def compared_scores(
    labels: np.ndarray, sets: dict[str, np.ndarray], repeats: int, seed: int = _SEED
) -> dict[str, np.ndarray]:
    """Return out-of-fold scores of each account by each set of columns; ``(repeats, n) float64``.

    Parameters
    ----------
    labels : (n,) bool
    sets : dict of (n, n_columns) float64
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import StratifiedKFold

    found = {name: np.empty((repeats, labels.size)) for name in sets}
    for repeat in range(repeats):
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed + repeat)
        for fit, held in folds.split(labels, labels):
            for name, columns in sets.items():
                # Without times a graph has empty columns.
                some = columns[:, np.isfinite(columns[fit]).any(axis=0)]
                model = HistGradientBoostingClassifier(random_state=seed + repeat, early_stopping=False)
                model.fit(some[fit], labels[fit])
                found[name][repeat, held] = model.predict_proba(some[held])[:, 1]
    return found


def compare(name: str, repeats: int) -> Compared:
    """Compare on one graph; only accounts with a label 0 or 1 count."""
    begun = time.perf_counter()
    events = load(name)
    known = (events.labels == 0) | (events.labels == 1)
    labels = events.labels[known] == 1
    features, ours = (
        np.column_stack(list(columns.values()))[known] for columns in (account_features(events), our_columns(events))
    )
    sets = dict(zip(FEATURES, (features, np.column_stack([features, ours]), ours), strict=True))
    scores = compared_scores(labels, sets, repeats)
    resampled = {of: metrics.bootstrap_scores(labels, list(each)).mean(axis=0) for of, each in scores.items()}
    value = {of: np.mean([metrics.average_precision(labels, one) for one in each]) for of, each in scores.items()}
    precision = {of: metrics.interval(float(value[of]), resampled[of]) for of in scores}
    plain, both, _ = FEATURES
    gain = metrics.interval(float(value[both] - value[plain]), resampled[both] - resampled[plain])
    seconds = time.perf_counter() - begun
    return Compared(name, labels.size, int(labels.sum()), precision, gain, seconds)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; exit with 2 if graphs are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", metavar="GRAPH", help="default: the labelled graphs of development")
    parser.add_argument("--repeats", type=int, default=10, metavar="N", help="of five folds (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every figure")
    given = parser.parse_args(arguments)
    names = given.graphs or DEVELOPMENT
    exit_without(names)
    for name, value in describe().items():
        print(f"{name}: {value}")
    results = []
    for name in names:
        if (reason := why_not(name)) is not None:
            print(f"\nskipped  {name}: {reason}")
            continue
        results.append(compare(name, given.repeats))
        show(results[-1])
    words = [result.verdict for result in results]
    print(f"\n{words.count('WIN')} won, {words.count('LOSS')} lost, {words.count('even')} even, of {len(words)} graphs")
    if given.json:
        given.json.write_text(json.dumps([asdict(each) for each in results], indent=2) + "\n", encoding="utf-8")


def why_not(name: str) -> str | None:
    """Return why a graph cannot be classified; None if it can."""
    labels = load(name).labels
    if set(np.unique(labels)) - {-1, 0, 1}:
        return "its classes are communities, not fraud"
    n_least = min(int((labels == 1).sum()), int((labels == 0).sum()))
    return f"{n_least} accounts of a class, fewer than two a fold" if n_least < 2 * FOLDS else None


def show(result: Compared) -> None:
    accounts = f"{result.n_positive:,} of {result.n_accounts:,} labelled accounts are positive"
    print(f"\n{result.verdict:<8} {result.name}: {accounts}  ({result.seconds:.0f} s)")
    for name, figure in result.precision.items():
        print(f"         {name:<18}{figure}")
    print(f"         {'gain':<18}{result.gain}", flush=True)


if __name__ == "__main__":
    main()
