"""What a report holds: one frozen type for finished runs, live runs and groups of runs.

Everything that a reader sees (text, html, md, pdf, csv, json, exporters, trackers, comparisons, the
dashboard) is made from a :class:`Report` or a :class:`~probe.report.group_model.GroupReport` and
from nothing else. The JSON of schema 1 has the same names: a field is a key, ``from_`` is ``from``.
The docstring below a field is the key's description in the JSON Schema and on the site.

Names end in units: ``_s`` seconds, ``_j`` joules, ``_w`` watts, ``_g`` grams. None means unknown,
never zero. An interval is (low, high) of 95 %.
"""

from .energy import CarbonIntensity, EnergyPrice, NodeRow, PowerRow, Totals
from .memory import MemoryGrowth, MemoryRow
from .meters import AbsentMeter, SensorFit, SensorResponse, SourceRow, SystematicError
from .phases import GroupRow, PhaseActivity, PhaseRow, RateRow
from .ranks import (
    AttemptRow,
    ClockRow,
    CommunicationRow,
    HostRow,
    PipelineRow,
    PipelineWaiting,
    RankBalance,
    RankRow,
    SkewRow,
    WaitingRow,
)
from .rendered import PrettyPrinter, Rendered
from .report import Report
from .run import GapCounts, LoggedValue, Overhead, RecorderUse, RunInfo
from .values import Interval, JsonValue

__all__ = [
    "AbsentMeter",
    "AttemptRow",
    "CarbonIntensity",
    "ClockRow",
    "CommunicationRow",
    "EnergyPrice",
    "GapCounts",
    "GroupRow",
    "HostRow",
    "Interval",
    "JsonValue",
    "LoggedValue",
    "MemoryGrowth",
    "MemoryRow",
    "NodeRow",
    "Overhead",
    "PhaseActivity",
    "PhaseRow",
    "PipelineRow",
    "PipelineWaiting",
    "PowerRow",
    "PrettyPrinter",
    "RankBalance",
    "RankRow",
    "RateRow",
    "RecorderUse",
    "Rendered",
    "Report",
    "RunInfo",
    "SensorFit",
    "SensorResponse",
    "SkewRow",
    "SourceRow",
    "SystematicError",
    "Totals",
    "WaitingRow",
]
