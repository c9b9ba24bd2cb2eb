"""What an entry does inside its framework: nothing of it raises, one line says that it failed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ..session.messages import say
from ..session.process_end import reason_of

_SAID = "_phasewatt_has_failed"  # on the entry: one line is enough

_Hook = TypeVar("_Hook", bound=Callable[..., Any])


def guarded(hook: _Hook) -> _Hook:
    """A method of an entry that raises nothing: it returns None where it fails.

    What the process is ended with (KeyboardInterrupt, SystemExit) passes.
    """

    @functools.wraps(hook)
    def kept(entry: Any, *args: Any, **named: Any) -> Any:
        try:
            return hook(entry, *args, **named)
        except Exception as error:
            if not entry.__dict__.get(_SAID):
                entry.__dict__[_SAID] = True
                say(
                    f"phasewatt: {type(entry).__name__}.{hook.__name__} failed, the training goes "
                    f"on: {reason_of(error)}"
                )
            return None

    return kept  # type: ignore[return-value]
