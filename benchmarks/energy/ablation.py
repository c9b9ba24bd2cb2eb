"""A real ablation of a tiny GPT, with measured energy: which technique made how many J of the gain?

    python -m benchmarks.energy.ablation                    baseline, no-op and four steps, 3 blocks
    python -m benchmarks.energy.ablation --design shapley   all 16 stacks and a no-op, 3 blocks

Every trial is a process, one at a time; energy comes from the NVML rig under the real
training (tests/scripts/train_tiny_gpt.py: known power in every phase, real time). The first run is
killed in its middle and gone on with, and the table is made a second time from what lies on disk.
Bar: the four steps take at most 10 min.
"""

from __future__ import annotations

import argparse
import functools
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness.results import ROOT, save
from tests.fakes import processes
from tests.fakes.nvml import NvmlRig

TECHNIQUES = "schedule,clipping,accumulation,checkpointing"
MINUTES = 10.0


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--design", default="cumulative")
    options.add_argument("--techniques", default=TECHNIQUES)
    options.add_argument("--blocks", type=int, default=3)
    options.add_argument("--samples", type=int, default=1600)
    args = options.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        rig = NvmlRig(place, gpus=1, power_w=90.0, period_s=0.1, jitter_s=0.0002)
        rig.gpu(0).gpm = 0  # classes come from counted operations
        extra = rig.env() | {"OMP_NUM_THREADS": "2"}
        words = [
            "ablate",
            *("--techniques", args.techniques, "--design", args.design),
            *("--blocks", str(args.blocks), "--dir", str(place / "ablation"), "--json", "--"),
            *(sys.executable, str(ROOT / "tests/scripts/train_tiny_gpt.py")),
            *("--stack", "{stack}", "--seed", "{seed}", "--samples", str(args.samples)),
        ]
        trials = place / "ablation" / "trials.jsonl"
        with subprocess.Popen(
            [sys.executable, "-m", "probe", *words],
            env=processes.environment(place / "runs", extra),
            cwd=place,
            stdout=subprocess.DEVNULL,
        ) as first:
            while not trials.exists() or len(trials.read_text().splitlines()) < 4:
                time.sleep(0.5)
                if first.poll() is not None:
                    sys.exit("the ablation ended before it could be killed")
            time.sleep(2.0)
            first.send_signal(signal.SIGKILL)
        kept = trials.read_text()
        probe = functools.partial(processes.probe, place, extra=extra, timeout=7200)
        second = probe(*words)
        if second.returncode:
            print(second.stderr, file=sys.stderr)
            sys.exit(second.returncode)
        minutes = (time.monotonic() - begin) / 60
        result: dict[str, Any] = json.loads(second.stdout)
        again = json.loads(probe(*words).stdout)
        text = probe("ablate", "--dir", str(place / "ablation")).stdout
        same = again == result and trials.read_text().startswith(kept)
    print(text)
    print(
        f"{result['trials']} trials in {minutes:.1f} min, killed after "
        f"{len(kept.splitlines())}; the table from disk is {'the same' if same else 'ANOTHER'}"
    )
    late = args.design == "cumulative" and minutes > MINUTES
    if late:
        print(f"MISSED: {minutes:.1f} min, bar {MINUTES:g}")
    save(
        f"energy/ablation-{args.design}",
        {
            "minutes": round(minutes, 2),
            "same_table": same,
            "killed_after": len(kept.splitlines()),
            **_short(result),
        },
    )
    sys.exit(late or not same or result["sound"] is None)


def _short(value: Any) -> Any:
    """Without cells, folder and command: what is worth keeping under version control."""
    if isinstance(value, list):
        return [_short(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _short(item)
        for key, item in value.items()
        if key not in ("cells", "folder", "command", "other", "early_at") or isinstance(item, float)
    }


if __name__ == "__main__":
    main()
