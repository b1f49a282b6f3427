"""How messages call a setting: by its configuration key, or by the option that sets it.

Whoever wrote a configuration, or a program, knows ``input.left``; whoever came by options of the command line knows
``--left``. Messages ask `setting`; who knows how the user came says so with `settings_called`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["did_you_mean", "setting", "settings_called", "switch"]

_called: ContextVar[Callable[[str], str]] = ContextVar("how messages call a setting", default=str)


def setting(key: str) -> str:
    """What the user calls the setting with this configuration key.

    Examples
    --------
    >>> f"set {setting('input.left')} to a name"
    'set input.left to a name'
    """
    return _called.get()(key)


def switch(key: str) -> str:
    """As `setting`, of one that is true or false: options say which by themselves, a key needs the value."""
    name = setting(key)
    return f"{name} (true or false)" if name == key else name


@contextmanager
def settings_called(name_of: Callable[[str], str]) -> Iterator[None]:
    """Call settings so while the context lasts, in its thread; `name_of` takes a configuration key."""
    token = _called.set(name_of)
    try:
        yield
    finally:
        _called.reset(token)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """``did you mean 'that'? ``, or nothing if no name is near; case makes no difference."""
    written = {each.casefold(): each for each in names}
    near = difflib.get_close_matches(name.casefold(), written, n=1)
    # Of cpu and gpu neither is the other mistyped.
    is_meant = bool(near) and (len(near[0]) > 3 or near[0][:1] == name[:1].casefold())
    return f"did you mean {written[near[0]]!r}? " if is_meant else ""
