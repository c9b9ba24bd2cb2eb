"""Every metric that is served, sent or written: name, unit, type and help text, in one place.

One dotted name serves both worlds. OTLP has it as it is, ``phasewatt.phase.energy``; Prometheus as
OpenTelemetry's rules translate it, ``phasewatt_phase_energy_joules_total``: underscores, the unit
as a word, ``_total`` for a counter. Names that begin with ``hw.`` are OpenTelemetry's own for
hardware (status: development) and go to OTLP only.

A counter never falls, so the ``rate()`` of joules is watts. What is revised as data come in is a
gauge.

``python -m exporters._shared.metrics`` prints the table of README.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

PREFIX = "phasewatt"
DEVICE_KINDS = ("gpu", "cpu", "dram", "ram", "psys", "host", "process")
ANY_DEVICE = "<device>"  # stands for one of these in the table

# A unit of UCUM as the last word of a name in Prometheus.
_UNIT_WORDS = {
    "": "",
    "{step}": "",
    "1": "ratio",
    "By": "bytes",
    "By/s": "bytes_per_second",
    "Cel": "celsius",
    "Hz": "hertz",
    "J": "joules",
    "W": "watts",
    "g": "grams",
    "s": "seconds",
}


class MetricType(StrEnum):
    """How the values of a metric relate to each other."""

    COUNTER = "counter"  # a sum that never falls
    LEVEL = "level"  # a sum that may fall: OTLP's up-down counter
    GAUGE = "gauge"
    INFO = "info"  # always 1; its labels are the information


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """One metric; ``unit`` is UCUM, ``1`` a ratio, empty a plain number."""

    name: str
    unit: str
    type: MetricType
    help: str

    @property
    def prometheus_name(self) -> str:
        """The name in Prometheus, with unit and the suffix of its type."""
        words = [self.name.replace(".", "_"), _UNIT_WORDS[self.unit]]
        if self.type is MetricType.COUNTER:
            words.append("total")
        if self.type is MetricType.INFO:
            words.append("info")
        return "_".join(filter(None, words))


DEFINED: list[MetricDefinition] = []  # in the order of the table
OF_DEVICES: list[Mapping[str, MetricDefinition]] = []


def _define(name: str, unit: str, type_: MetricType, help_: str) -> MetricDefinition:
    definition = MetricDefinition(f"{PREFIX}.{name}", unit, type_, help_)
    DEFINED.append(definition)
    return definition


def _define_for_devices(
    name: str, unit: str, type_: MetricType, help_: str
) -> Mapping[str, MetricDefinition]:
    """One metric for each kind of device, by that kind: ``phasewatt.gpu.power``."""
    by_kind = {
        kind: MetricDefinition(f"{PREFIX}.{kind}.{name}", unit, type_, help_)
        for kind in (*DEVICE_KINDS, ANY_DEVICE)
    }
    OF_DEVICES.append(by_kind)
    return by_kind


_COUNTER, _GAUGE = MetricType.COUNTER, MetricType.GAUGE

# -- live runs ---------------------------------------------------------------------------------

RUN_INFO = _define("run", "", MetricType.INFO, "Name, host, start and data of a run, as labels")
RUN_IDLE = _define("run.idle", "s", _GAUGE, "Time since a phase last began or ended")
RUN_ENDED = _define("run.ended", "", _GAUGE, "1 once the run has ended, else 0")
STEPS = _define("steps", "{step}", _COUNTER, "Optimizer steps that are complete")
PHASE_ENERGY = _define(
    "phase.energy",
    "J",
    _COUNTER,
    "Energy assigned to a phase; the phases of a device add up to its energy",
)
PHASE_ENERGY_ESTIMATE = _define(
    "phase.energy_estimate",
    "J",
    _GAUGE,
    "Best estimate of a phase's energy and the ends of its 95 % interval; revised as data come in",
)
PHASE_STATUS = _define(
    "phase.status", "", _GAUGE, "Always 1; the label says how well a phase's energy is resolved"
)
PHASE_TIME = _define("phase.time", "s", _COUNTER, "Time in a phase, on the host's clock")
PHASE_ENTRIES = _define("phase.entries", "", _COUNTER, "Number of times a phase was entered")
PHASE_MEMORY_PEAK = _define(
    "phase.memory_peak",
    "By",
    _GAUGE,
    "Most memory that a rank held in a phase: allocated and reserved by torch on its GPU, used on "
    "that GPU, or resident in its process",
)
PHASE_MEMORY_MEAN = _define(
    "phase.memory_mean", "By", _GAUGE, "Mean of the memory that a rank held in a phase"
)
PHASE_ACTIVITY = _define(
    "phase.activity",
    "1",
    _GAUGE,
    "Share of a phase in which a unit of the device was busy, or its power capped, and the ends of "
    "its 95 % interval",
)
PHASE_CPU_CORES = _define(
    "phase.cpu_cores",
    "",
    _GAUGE,
    "CPU cores that a rank's process kept busy in a phase, and the ends of its 95 % interval",
)
RECORDER_SILENCE = _define(
    "recorder.silence", "s", _GAUGE, "Time since the recorder last wrote its figures"
)
SENSOR_GAPS = _define("sensor.gaps", "", _COUNTER, "Sensor readings that are missing")
EDGES_LOST = _define(
    "edges.lost", "", _COUNTER, "Begins and ends of phases that did not fit into the ring buffer"
)

# -- devices of live runs ----------------------------------------------------------------------

DEVICE_ENERGY = _define_for_devices("energy", "J", _COUNTER, "Energy since the run began, measured")
DEVICE_POWER = _define_for_devices(
    "power", "W", _GAUGE, "Mean power over the last second, measured"
)
DEVICE_MODELLED_POWER = _define_for_devices(
    "modelled_power", "W", _GAUGE, "Mean power by a power model; not measured"
)
DEVICE_POWER_LIMIT = _define_for_devices("power_limit", "W", _GAUGE, "Power limit in force")
DEVICE_THROTTLED = _define_for_devices(
    "throttled", "s", _COUNTER, "Time in which the device was slowed down, by reason"
)
DEVICE_UTILIZATION = _define_for_devices(
    "utilization", "1", _GAUGE, "Share of time in which the device was busy"
)
DEVICE_SM_ACTIVE = _define_for_devices(
    "sm_active", "1", _GAUGE, "Mean share of multiprocessors that had work"
)
DEVICE_TENSOR_ACTIVE = _define_for_devices(
    "tensor_active", "1", _GAUGE, "Share of time in which the tensor cores were busy"
)
DEVICE_DRAM_ACTIVE = _define_for_devices(
    "dram_active", "1", _GAUGE, "Share of the memory's peak bandwidth in use"
)
DEVICE_MEMORY_UTILIZATION = _define_for_devices(
    "memory_utilization", "1", _GAUGE, "Share of time in which memory was read or written"
)
DEVICE_MEMORY_USED = _define_for_devices("memory_used", "By", _GAUGE, "Memory in use")
DEVICE_TEMPERATURE = _define_for_devices("temperature", "Cel", _GAUGE, "Temperature")
DEVICE_CLOCK = _define_for_devices("clock", "Hz", _GAUGE, "Clock frequency, by domain")
DEVICE_PCIE_TRANSMIT = _define_for_devices("pcie_transmit", "By/s", _GAUGE, "Sent over PCIe")
DEVICE_PCIE_RECEIVE = _define_for_devices("pcie_receive", "By/s", _GAUGE, "Received over PCIe")
DEVICE_CPU_TIME = _define_for_devices("cpu", "s", _COUNTER, "Processor time used")

# -- stored runs: final values, not meant for rate() --------------------------------------------

RUN_DURATION = _define("run.duration", "s", _GAUGE, "Time from begin to end")
RUN_STEPS = _define("run.steps", "{step}", _GAUGE, "Optimizer steps of the run")
RUN_ENERGY = _define("run.energy", "J", _GAUGE, "Measured energy and the ends of its 95 % interval")
RUN_CO2E = _define("run.co2e", "g", _GAUGE, "CO2e of the measured energy")
RUN_MODELLED_ENERGY = _define(
    "run.modelled_energy", "J", _GAUGE, "Energy by a power model; not measured"
)
RUN_MODELLED_CO2E = _define("run.modelled_co2e", "g", _GAUGE, "CO2e of the modelled energy")
RUN_COVERAGE = _define("run.coverage", "1", _GAUGE, "Share of the run that was metered")
SOURCE_ENERGY = _define("source.energy", "J", _GAUGE, "Energy by meter, measured")
SOURCE_MODELLED_ENERGY = _define(
    "source.modelled_energy", "J", _GAUGE, "Energy by power model; not measured"
)
PHASE_DURATION = _define("phase.duration", "s", _GAUGE, "Time in a phase")
PHASE_MODELLED_ENERGY = _define(
    "phase.modelled_energy", "J", _GAUGE, "Energy of a phase by a power model; not measured"
)
# -- OTLP only ---------------------------------------------------------------------------------

MODELLED_ENERGY = MetricDefinition(
    f"{PREFIX}.modelled.energy", "J", _COUNTER, "Energy by a power model; not measured"
)
_MEASURED = "Energy since the run began, measured"
_MEAN_POWER = "Mean power over the last second, measured"
HW_ENERGY = MetricDefinition("hw.energy", "J", _COUNTER, _MEASURED)
HW_HOST_ENERGY = MetricDefinition("hw.host.energy", "J", _COUNTER, _MEASURED)
HW_POWER = MetricDefinition("hw.power", "W", _GAUGE, _MEAN_POWER)
HW_HOST_POWER = MetricDefinition("hw.host.power", "W", _GAUGE, _MEAN_POWER)
HW_TEMPERATURE = MetricDefinition("hw.temperature", "Cel", _GAUGE, "Temperature")
HW_GPU_UTILIZATION = MetricDefinition(
    "hw.gpu.utilization", "1", _GAUGE, "Share of time in which the device was busy"
)
HW_GPU_MEMORY_UTILIZATION = MetricDefinition(
    "hw.gpu.memory.utilization", "1", _GAUGE, "Share of time in which memory was read or written"
)
HW_GPU_MEMORY_USAGE = MetricDefinition(
    "hw.gpu.memory.usage", "By", MetricType.LEVEL, "Memory in use"
)


def served() -> list[MetricDefinition]:
    """Every metric that an endpoint may serve, those of devices once for each kind."""
    return [*DEFINED, *(by_kind[kind] for by_kind in OF_DEVICES for kind in DEVICE_KINDS)]


def table() -> str:
    """All metrics of Prometheus as a table of Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "| metric | type | what it is |"
    yield "| --- | --- | --- |"
    for definition in (*DEFINED, *(by_kind[ANY_DEVICE] for by_kind in OF_DEVICES)):
        yield f"| `{definition.prometheus_name}` | {definition.type} | {definition.help} |"


if __name__ == "__main__":
    print(table(), end="")
