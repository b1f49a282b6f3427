"""Two runs compared: which bicliques are new, gone, grown, shrunk or changed."""

from pipeline.diff.job import PAIRED, STATUSES, RunDiff, Status, diff_runs

__all__ = ["PAIRED", "STATUSES", "RunDiff", "Status", "diff_runs"]
