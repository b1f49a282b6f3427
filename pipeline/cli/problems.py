"""The commands of problems, made from the models of other packages when called.

The list of commands shows names and one line of help, and only reads entry points. A called command also loads its
publications. Its options are those of the problem's section, the input, the execution, the output, and the problem's
derived outputs.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from mbe_stage.pipeline.cli import options as opt
from mbe_stage.pipeline.cli.help import Command, command_line
from mbe_stage.pipeline.cli.publishing import publish
from mbe_stage.pipeline.config.setting_names import setting

if TYPE_CHECKING:
    from mbe_stage.pipeline.config.model import Config

log = logging.getLogger(__name__)

_OURS = "bicliques"


class ProblemCommand(Command):
    """The command of a problem, with all its options made when called.

    `mbe enumerate` is such a command, in case another package adds options.

    Attributes
    ----------
    make : callable or None
        Makes the command with all its options.
    """

    make: Callable[[], Command] | None = None

    @functools.cached_property
    def whole(self) -> Command:
        """Return the command with all its options."""
        if self.make is not None:
            return self.make()
        return _with_derived_outputs(self)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of the whole command."""
        if self.whole is self:
            return super().make_context(info_name, args, parent, **extra)
        return self.whole.make_context(info_name, args, parent, **extra)


def commands_of_problems(taken: Collection[str]) -> tuple[str, ...]:
    """Return the command names of other packages' problems; a taken name is skipped with a warning."""
    return tuple(name for name, _ in _commands(frozenset(taken)))


def command_named(name: str, taken: Collection[str]) -> ProblemCommand | None:
    """Return the command of that name, if another package's problem has it."""
    problem = dict(_commands(frozenset(taken))).get(name.replace("_", "-"))
    return None if problem is None else _command(problem)


def _command(problem: str) -> ProblemCommand:
    from mbe_stage.problem import package_of, problem_named

    about = problem_named(problem).about or f"Runs of the problem {problem}, of the package {package_of(problem)}."
    command = ProblemCommand(name=problem_named(problem).called, help=about, rich_markup_mode=None)
    command.make = lambda: _made(problem, about)
    return command


def _commands(taken: frozenset[str]) -> Iterator[tuple[str, str]]:
    from mbe_stage.problem import package_of, problem_named, problem_names

    for problem in problem_names():
        if problem == _OURS or problem_named(problem).publication is None:
            continue
        called = problem_named(problem).called
        if called in taken:
            _warn_once(
                f"the problem {problem!r} of the package {package_of(problem)} has no command: mbe {called} "
                "is another command"
            )
        else:
            yield called, problem


@functools.cache
def _warn_once(warning: str) -> None:
    log.warning("%s", warning)


def _made(problem: str, about: str) -> Command:
    """Make the command of another package's problem, with all its options."""
    from mbe_stage.errors import InvalidArgument
    from mbe_stage.pipeline.cli.section_options import section_parameters
    from mbe_stage.pipeline.problems.installed import publication_of
    from mbe_stage.problem import package_of, problem_named

    publication = publication_of(problem)
    section = section_parameters(publication.section, publication.section_name, f"Which {publication.unit[1]}")
    limit = problem_named(problem).limit
    limited = limit == "max_bicliques"
    publishing = opt.publishing((), max_bicliques=limited, members=False, max_cliques=limit == "max_cliques")
    own = {option for parameter in section for option in opt.options_of(parameter)}
    shared = tuple(opt.giving_way(each, own) for each in publishing)
    clash = _clash(section, shared)
    if clash:
        raise InvalidArgument(
            f"the problem {problem!r} of the package {package_of(problem)} has no command: its key {clash[0]!r} would "
            f"be the option {clash[1]}, which already exists; expected another name; mbe run accepts the key"
        )
    source, out, *others = shared
    refused = opt.refused(own, max_bicliques=not limited) if publication.instead else ()
    table = (source, opt.OUT_IF_GIVEN if publication.counts_first else out, *section, *others, *refused)
    return _of_parameters(problem_named(problem).called, about, (*table, *_derived(problem, table)), problem)


def _with_derived_outputs(command: ProblemCommand) -> Command:
    """Add the options of other packages' derived outputs to `mbe enumerate`, if there are any."""
    from mbe_stage.problem import OUTPUTS, derived_outputs

    if all(output.name in OUTPUTS for output in derived_outputs(_OURS)):
        return command
    callback: Any = command.callback
    table = (*callback.parameters, *_derived(_OURS, callback.parameters))
    return _of_parameters(str(command.name), str(command.help), table, _OURS)


def _of_parameters(name: str, about: str, table: Sequence[opt.Parameter], problem: str) -> Command:
    @opt.taking(table)
    def command(**options: Any) -> None:
        config = opt.configuration(table, options, problem=problem)
        publish(config, _counting_first(config, options))

    holder = command_line(add_completion=False)
    holder.command(name=name, help=about, cls=Command)(command)
    made = typer.main.get_command(holder)
    assert isinstance(made, Command)
    return made


def _counting_first(config: Config, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a command's options, with ``count_only`` if it counts by default and has no output directory.

    Raises
    ------
    ConfigError
        An option needs published tables.
    """
    from mbe_stage.pipeline.errors import ConfigError
    from mbe_stage.pipeline.problems.installed import publication_of

    if not publication_of(config.problem).counts_first or options["out"] is not None or options["count_only"]:
        return options
    given = [f"--{name.replace('_', '-')}" for name in ("if_changed", "resume") if options[name]]
    if given:
        raise ConfigError(
            f"command line: {given[0]}: needs a published run, but without {setting('output.directory')} "
            "the command only counts; name a directory, or leave the option out"
        )
    return {**options, "count_only": True}


def _derived(problem: str, table: Sequence[opt.Parameter]) -> tuple[opt.Parameter, ...]:
    """Return the options of other packages' derived outputs; ours are in the table, beside those of `query`.

    Outputs whose options already exist are skipped with a warning.
    """
    from mbe_stage.pipeline.cli.section_options import output_parameters
    from mbe_stage.pipeline.problems.installed import derived_publications
    from mbe_stage.problem import OUTPUTS, package_of

    found: list[opt.Parameter] = []
    for output in derived_publications(problem):
        if output.name in OUTPUTS:
            continue
        parameters = output_parameters(output.section, output.name, output.about)
        clash = _clash(parameters, (*table, *found))
        if clash:
            _warn_once(
                f"the derived output {output.name!r} of the package {package_of(output.name)} has no options: its key "
                f"{clash[0]!r} would be the option {clash[1]}, which already exists"
            )
        else:
            found += parameters
    return tuple(found)


def _clash(new: Iterable[opt.Parameter], there: Iterable[opt.Parameter]) -> tuple[str, str] | None:
    """Return the first key whose option already exists, and the option."""
    taken = {option for parameter in there for option in opt.options_of(parameter)} | {"--help"}
    for parameter in new:
        for option in opt.options_of(parameter):
            if option in taken:
                return parameter.key.partition(".")[2] or parameter.key, option
            taken.add(option)
    return None
