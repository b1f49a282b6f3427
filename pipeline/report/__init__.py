"""`report.html`: one self-contained page on a run, built from its published tables.

`tables` reads them, `asked` and `explain` put things into words, `charts` and `heat_map` draw, `sections` and `page`
put the page together; `page.html` is the template with its style sheet.
"""

from pipeline.report.page import write_report

__all__ = ["write_report"]
