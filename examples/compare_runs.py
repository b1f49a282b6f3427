"""Compare the two newest runs of an output directory, with their members.

python examples/compare_runs.py [OUT]

It writes nothing into OUT. Without OUT it makes two toy runs in a temporary directory.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pyarrow as pa

from mbe_stage.pipeline import Config, RunStore, run
from mbe_stage.pipeline.views.diff import diff_runs, largest_differences

YESTERDAY = [("ann", "shop 1"), ("ann", "shop 2"), ("bob", "shop 1"), ("bob", "shop 2"), ("cid", "shop 3")]
# Today cid visited the same shops as ann and bob, so their group has grown, and dee is new.
TODAY = [*YESTERDAY, ("cid", "shop 1"), ("cid", "shop 2"), ("dee", "shop 3")]


def main(out: Path) -> None:
    """Print the differences between the two newest runs."""
    runs = RunStore(out).runs()
    if len(runs) < 2:
        sys.exit(f"{out}: {len(runs)} published runs; expected two at least; publish another: mbe enumerate")
    diff = diff_runs(*runs[-2:])
    for remark in diff.comparability.remarks:
        print(f"note: {remark}")
    if not diff.differ:
        print("nothing changed")
    for one in largest_differences(diff, limit=20):
        people, shops = (", ".join(map(str, side)) for side in (one.biclique.left, one.biclique.right))
        before = "" if one.partner is None else f" (before: {', '.join(map(str, one.partner.left))})"
        print(f"{one.status}: {people} at {shops}{before}")


def publish_toys(out: Path) -> None:
    """Publish yesterday's and today's run."""
    config = Config.from_mapping({"output": {"directory": str(out), "report": False}})
    for edges in (YESTERDAY, TODAY):
        people, shops = zip(*edges, strict=True)
        run(config, pa.table({"person": people, "shop": shops}))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as directory:
            publish_toys(Path(directory))
            main(Path(directory))
