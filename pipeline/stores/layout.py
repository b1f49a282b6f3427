"""What stands where below the address of an output directory; `remote_store` says what each is."""

from datetime import timedelta

__all__ = ["ABANDONED_AFTER", "LATEST", "RUNS", "STAGING"]

LATEST, RUNS, STAGING = "latest", "runs", ".staging"

ABANDONED_AFTER = timedelta(days=1)
"""An upload to which nothing was added for so long has no writer any more."""
