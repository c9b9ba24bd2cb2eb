"""What goes wrong in one clear line."""

from __future__ import annotations

from probe.errors import UsageError


class ExportRefused(UsageError):
    """This run cannot be exported this way, and why."""
