"""A watched stand-in of a training for searches: quadratic descent whose steps take known times.

    python train_for_search.py [--mode M] [--pace X] [--seed S] [--metric NAME]

``--pace`` multiplies a step's time. Modes: fast (a quarter of the steps), slow (five times as
many), nan, crash, hang, kill (SIGKILL, as the system does it where memory ends). With NVML_RIG set,
a step draws 300 W, in mode frugal 150 W.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time

import probe
from tests.fakes.nvml import NvmlRig

STEP_S, STEPS, TARGET = 0.01, 40, 0.1
RATE = {"fast": 4.0, "slow": 0.2}


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--mode", default="plain")
    options.add_argument("--pace", type=float, default=1.0)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--metric", default="loss")
    args = options.parse_args()
    rig = NvmlRig.attach(os.environ["NVML_RIG"]) if os.environ.get("NVML_RIG") else None
    if rig is not None:
        rig.set_power(0, 150.0 if args.mode == "frugal" else 300.0)
    if args.mode == "crash":
        sys.exit("the data are not there")
    loss, step = 1.0, 0
    with probe.watch(name="for-search", config={"seed": args.seed}) as run:
        while rig is not None and "recorder" not in (run.path / "run.json").read_text():
            time.sleep(0.02)  # until its meters are read, however busy the machine is
        while loss > TARGET:
            step += 1
            with run.phase("forward"):
                time.sleep(STEP_S * args.pace * (1 + 0.01 * (args.seed % 5)))
            if args.mode == "kill":  # at once: a search stops what takes too long
                os.kill(os.getpid(), signal.SIGKILL)
            while args.mode == "hang":
                time.sleep(1.0)
            loss *= TARGET ** (RATE.get(args.mode, 1.0) / STEPS)
            run.log(samples=8)
            if step % 4 == 0 or loss <= TARGET:
                run.log(**{args.metric: float("nan") if args.mode == "nan" else loss})
            if args.mode == "nan":
                loss = 1.0
    if rig is not None:
        rig.set_power(0, 60.0)


if __name__ == "__main__":
    main()
