"""All sensor threads of the node as one thing, and the carbon intensity beside them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..clock import Clock
from ..errors import ProbeError
from ..model import Absence, DeviceRequest, Provenance, Reading, Source
from ..sensors import SensorContext, discover_sensors
from ..store import files
from ..store.layout import RUN_FILE
from ..store.members import Member
from .sensor_thread import SensorThread

JOIN_S = 0.4
MODEL_JOIN_S = 1.2  # CodeCarbon's detection takes this long
WORTH_A_MODEL_S = 0.8  # a shorter run does not wait for it


class Sensing:
    """Opens every sensor that is found, for the devices that the members ask for."""

    def __init__(self, run: Path, members: Iterable[Member], clock: Clock):
        run_file = files.read_json(run / RUN_FILE) or {}
        self._country: str | None = run_file.get("country")
        self._clock = clock
        self._begin_ns = clock.now_ns()
        self._kinds = discover_sensors()
        self._context = self._context_of(members)
        self._threads = [SensorThread(kind, self._context) for kind in self._kinds.values()]
        self._retired: list[SensorThread] = []
        self._registered: set[int] = set()
        self.carbon: dict[str, Any] = {}
        self.carbon_problem = ""
        threading.Thread(target=self._find_intensity, name="carbon", daemon=True).start()

    def members_changed(self, members: Iterable[Member]) -> None:
        """Open the sensors again if the members now use other devices or processes."""
        context = self._context_of(members)
        if context == self._context:
            return
        self._context = context
        for thread in self._threads:
            thread.stop()
        self._retired += self._threads
        self._threads = [SensorThread(kind, context) for kind in self._kinds.values()]

    def new_sources(self) -> list[Source]:
        """Sources of the sensors that opened since the last call."""
        found: list[Source] = []
        for thread in [*self._retired, *self._threads]:
            if thread.opened.is_set() and id(thread) not in self._registered:
                self._registered.add(id(thread))
                found += thread.sources
        return found

    def take(self) -> list[Reading]:
        """All readings since the last call."""
        return [
            r
            for thread in [*self._retired, *self._threads]
            if id(thread) in self._registered
            for r in thread.take()
        ]

    def absences(self) -> list[Absence]:
        """What is missing, with reasons."""
        return [absence for thread in self._threads for absence in thread.absent]

    def warnings(self) -> list[str]:
        """One clear line each."""
        return [line for thread in self._threads for line in list(thread.warnings)]

    def has_counters(self) -> bool:
        """True if a measured counter is being read."""
        return any(
            source.is_energy_counter and source.provenance is Provenance.MEASURED
            for thread in self._threads
            for source in thread.sources
        )

    def stop(self) -> None:
        """Close all sensors; one that hangs in a driver call is left behind."""
        age_s = (self._clock.now_ns() - self._begin_ns) / 1e9
        if age_s > WORTH_A_MODEL_S:
            for thread in self._threads:
                if thread.name == "codecarbon":
                    thread.opened.wait(MODEL_JOIN_S)
        for thread in self._threads:
            thread.stop()
        for thread in [*self._retired, *self._threads]:
            thread.join(JOIN_S)

    def _context_of(self, members: Iterable[Member]) -> SensorContext:
        members = list(members)
        ranks = [m for m in members if m.role == "rank"]
        requests = tuple(dict.fromkeys(m.request for m in ranks or members)) or (DeviceRequest(),)
        # A launcher's process tree holds the ranks: nothing to open anew when they join.
        launchers = [m for m in members if m.role == "launcher"]
        pids = tuple(sorted({m.pid for m in launchers or members}))
        return SensorContext(requests=requests, pids=pids, country=self._country, clock=self._clock)

    def _find_intensity(self) -> None:
        # Importing CodeCarbon's data takes a second: after the meters, never before.
        for thread in self._threads:
            thread.opened.wait(5.0)
        try:
            from ..sensors._carbon import carbon_intensity

            found = carbon_intensity(self._country)
        except ProbeError as error:
            self.carbon_problem = str(error)
            return
        except Exception as error:
            self.carbon_problem = f"carbon intensity is unknown: {type(error).__name__}: {error}"
            return
        self.carbon = {
            "g_per_kwh": found.g_per_kwh,
            "country": found.country_iso,
            "label": found.label,
            "source": found.source,
        }
