"""Opens a stored run for analysis, from the recorder's summary where that is enough."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..model import RunStatus
from ..store.reader import RunReader
from ..store.segments import segment_files
from . import device_energy
from .base import Scene
from .carbon_and_price import Tariffs
from .from_samples import RawScene
from .from_summary import SealedScene
from .rates import rates
from .totals import totals

# Reading more samples than this to sum them up would not be constant memory.
_MOST_BYTES = 16 << 20


def open_scenes(path: Path) -> list[Scene]:
    """One for each host of a run. Raises StoreError, StoreVersionError."""
    return [open_scene(host) for host in RunReader(path).hosts()]


def open_scene(
    reader: RunReader, *, recompute: bool = False, part_s: tuple[float, float] | None = None
) -> Scene:
    """What the recorder of one host summed up if that is enough, else all samples and edges.

    Raises:
        UsageError: that is no part of the run.
        StoreError: it cannot be read.
    """
    if not recompute and part_s is None and reader.status is not RunStatus.RUNNING:
        scene = SealedScene.open(reader)
        if scene is not None:
            return scene
    return RawScene(reader, recompute=recompute, part_s=part_s)


def glance(path: Path, node: str | None = None) -> dict[str, Any] | None:
    """What a list of runs shows of one, or of one host of it: ``total`` of the report, sums of
    ``logged`` samples and tokens, mean ``power`` in a few bins; None if that took reading all
    samples of a long run.

    Raises:
        StoreError: it cannot be read.
    """
    reader = RunReader(path, node)
    scene: Scene | None = SealedScene.open(reader)
    if scene is None:
        if (
            sum(
                path.stat().st_size
                for node in reader.nodes()
                for path in segment_files(node, "samples")
            )
            > _MOST_BYTES
        ):
            return None
        scene = RawScene(reader)
    logged = scene.values()
    return {
        "total": totals(scene, Tariffs())[0],
        "logged": {name: logged[name]["sum"] for name in ("samples", "tokens") if name in logged},
        "power": device_energy.sketch(scene.devices, scene.run),
    }


def rates_of(path: Path) -> list[dict[str, Any]]:
    """The report's ``rates`` alone. Raises StoreError, StoreVersionError."""
    scenes = open_scenes(path)
    return [
        row | {"device": f"{scene.reader.node}/{row['device']}"} if len(scenes) > 1 else row
        for scene in scenes
        for row in rates(scene)
    ]
