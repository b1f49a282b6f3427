"""Groups from bicliques in device memory: counterparts of the host modules of the same names, with equal results."""
