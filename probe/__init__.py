"""phasewatt: which phase of your training burns the energy, and how sure is that?

::

    import probe

    with probe.watch(model, optimizer, name="resnet50") as run:
        for x, y in loader:
            ...
            run.log(loss=loss, samples=len(x))
    print(run.report())

``watch`` wraps a run, ``start`` begins one that a callback or a notebook closes, ``phase`` names
a part of the active one, ``open_report`` gives the report of a recorded run, ``open_run`` what was
recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import ProbeError, StoreError, UsageError

if TYPE_CHECKING:
    from .report.group_model import GroupReport
    from .report.model import Report
    from .session.run import Run
    from .session.watch import phase, start, watch
    from .store.reader import RunReader

__version__ = "0.2.0"

__all__ = [
    "GroupReport",
    "ProbeError",
    "Report",
    "Run",
    "RunReader",
    "StoreError",
    "UsageError",
    "__version__",
    "open_report",
    "open_run",
    "phase",
    "start",
    "watch",
]
_LATE = {  # imported when it is first used: commands need none of what watches, and the reverse
    "GroupReport": ".report.group_model",
    "Report": ".report.model",
    "Run": ".session.run",
    "RunReader": ".store.reader",
    "phase": ".session.watch",
    "start": ".session.watch",
    "watch": ".session.watch",
}


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_LATE[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})


def load_ipython_extension(shell: object) -> None:
    """What ``%load_ext probe`` calls in IPython: from then on there is ``%%watch``."""
    from .integrations.notebook import register

    register(shell)


def open_run(reference: str = "latest", dir: str | None = None) -> RunReader:  # noqa: A002
    """The recorded run that ``reference`` names: a directory, an id prefix, a name or ``latest``.

    Of a run that has just ended, once its recorder has written the end.

    Raises:
        UnknownRunError: no such run in ``dir`` (``./runs``).
        StoreError: it cannot be read.
    """
    from .store.layout import runs_dir
    from .store.reader import RunReader
    from .store.runs import find_run
    from .store.seals import await_end

    return RunReader(await_end(find_run(reference, runs_dir(dir))))


def open_report(
    reference: str = "latest",
    dir: str | None = None,  # noqa: A002
) -> Report | GroupReport:
    """The report of a recorded run: what ``probe report`` shows, and ``.to_json()`` gives.

    ``reference`` names it as in :func:`open_run`; of trainings below one ``probe run`` it is a
    group.

    Raises:
        UnknownRunError: no such run in ``dir`` (``./runs``).
        StoreError: it cannot be read.
    """
    from .report.build import report_of
    from .store.layout import runs_dir
    from .store.runs import find_run
    from .store.seals import await_end

    return report_of(await_end(find_run(reference, runs_dir(dir))))
