"""The errors that phasewatt raises on purpose, with their exit codes.

::

    ProbeError                 one clear line that says what to do   exit 1
    ├── UsageError             bad arguments or bad input            exit 1
    │   ├── UnknownRunError    no run has that name
    │   └── StoreVersionError  the run was written by a newer phasewatt
    ├── StoreError             a run directory cannot be read or written
    │   └── ForeignRunError    the directory that a run should get is another user's
    ├── NothingToReport        the run exists but holds no data       exit 2
    ├── SensorUnavailable      a sensor is absent: the reason and the remedy
    └── ShadowedPackageError   another package has the name of one of ours

All of them are raised at start-up or by a command. Once training runs, nothing
of ours raises into it.
"""

from __future__ import annotations


class ProbeError(Exception):
    """Base of all errors that phasewatt raises on purpose, at start-up or from a command.

    ``str(error)`` is one line for the user: what was wrong, and what to do. ``exit_code`` is what
    a command ends with. Once a training runs, nothing of phasewatt raises into it.
    """

    exit_code = 1


class UsageError(ProbeError):
    """The arguments or the input cannot be used; the line names the value and what is allowed."""


class UnknownRunError(UsageError):
    """No run has the given directory, id prefix or name."""


class StoreVersionError(UsageError):
    """The run directory carries a newer schema than this version reads."""


class StoreError(ProbeError):
    """A run directory cannot be read or written."""


class ForeignRunError(StoreError):
    """The directory that a run should get was made by another user, or is a link."""


class NothingToReport(ProbeError):
    """The run exists but holds nothing that could be reported."""

    exit_code = 2


class SensorUnavailable(ProbeError):
    """A sensor is absent on this machine.

    ``reason`` says why; ``remedy`` is the one command or step that fixes it,
    or None where there is none.
    """

    def __init__(self, reason: str, remedy: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


class ShadowedPackageError(ProbeError):
    """A package named like one of ours was loaded from somewhere else."""
