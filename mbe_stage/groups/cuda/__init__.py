"""Groups from bicliques in device memory: what the host's modules of the same names do, with the same result."""
