"""A real ablation of a tiny GPT, with measured energy: which technique made how much of the gain?

    python benchmarks/ablation.py                       baseline, no-op and four steps, 3 blocks
    python benchmarks/ablation.py --design shapley      all 16 stacks and a no-op, 3 blocks

Every trial is a process of its own, one at a time; energy comes from the NVML rig under the real
training (tests/scripts/train_tiny_gpt.py: known power in every phase, real time). The first run is
killed in its middle and gone on with, and the table is made a second time from what lies on disk.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import ROOT, save

sys.path.insert(0, str(ROOT))

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
        env = {**os.environ, **rig.env(), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2"}
        words = [
            sys.executable,
            "-m",
            "probe",
            "ablate",
            "--techniques",
            args.techniques,
            "--design",
            args.design,
            "--blocks",
            str(args.blocks),
            "--dir",
            str(place / "ablation"),
            "--json",
            "--",
            sys.executable,
            str(ROOT / "tests/scripts/train_tiny_gpt.py"),
            "--stack",
            "{stack}",
            "--seed",
            "{seed}",
            "--samples",
            str(args.samples),
        ]
        trials = place / "ablation" / "trials.jsonl"
        with subprocess.Popen(words, env=env, cwd=place, stdout=subprocess.DEVNULL) as first:
            while not trials.exists() or len(trials.read_text().splitlines()) < 4:
                time.sleep(0.5)
                if first.poll() is not None:
                    sys.exit("the ablation ended before it could be killed")
            time.sleep(2.0)
            first.send_signal(signal.SIGKILL)
        kept = trials.read_text()
        second = subprocess.run(
            words, env=env, cwd=place, stdout=subprocess.PIPE, text=True, check=False
        )
        if second.returncode:
            sys.exit(second.returncode)
        minutes = (time.monotonic() - begin) / 60
        found: dict[str, Any] = json.loads(second.stdout)
        again = json.loads(
            subprocess.run(
                words, env=env, cwd=place, stdout=subprocess.PIPE, text=True, check=False
            ).stdout
        )
        text = subprocess.run(
            [sys.executable, "-m", "probe", "ablate", "--dir", str(place / "ablation")],
            env=env,
            cwd=place,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        ).stdout
        same = again == found and trials.read_text().startswith(kept)
    print(text)
    print(
        f"{found['trials']} trials in {minutes:.1f} min, killed after "
        f"{len(kept.splitlines())}; the table from disk is {'the same' if same else 'ANOTHER'}"
    )
    late = args.design == "cumulative" and minutes > MINUTES
    if late:
        print(f"MISSED: {minutes:.1f} min, bar {MINUTES:g}")
    save(
        f"ablation-{args.design}",
        {
            "minutes": round(minutes, 2),
            "same_table": same,
            "killed_after": len(kept.splitlines()),
            **_short(found),
        },
    )
    sys.exit(late or not same or found["sound"] is None)


def _short(found: Any) -> Any:
    """Without cells, folder and command: what is worth keeping under version control."""
    if isinstance(found, list):
        return [_short(one) for one in found]
    if not isinstance(found, dict):
        return found
    return {
        key: _short(value)
        for key, value in found.items()
        if key not in ("cells", "folder", "command", "other", "early_at")
        or isinstance(value, float)
    }


if __name__ == "__main__":
    main()
