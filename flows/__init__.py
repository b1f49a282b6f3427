"""Schedules, retries and artifacts around `pipeline`: the only layer that knows Prefect (extra ``flows``)."""
