"""The name of a setting in messages: its configuration key, or the option that sets it.

Users of a configuration or a program know ``input.left``; users of the command line know ``--left``. Messages call
`setting`. Entry points choose the form with `settings_called`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_called: ContextVar[Callable[[str], str]] = ContextVar("how messages call a setting", default=str)


def setting(key: str) -> str:
    """Return the user's name for the setting with this configuration key.

    Examples
    --------
    >>> f"set {setting('input.left')} to a name"
    'set input.left to a name'
    """
    return _called.get()(key)


def switch(key: str) -> str:
    """Name a boolean setting: options carry the value in their names, a key needs it."""
    name = setting(key)
    return f"{name} (true or false)" if name == key else name


@contextmanager
def settings_called(name_of: Callable[[str], str]) -> Iterator[None]:
    """Use these names for settings within the context, in its thread; `name_of` takes a configuration key."""
    token = _called.set(name_of)
    try:
        yield
    finally:
        _called.reset(token)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return ``did you mean 'that'? ``, or nothing if no name is near; case is ignored."""
    written = {each.casefold(): each for each in names}
    near = difflib.get_close_matches(name.casefold(), written, n=1)
    # Neither cpu nor gpu is a mistyped form of the other.
    is_meant = bool(near) and (len(near[0]) > 3 or near[0][:1] == name[:1].casefold())
    return f"did you mean {written[near[0]]!r}? " if is_meant else ""
