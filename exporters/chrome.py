"""A trace in Chrome's JSON format; laid over a ``torch.profiler`` trace of the same run if given.

``torch.profiler`` stamps events with the wall clock less its file's ``baseTimeNanoseconds``; ours
are moved onto that.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from probe.report.model import JsonValue

from ._shared.run import ExportRefused, StoredRun, write_whole
from ._shared.timeline import Tracks, tracks

_FIRST_PID = 9_000_000  # no process has such a number: ours stay apart from the profiler's
_NS_PER_US = 1e3
Event = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Chrome:
    """Chrome's JSON trace; --set merge=trace.json lays it over one of torch.profiler."""

    name: ClassVar[str] = "chrome"
    output: ClassVar[str] = "{id}.trace.json"

    steps: str = "all"
    merge: str = ""

    def export(self, run: StoredRun, output: Path) -> str:
        profile = _profile(Path(self.merge)) if self.merge else Profile()
        ours = _events(tracks(run, self.steps), run.ahead_ns - profile.base_ns)
        content = {
            **profile.fields,
            "traceEvents": [*profile.events, *ours],
            "displayTimeUnit": "ms",
        }
        write_whole(output, json.dumps(content, allow_nan=False))
        more = f", over {self.merge}" if self.merge else ""
        return f"{output}: {len(ours)} events{more}; open it at https://ui.perfetto.dev"


@dataclass(frozen=True, slots=True)
class Profile:
    """A trace of torch.profiler: its events, its other fields, and what its times count from."""

    events: Sequence[JsonValue] = ()
    fields: Mapping[str, JsonValue] = field(default_factory=dict)
    base_ns: int = 0  # since 1970


def _profile(path: Path) -> Profile:
    """Read a trace, gzipped or not. Raises ExportRefused."""
    try:
        raw = path.read_bytes()
        fields = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
        if isinstance(fields, dict) and isinstance(fields.get("traceEvents"), list):
            base_ns = int(fields.get("baseTimeNanoseconds") or 0)
            return Profile(fields["traceEvents"], fields, base_ns)
    except OSError as error:
        raise ExportRefused(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, TypeError, EOFError, zlib.error):
        pass
    raise ExportRefused(
        f"{path} is not a trace of torch.profiler: write one with export_chrome_trace()"
    )


def _events(run_tracks: Tracks, ahead_ns: int) -> list[Event]:
    pids: dict[str, int] = {}
    events: list[Event] = []

    def process(group: str) -> int:
        if group not in pids:
            pids[group] = _FIRST_PID + len(pids)
            events.append(
                {
                    "ph": "M",
                    "name": "process_name",
                    "pid": pids[group],
                    "tid": 0,
                    "args": {"name": f"phasewatt {group}"},
                }
            )
        return pids[group]

    for number, slices in enumerate(run_tracks.slices):
        pid = process(slices.group)
        events.append(
            {
                "ph": "M",
                "name": "thread_name",
                "pid": pid,
                "tid": number,
                "args": {"name": slices.track},
            }
        )
        begin = (slices.begin_ns + ahead_ns) / _NS_PER_US
        length = (slices.end_ns - slices.begin_ns) / _NS_PER_US
        events += [
            {
                "ph": "X",
                "name": name,
                "cat": "phasewatt",
                "pid": pid,
                "tid": number,
                "ts": round(at, 3),
                "dur": round(long, 3),
            }
            for at, long, name in zip(begin.tolist(), length.tolist(), slices.name, strict=True)
        ]
    for levels in run_tracks.levels:
        pid = process(levels.group)
        inside = (levels.time_ns >= run_tracks.begin_ns) & (levels.time_ns <= run_tracks.end_ns)
        unit = levels.unit or "share"
        at = (levels.time_ns[inside] + ahead_ns) / _NS_PER_US
        events += [
            {
                "ph": "C",
                "name": levels.track,
                "pid": pid,
                "ts": round(time, 3),
                "args": {unit: value},
            }
            for time, value in zip(at.tolist(), levels.value[inside].tolist(), strict=True)
        ]
    return events


EXPORTER = Chrome()
