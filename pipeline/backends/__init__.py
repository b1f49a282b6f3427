"""Frame backends: where a run's tables live. Steps, cleaning and outputs are written once for all of them."""
