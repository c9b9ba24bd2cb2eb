"""``probe doctor``: what was found, what is missing, why, and the command that fixes it."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ...errors import ProbeError, SensorUnavailable
from ...instrument.state_machine import COMPILED
from ...model import Absence, Source
from ...report.text_tables import unique
from ...sensors import Sensor, SensorContext, discover_sensors
from ...session.jobs.job import current_job, device_request
from ...store.layout import runs_dir
from ...store.members import SHARED_MEMORY, read_members
from ...store.runs import list_runs
from ..arguments import add_format

_OF_ENERGY = ("energy", "power")
SUMMARY = "what was found, what is missing, how to fix it"
EXAMPLES = ("probe doctor", "probe doctor --json", "probe doctor --fix")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_format(parser, "text", "json")
    parser.add_argument(
        "--fix",
        action="store_true",
        help="first remove the rings that killed jobs left in shared memory, read into their runs",
    )


def run(options: argparse.Namespace) -> int:
    """Print the findings and return 0, whatever they are."""
    if options.fix:
        collected, removed = fix(runs_dir())
        print(
            f"{collected} rings were read into their runs, {removed} of unknown runs removed",
            file=sys.stderr,
        )
    diagnosis = examine()
    print(
        json.dumps(asdict(diagnosis), indent=1) if options.format == "json" else render(diagnosis)
    )
    return 0


def fix(directory: Path) -> tuple[int, int]:
    """Collect the rings of dead processes.

    Runs in other directories keep what is theirs: their rings say where they belong.

    Returns:
        How many were read into their runs, and how many belonged to no run that there is.
    """
    from ...recorder.collect import abandoned, collect

    runs = list_runs(directory)
    collected = sum(_collected(run, collect) for run in runs)
    kept = {path for run in runs for member in read_members(run) for path in member.ring_paths(run)}
    rest = [(path, run) for path, run in abandoned(SHARED_MEMORY) if path not in kept]
    collected += sum(_collected(run, collect) for run in {run for _, run in rest if run})
    unknown = [path for path, run in rest if run is None]
    for path in unknown:
        path.unlink(missing_ok=True)
    return collected, len(unknown)


def _collected(run: Path, collect: Callable[[Path], int]) -> int:
    try:
        return collect(run)
    except (OSError, ProbeError):
        return 0


@dataclass(frozen=True, slots=True)
class Finding:
    """One sensor: what it offers, what is missing."""

    sensor: str
    sources: list[Source]
    absent: list[Absence]
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What this machine has, the JSON of ``probe doctor``; ``versions`` None: not installed."""

    versions: dict[str, str | None]
    python: str
    sensors: list[Finding]
    carbon: str
    rings: str
    phases: str
    runs: str


def examine() -> Diagnosis:
    """Open every sensor once, as a run started here would. Never raises."""
    job = current_job()
    request = device_request(os.environ.get("PROBE_DEVICES") or None, job)
    country = os.environ.get("PROBE_COUNTRY") or None
    pid = os.getpid()
    context = SensorContext(requests=(request,), pids=(pid,), ranks={0: pid}, country=country)
    findings = [_examine_one(kind, context) for kind in discover_sensors().values()]
    return Diagnosis(
        versions={
            name: _version(name)
            for name in ("phasewatt", "torch", "nvidia-ml-py", "codecarbon", "pyarrow", "numpy")
        },
        python=sys.version.split()[0],
        sensors=findings,
        carbon=_carbon(country),
        rings=_rings(),
        phases=_phases(),
        runs=_runs(),
    )


def render(diagnosis: Diagnosis) -> str:
    """For a terminal: energy first, then what is missing and how to get it, then the rest."""
    sources = [source for finding in diagnosis.sensors for source in finding.sources]
    meters = [source for source in sources if source.quantity in _OF_ENERGY]
    meters.sort(key=lambda source: (not source.in_total, source.provenance != "measured"))
    lines = [_answer(meters), *_rows(meters)]
    missing = [
        line
        for names, absence in _absent_together(diagnosis.sensors)
        for line in _missing(", ".join(names), absence)
    ]
    if missing:
        lines += ["", "missing", *missing]
    warnings = [line for finding in diagnosis.sensors for line in finding.warnings]
    if warnings:
        lines += ["", "warnings", *(f"  ! {line}" for line in warnings)]
    others = [source for source in sources if source not in meters]
    if others:
        lines += ["", "also read", *_rows(others)]
    versions = (f"{name} {version or '—'}" for name, version in diagnosis.versions.items())
    return "\n".join(
        [
            *lines,
            "",
            f"runs      {diagnosis.runs}",
            f"phases    {diagnosis.phases}",
            f"rings     {diagnosis.rings}",
            f"carbon    {diagnosis.carbon}",
            f"versions  python {diagnosis.python}, {', '.join(versions)}",
        ]
    )


def _answer(meters: Sequence[Source]) -> str:
    """Whether energy is measured here."""
    measured = unique(source.device for source in meters if source.in_total)
    if measured:
        return f"energy is measured: {', '.join(measured)}"
    return (
        "no energy meter can be read here: no joules are measured\n"
        "runs record time per phase and, by a model, the energy of the CPU"
    )


def _rows(sources: Sequence[Source]) -> list[str]:
    """A line for each source, in columns."""
    device, quantity = (
        2 + max((len(getattr(source, name)) for source in sources), default=0)
        for name in ("device", "quantity")
    )
    lines = []
    for source in sources:
        total = ", counts into the total" if source.in_total else ""
        note = f"; {source.note}" if source.note else ""
        names = f"{source.device:{device}}{source.quantity:{quantity}}"
        lines.append(f"  ✓ {names}{source.method}{total}{note}")
    return lines


def _absent_together(findings: list[Finding]) -> list[tuple[list[str], Absence]]:
    """What is absent, grouped by reason; what has a remedy comes first."""
    groups: dict[str, tuple[list[str], Absence]] = {}
    for finding in findings:
        for absence in finding.absent:
            as_a_whole = not finding.sources and len(finding.absent) == 1
            what = finding.sensor if as_a_whole else absence.what
            groups.setdefault(absence.reason, ([], absence))[0].append(what)
    return sorted(groups.values(), key=lambda group: group[1].remedy is None)


def _missing(what: str, absence: Absence) -> list[str]:
    lines = [f"  – {what}: {absence.reason}"]
    if absence.remedy:
        lines.append(f"      fix: {absence.remedy}")
    return lines


def _examine_one(kind: type[Sensor], context: SensorContext) -> Finding:
    sensor = kind(context)
    try:
        sources = list(sensor.open())
        list(sensor.read())
        return Finding(kind.name, sources, list(sensor.absent), list(sensor.warnings))
    except SensorUnavailable as error:
        absent = list(getattr(sensor, "absent", ())) or [
            Absence(sensor=kind.name, what=kind.name, reason=error.reason, remedy=error.remedy)
        ]
        return Finding(kind.name, [], absent, [])
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return Finding(
            kind.name, [], [Absence(sensor=kind.name, what=kind.name, reason=reason)], []
        )
    finally:
        sensor.close()


def _carbon(country: str | None) -> str:
    try:
        from ...sensors._carbon import carbon_intensity

        intensity = carbon_intensity(country)
    except ProbeError as error:
        return str(error)
    except Exception as error:
        return f"unknown: {type(error).__name__}: {error}"
    return f"{intensity.g_per_kwh:.0f} g/kWh, {intensity.label}"


def _rings() -> str:
    if not os.access(SHARED_MEMORY, os.W_OK):
        return f"{SHARED_MEMORY} is not writable: rings lie in the run directory"
    free = shutil.disk_usage(SHARED_MEMORY).free
    return f"{SHARED_MEMORY}, {free >> 20} MiB free (8 MiB per rank, less when it is nearly full)"


def _phases() -> str:
    if COMPILED:
        return "recorded by compiled code"
    return (
        "recorded by plain Python, which costs a step twice as much: install "
        "phasewatt again where there are a C compiler and Python's headers"
    )


def _runs() -> str:
    directory = runs_dir()
    existing = next(p for p in [directory, *directory.parents] if p.exists())
    if not os.access(existing, os.W_OK):
        return f"{directory} cannot be written: choose another with --dir or PROBE_DIR"
    return f"{directory}, {shutil.disk_usage(existing).free >> 30} GiB free"


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
