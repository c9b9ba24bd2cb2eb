"""Phases of a training run, found from torch's own calls and no annotation.

``data`` from the loader's ``__next__``, ``forward`` from calls of the root module,
``backward`` from the autograd engine's entry, ``optimizer`` from torch's global step
hooks, ``communication`` from collectives that block or are waited for. Works without torch:
then only the user's own phases and values are recorded.
"""

from .engine import PhaseEngine

__all__ = ["PhaseEngine"]
