"""`report.html`: one self-contained page on a run, built from its published tables.

`page` combines the sections of the problem and of derived outputs by the templates in `templates`. `request` and
`wording` turn settings, numbers and keys into HTML for any problem. `bicliques`, `cliques`, `groups` and `pq_counts`
are the sections of each; `tables` reads, `charts` and `heat_map` draw, and `markdown` writes the same facts as text.
"""

from mbe_stage.pipeline.report.page import write_report

__all__ = ["write_report"]
