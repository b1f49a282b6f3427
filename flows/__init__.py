"""Schedules, retries and artifacts around `pipeline`: the only layer that knows Prefect (extra ``flows``)."""

import importlib.util
import sys

if __name__ == "flows":  # a checkout, by its old name
    from tools.old_names import forward

    forward("flows")
elif importlib.util.find_spec("prefect") is None:
    _MISSING = "Prefect is not installed: pip install 'mbe-stage[flows]' (in a checkout --editable '.[flows]')"
    # For `python -m mbe_stage.flows.enumerate`: end with a sentence instead of a traceback.
    if sys.argv[:1] == ["-m"]:
        print(f"error: {_MISSING}", file=sys.stderr)
        sys.exit(4)
    raise ModuleNotFoundError(_MISSING, name="prefect")
