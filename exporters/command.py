"""``probe export`` and ``probe serve``."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from probe.errors import NothingToReport, UsageError
from probe.model import RunStatus
from probe.store.layout import runs_dir
from probe.store.runs import find_run
from probe.store.seals import await_end
from probe.store.trainings import single
from probe.until_interrupted import until_interrupted, wait_for_interruption

from . import exporter_of, exporters
from ._shared.live_runs import live_runs, runs_below
from ._shared.run import ExportRefused, StoredRun


def export(options: argparse.Namespace) -> int:
    """Write one run where ``--to`` says. Raises ProbeError."""
    if options.to is None:
        for name, exporter in sorted(exporters().items()):
            print(f"{name:14}{(type(exporter).__doc__ or '').strip().splitlines()[0]}")
        return 0
    exporter = exporter_of(options.to, dict(map(_option, options.set)))
    run = StoredRun(await_end(single(find_run(options.run, runs_dir(options.dir)))))
    if not run.report.sources and not run.report.phases:
        raise NothingToReport(f"{run.id} holds nothing yet, before any sample or edge")
    output = Path(options.output or exporter.output.format(id=run.id))
    still_running = run.report.run.status == RunStatus.RUNNING
    try:
        line = exporter.export(run, output)
        print(
            f"{line} (the run is still going on: figures of this moment)" if still_running else line
        )
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror or error}") from None
    return 0


def serve(options: argparse.Namespace) -> int:
    """Serve live runs until interrupted. Raises ProbeError."""
    from .prometheus import Address
    from .prometheus import serve as begin

    directory = runs_dir(options.dir)
    allowed = tuple(options.allow_host)
    address = Address(options.host, options.port, options.token, options.cert, options.key, allowed)
    with until_interrupted(), contextlib.ExitStack() as open_:
        endpoint = begin(directory, address)
        open_.callback(endpoint.close)
        scheme = "https" if options.cert else "http"
        host = f"[{options.host}]" if ":" in options.host else options.host
        lines = [f"live runs of {directory} at {scheme}://{host}:{endpoint.port}/metrics"]
        if options.otlp:
            from .otlp.pusher import EVERY_S, Pusher

            pusher = Pusher(live_runs(runs_below(directory)), options.otlp)
            open_.callback(pusher.close)
            lines.append(f"sent to {pusher.url} every {EVERY_S:g} s")
        print(", ".join([*lines, "Ctrl-C ends it"]), flush=True)
        wait_for_interruption()
    return 0


def _option(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ExportRefused(f"--set {text!r}: write OPTION=VALUE")
    return name, value
