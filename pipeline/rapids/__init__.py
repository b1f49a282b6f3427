"""Public names of the device library; the code is in `pipeline.backends.cudf` and `pipeline.problems`.

Importing this package needs no GPU library; its modules do.
"""
