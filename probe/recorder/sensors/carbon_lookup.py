"""The carbon intensity of the run's country, looked up beside the recording."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from ...errors import ProbeError
from ...store.run_fields import CarbonFields

_AFTER_S = 5.0  # at most so long it waits for each sensor to open


class CarbonLookup:
    """``row`` is what run.json says of it, empty until found; ``problem`` says why it failed."""

    def __init__(self) -> None:
        self.row: CarbonFields = {}
        self.problem = ""

    def start(self, country: str | None, after: Iterable[threading.Event]) -> None:
        """Look it up in a thread, once the sensors are open: importing the data takes a second."""
        threading.Thread(
            target=self._find, args=(country, list(after)), name="carbon", daemon=True
        ).start()

    def _find(self, country: str | None, after: list[threading.Event]) -> None:
        for event in after:
            event.wait(_AFTER_S)
        try:
            from ...sensors._carbon import carbon_intensity

            intensity = carbon_intensity(country)
        except ProbeError as error:
            self.problem = str(error)
            return
        except Exception as error:
            self.problem = f"carbon intensity is unknown: {type(error).__name__}: {error}"
            return
        self.row = {
            "g_per_kwh": intensity.g_per_kwh,
            "country": intensity.country_iso,
            "label": intensity.label,
            "source": intensity.source,
        }
