"""How help reads: plain text, the options under the headings that they name.

Rich would draw it prettier, and take longer to load than everything else that help needs.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

__all__ = ["PLAIN", "Command", "command_line", "write_options"]

PLAIN: dict[str, Any] = {"max_content_width": 120}
"""Context settings of what prints help: as wide as the terminal, within reason."""


class Command(TyperCommand):
    """A command whose options stand under their headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then the options of each heading."""
        write_options(self, ctx, formatter)


def command_line(**settings: Any) -> typer.Typer:
    """A Typer without Rich, without shell completion, and without tracebacks of its own."""
    return typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings=PLAIN,
        **settings,
    )


def write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write a command's arguments and options, each below its heading, in the order in which the headings come up."""
    headings: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            of_its_kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
            heading = getattr(parameter, "rich_help_panel", None) or of_its_kind
            headings.setdefault(heading, []).append(record)
    for heading, records in headings.items():
        with formatter.section(heading):
            formatter.write_dl(records)
