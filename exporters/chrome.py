"""A trace in Chrome's JSON format; laid over a ``torch.profiler`` trace of the same run if given.

``torch.profiler`` stamps events with the wall clock less its file's ``baseTimeNanoseconds``; ours
are moved onto that.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ._shared.run import ExportRefused, StoredRun, write_whole
from ._shared.timeline import Tracks, tracks

_FIRST_PID = 9_000_000  # no process has such a number: ours stay apart from the profiler's
_NS_PER_US = 1e3


@dataclass(frozen=True, slots=True)
class Chrome:
    """Chrome's JSON trace; --set merge=trace.json lays it over one of torch.profiler."""

    name: ClassVar[str] = "chrome"
    output: ClassVar[str] = "{id}.trace.json"

    steps: str = "all"
    merge: str = ""

    def export(self, run: StoredRun, output: Path) -> str:
        other = _profile(Path(self.merge)) if self.merge else {}
        anchor = run.reader.meta["anchor"]
        base_ns = int(other.get("baseTimeNanoseconds") or 0)
        ahead_ns = int(anchor["wall_ns"]) - int(anchor["monotonic_ns"]) - base_ns
        ours = _events(tracks(run, self.steps), ahead_ns)
        content = other | {
            "traceEvents": [*other.get("traceEvents", []), *ours],
            "displayTimeUnit": "ms",
        }
        write_whole(output, json.dumps(content, allow_nan=False))
        more = f", over {self.merge}" if self.merge else ""
        return f"{output}: {len(ours)} events{more}; open it at https://ui.perfetto.dev"


def _profile(path: Path) -> dict[str, Any]:
    try:
        raw = path.read_bytes()
        text = gzip.decompress(raw) if path.suffix == ".gz" else raw
        value = json.loads(text)
        assert isinstance(value["traceEvents"], list)
    except OSError as error:
        raise ExportRefused(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AssertionError, EOFError):
        raise ExportRefused(f"{path} is no trace of torch.profiler") from None
    return dict(value)


def _events(run_tracks: Tracks, ahead_ns: int) -> list[dict[str, Any]]:
    pids: dict[str, int] = {}
    events: list[dict[str, Any]] = []

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
