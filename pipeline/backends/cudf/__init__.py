"""Tables as cuDF has them, arrays as CuPy has them: in device memory.

Importing this package needs no GPU library; its modules do, and are imported when `pipeline.execution.tiers` has
chosen it.
"""
