"""`report.html`: one self-contained page on a run, built from its published tables.

`page` puts it together around what the problem's publication shows, of the templates in `templates` (`rendering`).
`request` and `wording` put things into words, for any problem. `bicliques` is what is shown of
bicliques: `tables` reads them, `explain` says what they mean, `charts` and `heat_map` draw; `markdown` is the same for
pages that show no files. `cliques` is what is shown of cliques, `pq_counts` of counts;
`heat_grid` draws for bicliques and counts.
"""

from mbe_stage.pipeline.report.page import write_report

__all__ = ["write_report"]
