"""The layout of help: plain text, with options under headings.

Rich is prettier, but takes longer to load than the rest of help.
"""

from __future__ import annotations

import functools
from typing import Any

import typer
from typer.core import TyperCommand

from mbe_stage.pipeline.cli.options import LogFormat

PLAIN: dict[str, Any] = {"max_content_width": 120, "help_option_names": ["--help", "-h"]}
"""Context settings for help: as wide as the terminal, up to a limit."""

EXAMPLES = {
    "mbe": "mbe enumerate edges.csv --left user --right item --out out",
    "run": "mbe run config.yaml --set query.min_left=3",
    "enumerate": "mbe enumerate edges.csv --left user --right item --min-left 2 --out out",
    "cliques": "mbe cliques friends.csv --left name --right friend --out cliques",
    "count-pq": "mbe count-pq edges.csv --left user --right item -p 2 -q 3",
    "project": "mbe project edges.csv --left user --right item --min-shared 3 --out pairs",
    "itemsets": "mbe itemsets baskets.dat --min-support 0.01 --out itemsets",
    "best": "mbe best edges.csv --left user --right item --by edges -k 10 --out best",
    "groups": "mbe groups edges.csv --left user --right item --out groups",
    "show": "mbe show groups",
    "accounts": "mbe accounts groups --top 20",
    "cases list": "mbe cases list groups",
    "cases export": "mbe cases export groups 4af9 --with edges.csv --out case-4af9",
    "cases label": "mbe cases label groups 4af9 fraud --note 'same device'",
    "inspect": "mbe inspect edges.csv --left user --right item",
    "top": "mbe top out --by left --limit 5",
    "explore": "mbe explore groups",
    "runs": "mbe runs out",
    "clean": "mbe clean out",
    "export": "mbe export out --csv --out members.csv",
    "diff": "mbe diff out/runs/RUN latest --exit-code",
    "verify": "mbe verify out --input edges.csv",
    "compile": "mbe compile --engine cpu",
    "demo": "mbe demo --out demo",
}
"""Examples by command; for another package's problem, with an input and a directory."""


class Command(TyperCommand):
    """A command with options under headings, followed by an example.

    Each has the option of `pipeline.cli.json_log`, which acts before options are parsed.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters of the command, and that of all commands."""
        *params, help_option = super().get_params(ctx)
        return [*params, _log_format(), help_option]

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the example of the command."""
        _, *names = ctx.command_path.split()
        write_example(" ".join(names) if len(names) > 1 else str(self.name), formatter)
        super().format_epilog(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then the options of each heading."""
        write_options(self, ctx, formatter)


def command_line(**settings: Any) -> typer.Typer:
    """Make a Typer without Rich and without tracebacks of its own."""
    return typer.Typer(
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings=PLAIN,
        **settings,
    )


@functools.cache
def _log_format() -> Any:
    def command(log_format: LogFormat = "text") -> None: ...

    holder = typer.Typer(add_completion=False)
    holder.command()(command)
    option = typer.main.get_command(holder).params[0]
    # No command takes it as an argument.
    option.expose_value = False
    return option


def write_example(name: str, formatter: Any) -> None:
    """Write the example of a command, or of ``mbe`` itself, below its heading."""
    with formatter.section("Example"):
        formatter.write_text(EXAMPLES.get(name, f"mbe {name} edges.csv --out out"))


def write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write a command's arguments and options under their headings, in order of first appearance."""
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
