"""Frame backends: where a run's tables live. The steps, the cleaning and the outputs are written once over them."""
