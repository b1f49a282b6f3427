"""cuDF tables and CuPy arrays, in device memory.

Importing this package needs no GPU library. Its modules do, and are imported when `pipeline.execution.tiers` has chosen
it.
"""
