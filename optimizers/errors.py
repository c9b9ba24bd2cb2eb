"""Errors for the user; each message is one line that says what to do."""

from __future__ import annotations

from probe.errors import ProbeError, UsageError


class TrainingFailed(ProbeError):
    """The training cannot continue (a loss that is not finite, no memory); the run is kept."""


class TechniqueRefused(UsageError):
    """A technique cannot be used here, or not with another one."""


class DataProblem(UsageError):
    """The data are not what they should be."""


__all__ = ["DataProblem", "TechniqueRefused", "TrainingFailed", "UsageError"]
