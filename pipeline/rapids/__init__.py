"""The device's library by its public names; the code is in `pipeline.backends.cudf` and `pipeline.problems`.

Importing this package needs no GPU library; its modules do.
"""
