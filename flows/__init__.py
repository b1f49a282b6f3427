"""Schedules, retries and artifacts around `pipeline`: the only layer that knows Prefect (``pip install mbe-stage[flows]``)."""
