"""MLflow: ``energy/*`` as metrics of a run in a local database or on a server."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from probe.redact import redact_text

from ._shared.run import ExportRefused, StoredRun
from ._shared.scalars import plain, scalars

if TYPE_CHECKING:
    from mlflow import MlflowClient

_BATCH = 1000  # metrics that MLflow takes at once
_MS = 1000
_ID = "phasewatt.run"


@dataclass(frozen=True, slots=True)
class MLflow:
    """Metrics energy/* in MLflow's SQLite file; --set tracking_uri=… for a server."""

    name: ClassVar[str] = "mlflow"
    output: ClassVar[str] = "mlflow.db"

    experiment: str = "phasewatt"
    tracking_uri: str = ""

    def export(self, run: StoredRun, output: Path) -> str:
        logging.getLogger("mlflow").setLevel(logging.ERROR)
        logging.getLogger("alembic").setLevel(logging.ERROR)
        try:
            from mlflow import MlflowClient
            from mlflow.entities import Metric
            from mlflow.exceptions import MlflowException
        except ImportError:
            raise ExportRefused(_NEEDED) from None
        logged = scalars(run)
        if not self.tracking_uri:
            output.parent.mkdir(parents=True, exist_ok=True)
            with open(output, "ab"):
                """Raises OSError here, in words, not in a database library."""
        uri = self.tracking_uri or f"sqlite:///{output.resolve()}"
        try:
            client = MlflowClient(tracking_uri=uri)
            experiment = self._experiment(client)
            for old in client.search_runs([experiment], f"tags.`{_ID}` = '{run.id}'"):
                client.delete_run(old.info.run_id)
            made = client.create_run(
                experiment,
                start_time=round(run.begin_s * _MS),
                run_name=plain(run.name),
                tags={_ID: run.id},
            ).info.run_id
            metrics = [
                Metric(plain(name), value, round(row.wall_s * _MS), row.step)
                for row in [*logged.rows, logged.final]
                for name, value in row.values.items()
            ]
            for begin in range(0, len(metrics), _BATCH):
                client.log_batch(made, metrics=metrics[begin : begin + _BATCH])
            for name, value in logged.config.items():
                client.log_param(made, plain(name), str(value)[:500])
            client.set_terminated(made, end_time=round(run.end_s * _MS))
        except ModuleNotFoundError:
            raise ExportRefused(_NEEDED) from None
        except MlflowException as error:
            raise ExportRefused(f"MLflow did not take it: {str(error).splitlines()[0]}") from None
        where = redact_text(self.tracking_uri) or output
        return f"{where}: {logged.counts}, for MLflow"

    def _experiment(self, client: MlflowClient) -> str:
        name = plain(self.experiment)
        existing = client.get_experiment_by_name(name)
        return str(
            existing.experiment_id if existing is not None else client.create_experiment(name)
        )


_NEEDED = "mlflow is needed: pip install mlflow (or mlflow-skinny sqlalchemy alembic)"
EXPORTER = MLflow()
