"""A training on the rig's GPUs whose phases draw known power, for people to look at.

python train_for_browser.py SECONDS NAME [SPEED]    # NVML_RIG set; watches into $PROBE_DIR
"""

from __future__ import annotations

import os
import random
import sys
import time

from tests.fakes.nvml import NvmlRig
from tests.scripts.train_paced import train

# Mean milliseconds and watts: a step of about 60 ms, its backward the hungriest.
PARTS = {
    "data": (6.0, 120.0),
    "forward": (17.0, 430.0),
    "backward": (31.0, 500.0),
    "optimizer": (5.0, 330.0),
}


def main(seconds: float, name: str, speed: float = 1.0) -> None:
    rig = NvmlRig.attach(os.environ["NVML_RIG"])
    chance = random.Random(7)
    gpus = int(rig.control.gpus)

    def draw(part: str) -> None:
        milliseconds, watts = PARTS[part]
        for gpu in range(gpus):  # the first is the hungriest
            rig.set_power(gpu, watts * (1.0 - 0.03 * gpu) * chance.gauss(1.0, 0.02))
        time.sleep(max(0.3, milliseconds * chance.gauss(1.0, 0.2)) / 1e3 / speed)

    train(draw, seconds, name)


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2], *map(float, sys.argv[3:]))
