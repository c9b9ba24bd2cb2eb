"""phasewatt: which phase of your training burns the energy, and how sure is that?

::

    import probe

    with probe.watch(model, optimizer, name="resnet50") as run:
        for x, y in loader:
            ...
            run.log(loss=loss, samples=len(x))
    print(run.report())

``watch`` wraps a run, ``start`` begins one that a callback or a notebook closes, ``phase`` names
a part of the active one, ``open_run`` reads what was recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import ProbeError
from .session.run import Run
from .session.watch import phase, start, watch

if TYPE_CHECKING:
    from .store.reader import RunReader

__version__ = "0.1.0"

__all__ = ["ProbeError", "Run", "__version__", "open_run", "phase", "start", "watch"]


def open_run(reference: str = "latest", dir: str | None = None) -> RunReader:  # noqa: A002
    """The recorded run that ``reference`` names: a directory, an id prefix, a name or ``latest``.

    Raises:
        UnknownRunError: no such run in ``dir`` (``./runs``).
        StoreError: it cannot be read.
    """
    from .store.layout import runs_dir
    from .store.reader import RunReader
    from .store.runs import find_run

    return RunReader(find_run(reference, runs_dir(dir)))
