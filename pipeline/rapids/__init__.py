"""The RAPIDS tier: edges in with cuDF, bicliques out as cuDF tables, everything between on the device.

Importing this package needs no GPU library; its modules do, and are imported when `pipeline.tiers` has chosen it.
"""
