"""Groups on labelled and planted graphs, beside the published methods: ``python -m benchmarks.groups``."""
