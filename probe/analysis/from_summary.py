"""The scene of a finished run from what its recorder summed up, and the file of that.

No sample and no edge is read. The file is one per node, written at the end of the run; it is used
only if it tells of everything that was recorded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..attribution.meter.energy_curve import EnergyCurve
from ..attribution.meter.summary import Summary
from ..attribution.meter_kinds import is_attributed
from ..attribution.regression.statistics import Statistics
from ..attribution.time_split import Share, Shares
from ..model import Source
from ..store import files
from ..store.layout import summary_path
from ..store.reader import COUNTS, RunReader, read_sources
from ..timeline.phase_totals import Tally
from . import device_energy
from .base import Scene, bounds_of
from .statistics_source import sealed

VERSION = 1


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """What one node's recorder knew at the end.

    ``owners``: by source, the rank whose phases its shares are of; ``followed``: the sources that
    the estimator followed from begin to end, though some said nothing; ``on_device``: tallies of
    ranks on their device's clock; ``rings``: by rank, the names of its rings; ``values``: by rank,
    what it logged; ``reductions``: by rank, what reducing gradients cost it.
    """

    meters: Mapping[str, Summary]
    owners: Mapping[str, int]
    followed: Sequence[str]
    tallies: Sequence[Tally]
    on_device: Sequence[Tally]
    rings: Mapping[int, Sequence[str]]
    values: Mapping[int, Mapping[str, Mapping[str, float | int | None]]]
    reductions: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)


class SealedScene(Scene):
    """Of a whole run. Made by :meth:`open`."""

    def __init__(self, reader: RunReader, nodes: Sequence[tuple[list[Source], NodeSummary]]):
        self._nodes = [node for _, node in nodes]
        self._known: dict[str, Statistics | None] = {}
        self._device = {tally.rank: tally for node in self._nodes for tally in node.on_device}
        self.on_device = self._device
        super().__init__(
            reader,
            bounds_of(reader),
            [
                device_energy.Meter(source, node.meters[source.id])
                for sources, node in nodes
                for source in sources
            ],
        )

    @classmethod
    def open(cls, reader: RunReader) -> SealedScene | None:
        """None if the recorder did not sum up all of the run, and raw data must be read."""
        nodes = []
        for folder in reader.nodes():
            node = read_summary(reader.path, folder.name[5:])
            sources = read_sources(folder)
            if node is None or any(source.id not in node.meters for source in sources):
                return None
            nodes.append((sources, node))
        known = {tally.rank for _, node in nodes for tally in node.tallies}
        if not nodes or known != set(reader.ranks()):
            return None
        scene = cls(reader, nodes)
        return scene if all(scene._told(meter.source) for meter in scene.meters) else None

    def _told(self, source: Source) -> bool:
        """Whether everything is known of a meter whose phases are one rank's."""
        mine = self.owner_of(source)
        if mine is None or not mine.seconds:
            return True
        device = next((one for one in self.devices if one.source.id == source.id), None)
        if device is not None and device.curve is not None:
            owners = [node.owners.get(source.id) for node in self._nodes]
            if device.summary.shares is None or mine.rank not in owners:
                return False
        followed = any(source.id in node.followed for node in self._nodes)
        return followed or not is_attributed(source)

    @property
    def tallies(self) -> Sequence[Tally]:
        """Of every rank that recorded edges."""
        return sorted((t for node in self._nodes for t in node.tallies), key=lambda t: t.rank)

    def clocked(self) -> Sequence[Tally]:
        """Of every rank, on its device's clock where that was recorded."""
        return [self._device.get(tally.rank, tally) for tally in self.tallies]

    def values(self) -> dict[str, dict[str, Any]]:
        """What the ranks logged: name → count, last, sum."""
        found: dict[str, dict[str, Any]] = {}
        for _, logged in sorted(
            (rank, told) for node in self._nodes for rank, told in node.values.items()
        ):
            first = not found
            for name, value in logged.items():
                if first or (name in COUNTS and name not in found):
                    found[name] = dict(value)
                elif name in COUNTS:
                    found[name] = added(found[name], value)
        return {name: value for name, value in found.items() if value["last"] is not None}

    def reductions(self) -> Mapping[int, Mapping[str, Any]]:
        """By rank, what reducing gradients cost it."""
        return {rank: told for node in self._nodes for rank, told in node.reductions.items()}

    def _tally_on(self, source: Source, rank: int) -> Tally:
        if source.device.startswith("gpu") and rank in self._device:
            return self._device[rank]
        return next(tally for tally in self.tallies if tally.rank == rank)

    def _shares(self, device: device_energy.Device, rank: int) -> Shares:
        assert device.summary.shares is not None
        return device.summary.shares

    def _statistics(self, source: Source, rank: int) -> Statistics | None:
        if source.id not in self._known:
            rings = next(node.rings[rank] for node in self._nodes if rank in node.rings)
            gpu = source.device.startswith("gpu")
            self._known[source.id] = sealed(
                self.reader.nodes(), source, rank, rings, on_device=gpu and rank in self._device
            )
        return self._known[source.id]


def added(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Counts of two ranks, or of two hosts, together."""
    sums = [told["sum"] for told in (one, other) if told["sum"] is not None]
    return {
        "count": one["count"] + other["count"],
        "last": one["last"],
        "sum": sum(sums) if sums else None,
    }


def write_summary(run: Path, node: NodeSummary) -> None:
    """Of this node. Raises OSError."""
    arrays: dict[str, Any] = {}
    meters = []
    for number, (id_, summary) in enumerate(node.meters.items()):
        curve, shares = summary.curve, summary.shares
        told: dict[str, Any] = {
            "source": id_,
            "samples": summary.samples,
            "highest": summary.highest,
            "spread": summary.spread,
            "highest_w": summary.highest_w,
            "owner": node.owners.get(id_),
        }
        if curve is not None:
            arrays[f"time_{number}"], arrays[f"joules_{number}"] = curve.time_ns, curve.joules
            told["curve"] = [curve.slack_ns, curve.period_s, curve.resets]
        if shares is not None:
            arrays[f"powers_{number}"] = shares.powers_w
            arrays[f"bounds_{number}"] = np.array(
                [[share.low_j, share.high_j] for share in shares.of.values()]
            )
            told["shares"] = [
                [code, share.time_ns, share.energy_j] for code, share in shares.of.items()
            ]
        meters.append(told)
    about = {
        "version": VERSION,
        "meters": meters,
        "tallies": [_tally_row(tally) for tally in node.tallies],
        "on_device": [_tally_row(tally) for tally in node.on_device],
        "followed": list(node.followed),
        "rings": list(node.rings.items()),
        "values": [[rank, dict(named)] for rank, named in node.values.items()],
        "reductions": [[rank, dict(told)] for rank, told in node.reductions.items()],
    }
    files.write_arrays(summary_path(run), arrays | {"told": np.array(json.dumps(about))})


def read_summary(run: Path, node: str) -> NodeSummary | None:
    """None if there is none, or of another version, or damaged."""
    arrays = files.read_arrays(summary_path(run, node))
    if arrays is None:
        return None
    try:
        about = json.loads(str(arrays["told"]))
        if about["version"] != VERSION:
            return None
        return NodeSummary(
            {
                told["source"]: _summary(told, number, arrays)
                for number, told in enumerate(about["meters"])
            },
            {
                told["source"]: told["owner"]
                for told in about["meters"]
                if told["owner"] is not None
            },
            about["followed"],
            [_tally(row) for row in about["tallies"]],
            [_tally(row) for row in about["on_device"]],
            dict(about["rings"]),
            dict(about["values"]),
            dict(about.get("reductions") or ()),
        )
    except (KeyError, TypeError, ValueError, IndexError):
        return None


def _summary(told: Mapping[str, Any], number: int, arrays: Mapping[str, Any]) -> Summary:
    curve = shares = None
    if "curve" in told:
        curve = EnergyCurve(arrays[f"time_{number}"], arrays[f"joules_{number}"], *told["curve"])
    if "shares" in told:
        bounds = arrays[f"bounds_{number}"]
        shares = Shares(
            arrays[f"powers_{number}"],
            {
                code: Share(time_ns, energy_j, *bounds[place])
                for place, (code, time_ns, energy_j) in enumerate(told["shares"])
            },
        )
    return Summary(
        told["samples"], told["highest"], told["spread"], curve, told["highest_w"], shares
    )


def _tally_row(tally: Tally) -> dict[str, Any]:
    return {
        "rank": tally.rank,
        "steps": tally.steps,
        "inferred_forward": tally.inferred_forward,
        "names": list(tally.names.items()),
        "seconds": list(tally.seconds.items()),
        "counts": list(tally.counts.items()),
        "follows": [[*pair, number] for pair, number in tally.follows.items()],
    }


def _tally(row: Mapping[str, Any]) -> Tally:
    return Tally(
        row["rank"],
        dict(row["names"]),
        dict(row["seconds"]),
        dict(row["counts"]),
        {(a, b): number for a, b, number in row["follows"]},
        row["steps"],
        row["inferred_forward"],
    )
