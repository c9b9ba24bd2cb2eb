"""All sensors of the node together, and the carbon intensity of its country."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from ...clock import Clock
from ...model import Absence, DeviceRequest, Provenance, Reading, Source
from ...sensors import Sensor, SensorContext, discover_sensors
from ...store import files
from ...store.layout import RUN_FILE, tape_path
from ...store.members import Member
from .carbon_lookup import CarbonLookup
from .sensor_loop import Join, SensorLoop, run_in_thread

JOIN_S = 0.4
MODEL_JOIN_S = 1.2  # CodeCarbon's detection takes this long
WORTH_A_MODEL_S = 2.0  # a shorter run does not wait for it


class NodeSensors:
    """Opens every sensor of the node, for the devices that the members ask for."""

    def __init__(
        self,
        run: Path,
        members: Iterable[Member],
        clock: Clock,
        *,
        kinds: Mapping[str, type[Sensor]] | None = None,
        start: Callable[[SensorLoop], Join] = run_in_thread,
        carbon: CarbonLookup | None = None,
    ):
        """Open the sensors and look up the carbon intensity.

        Args:
            kinds: the sensors by name; None: all that are installed.
            start: what runs a sensor's loop.
            carbon: what looks up the carbon intensity.
        """
        run_file = files.read_fields(run / RUN_FILE) or {}
        self._country: str | None = run_file.get("country")
        self._clock, self._start = clock, start
        self._begin_ns = clock.now_ns()
        if kinds is None:
            kinds = _of_simulated_run(run) if run_file.get("simulated") else discover_sensors()
        self._kinds = kinds
        self._context = self._context_of(members)
        self._joins: dict[SensorLoop, Join] = {}  # of all loops, retired ones included
        self._registered: set[SensorLoop] = set()
        self._loops: list[SensorLoop] = []
        self._open(self._kinds.values())
        self.carbon = carbon or CarbonLookup()
        self.carbon.start(self._country, [loop.opened for loop in self._loops])

    def _open(self, kinds: Iterable[type[Sensor]]) -> None:
        opened = [SensorLoop(kind, self._context) for kind in kinds]
        self._joins |= {loop: self._start(loop) for loop in opened}
        self._loops += opened

    def members_changed(self, members: Iterable[Member]) -> None:
        """Open the sensors again if the members now use other devices or processes."""
        before, self._context = self._context, self._context_of(members)
        if replace(self._context, ranks=before.ranks) != before:
            kinds = list(self._kinds.values())
        elif self._context.ranks != before.ranks:  # nothing else has to be read anew
            kinds = [kind for kind in self._kinds.values() if reads_ranks(kind)]
        else:
            return
        names = {kind.name for kind in kinds}
        for loop in self._loops:
            if loop.name in names:
                loop.stop()
        self._loops = [loop for loop in self._loops if loop.name not in names]
        self._open(kinds)

    def new_sources(self) -> list[Source]:
        """Sources of the sensors that opened since the last call."""
        opened = [loop for loop in self._joins if loop.sources and loop not in self._registered]
        self._registered.update(opened)
        return [source for loop in opened for source in loop.sources]

    def take(self) -> list[Reading]:
        """All readings since the last call."""
        return [
            reading for loop in self._joins if loop in self._registered for reading in loop.take()
        ]

    def absences(self) -> list[Absence]:
        """What is missing, with reasons."""
        return [absence for loop in self._loops for absence in loop.absent]

    def warnings(self) -> list[str]:
        """One clear line each."""
        return [line for loop in self._loops for line in list(loop.warnings)]

    def has_counters(self) -> bool:
        """True if a measured counter is being read."""
        return any(
            source.is_energy_counter and source.provenance is Provenance.MEASURED
            for loop in self._loops
            for source in loop.sources
        )

    def stop(self) -> None:
        """Close all sensors; one that hangs in a driver call is left behind."""
        age_s = (self._clock.now_ns() - self._begin_ns) / 1e9
        if age_s > WORTH_A_MODEL_S:
            for loop in self._loops:
                if loop.name == "codecarbon":
                    self._clock.wait_event(loop.opened, MODEL_JOIN_S)
        for loop in self._loops:
            loop.stop()
        for join in self._joins.values():
            join(JOIN_S)

    def _context_of(self, members: Iterable[Member]) -> SensorContext:
        members = list(members)
        ranks = [m for m in members if m.role == "rank"]
        requests = tuple(dict.fromkeys(m.request for m in ranks or members)) or (DeviceRequest(),)
        # A launcher's process tree holds the ranks: nothing to open anew when they join.
        launchers = [m for m in members if m.role == "launcher"]
        pids = tuple(sorted({m.pid for m in launchers or members}))
        processes = {m.seat: m.pid for m in sorted(ranks, key=lambda m: m.begin_ns)}
        return SensorContext(
            requests=requests, pids=pids, ranks=processes, country=self._country, clock=self._clock
        )


def _of_simulated_run(run: Path) -> dict[str, type[Sensor]]:
    """The sensors of a run of `probe demo`: NVML's, under which the simulated card is put.

    No other energy stands beside that of a card that does not exist.
    """
    from ...simulated_card.library import install

    install(tape_path(run))
    return {name: kind for name, kind in discover_sensors().items() if name.startswith("nvml")}


def reads_ranks(kind: type[Sensor]) -> bool:
    """Whether a sensor reads the ranks' own processes: it is opened again when one joins."""
    return bool(getattr(kind, "reads_ranks", False))
