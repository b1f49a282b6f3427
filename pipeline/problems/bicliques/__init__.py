"""The tables of bicliques: writing, showing and checking them.

The collector is the same for all backends. The modules ``arrow`` and ``cudf`` hold the parts that differ, under the
same names.
"""
