"""The steps of a cumulative ablation, read from the JSON of ``probe ablate``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import UsageError
from ...model import Provenance
from ...report.model import JsonValue
from ..gain import EnergyGain, Gain, Interval, Verdict

RESULT_FILE = "result.json"


@dataclass(frozen=True, slots=True)
class AblationStep:
    """A technique that was added to those before it.

    ``time_s`` is what this step saves; ``in_all_…`` what all so far save over the baseline, in s, J
    and bytes; ``metric`` tells the ``quality`` after it and the baseline's.
    """

    technique: str
    time_s: Gain
    in_all_time: Gain
    in_all_energy: EnergyGain
    in_all_memory: Gain
    metric: str | None
    base_quality: float | None
    quality: float | None

    @property
    def name(self) -> str:
        """Of the technique, without its options: ``precision`` of ``precision:dtype=bf16``."""
        return self.technique.partition(":")[0]


def read_steps(folder: str | Path) -> Sequence[AblationStep] | None:
    """The steps of the ablation in a folder; None if it was of another design.

    Raises:
        UsageError: there is no result in the folder, or it cannot be read.
    """
    try:
        result = json.loads((Path(folder) / RESULT_FILE).read_text(encoding="utf-8"))
        return steps(result)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{folder} holds no finished ablation: `probe ablate` first") from None


def steps(result: dict[str, JsonValue]) -> Sequence[AblationStep] | None:
    """The steps of the JSON of an ablation; None if it was of another design.

    Raises:
        KeyError, TypeError, ValueError: it is not such a JSON.
    """
    entries = result.get("steps")
    if entries is None:
        return None
    return [_step(_object(entry)) for entry in _list(entries)]


def _step(entry: dict[str, JsonValue]) -> AblationStep:
    step, in_all = _object(entry["step"]), _object(entry["in_all"])
    quality = _object(in_all["quality"])
    metric = quality.get("metric")
    return AblationStep(
        technique=str(entry["technique"]),
        time_s=_gain(step, "time_s"),
        in_all_time=_gain(in_all, "time_s"),
        in_all_energy=EnergyGain.of(
            _gain(in_all, "energy_j"), _provenance(_object(in_all["energy_j"]))
        ),
        in_all_memory=_gain(in_all, "memory_bytes"),
        metric=None if metric is None else str(metric),
        base_quality=_number(quality.get("base")),
        quality=_number(quality.get("other")),
    )


def _gain(step: dict[str, JsonValue], quantity: str) -> Gain:
    entry = _object(step[quantity])
    limits = entry["interval"]
    return Gain(
        gain=_number(entry["gain"]),
        interval=None if limits is None else _interval(_list(limits)),
        percent=_number(entry["percent"]),
        verdict=Verdict(str(entry["verdict"])),
        base=_number(entry.get("base")),
        other=_number(entry.get("other")),
    )


def _provenance(entry: dict[str, JsonValue]) -> Provenance | None:
    stored = entry.get("provenance")
    return None if stored is None else Provenance(str(stored))


def _interval(limits: list[JsonValue]) -> Interval | None:
    low, high = (_number(end) for end in limits)
    return None if low is None or high is None else (low, high)


def _number(value: JsonValue) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _object(value: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is not an object")
    return value


def _list(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value
