"""Groups on labelled and planted graphs, compared with published methods: ``python -m benchmarks.groups``."""
