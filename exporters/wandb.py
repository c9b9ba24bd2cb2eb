"""Weights & Biases: ``energy/*`` in an offline run, which ``wandb sync`` can send."""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ._shared.run import ExportRefused, StoredRun
from ._shared.scalars import plain, scalars

_LONGEST_NAME = 128  # W&B's limit


@dataclass(frozen=True, slots=True)
class WeightsAndBiases:
    """Metrics energy/* in an offline W&B run, nothing is sent."""

    name: ClassVar[str] = "wandb"
    output: ClassVar[str] = "."

    project: str = "phasewatt"

    def export(self, run: StoredRun, output: Path) -> str:
        try:
            import wandb
        except ImportError:
            raise ExportRefused("wandb is needed: pip install wandb") from None
        logged = scalars(run)
        id_ = re.sub(r"[^A-Za-z0-9_-]+", "-", run.id)[:60]
        home = output / "wandb"
        home.mkdir(parents=True, exist_ok=True)
        others = wandb.run is not None  # a run of the caller's goes on
        settings = wandb.Settings(
            silent=True,
            reinit="create_new",
            console="off",
            disable_git=True,
            save_code=False,
            x_disable_stats=True,
            x_disable_meta=True,
            x_save_requirements=False,
        )
        with tempfile.TemporaryDirectory(dir=home, prefix=".new-") as folder:
            offline = wandb.init(
                mode="offline",
                dir=folder,
                project=plain(self.project),
                id=id_,
                name=plain(run.name)[:_LONGEST_NAME],
                config=dict(logged.config),
                settings=settings,
            )
            for row in logged.rows:
                offline.log(dict(row.values), step=row.step)
            offline.summary.update(dict(logged.final.values))
            offline.finish()
            if not others:
                # On a busy machine the file lacks its last records when a run has finished, or all.
                wandb.teardown()
            (made,) = Path(folder).glob("wandb/offline-run-*")
            for old in home.glob(f"offline-run-*-{id_}"):
                shutil.rmtree(old)
            made.replace(home / made.name)
        return f"{home / made.name}: {logged.counts}, for wandb sync"


EXPORTER = WeightsAndBiases()
