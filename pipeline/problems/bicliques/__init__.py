"""The tables of bicliques: what writes them, what a page and a terminal show of them, and how they are checked.

The collector is written once. What it needs of each backend stands in ``arrow`` and ``cudf``, with the same files:
`sink` names, sums up and writes blocks, `summary` is what is known of all of them, `tables` makes frames of the
published columns.
"""
