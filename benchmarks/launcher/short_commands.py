"""What `probe run` adds to the wall time of a command, its report included: seconds and ratio.

    python -m benchmarks.launcher.short_commands [blocks]

Each block runs the bare command twice and `probe run` once, in random order. Bars: `probe run --
true` ≤ 0.5 s, and a script of 6 s takes ≤ 0.5 s more, by the upper 95 % bound of the mean.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence

from benchmarks.harness.results import ROOT, save
from benchmarks.harness.turns import bare_mean, by_turns, mean_and_bound

BLOCKS = 30
MOST_S = 0.5
TRAINING = """
import time, torch
end = time.monotonic() + {seconds}
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
while time.monotonic() < end:
    optimizer.zero_grad(); model(torch.ones(4, 8)).mean().backward(); optimizer.step()
    time.sleep(0.01)
"""
COMMANDS: Mapping[str, tuple[Sequence[str], float]] = {
    "true": (["true"], 1.0),
    "sleep 6": ([sys.executable, "-c", "import time; time.sleep(6)"], 1 / 3),
    "train 6": ([sys.executable, "-c", TRAINING.format(seconds=4)], 1 / 3),
}


def timed(command: Sequence[str], runs: str) -> float:
    """Seconds from the start of a command to its end."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PROBE_DIR": runs}
    begun = time.perf_counter()
    subprocess.run(command, env=environment, check=True, capture_output=True, cwd=runs)
    return time.perf_counter() - begun


def ways(command: Sequence[str], runs: str) -> dict[str, Callable[[], float]]:
    """The bare command twice, and below `probe run`."""
    probed = [sys.executable, "-m", "probe", "run", "--", *command]
    return {
        "bare": lambda: timed(command, runs),
        "A/A": lambda: timed(command, runs),
        "probe run": lambda: timed(probed, runs),
    }


def main() -> None:
    blocks = int(sys.argv[1]) if len(sys.argv) > 1 else BLOCKS
    result: dict[str, object] = {}
    held = True
    print(
        f"{'':10}{'plain s':>9}{'probe s':>9}{'more s':>9}{'≤ (95 %)':>10}{'ratio':>8}{'A/A s':>9}"
    )
    for name, (command, share) in COMMANDS.items():
        with tempfile.TemporaryDirectory() as runs:
            times = by_turns(ways(command, runs), max(3, round(blocks * share)), warm=1)
        bare = bare_mean(times)
        more = [probed - plain for probed, plain in zip(times["probe run"], bare, strict=True)]
        apart = [a - b for a, b in zip(times["A/A"], times["bare"], strict=True)]
        mean, bound = mean_and_bound(more)
        ratio = statistics.fmean(times["probe run"]) / statistics.fmean(bare)
        held &= bound <= MOST_S
        print(
            f"{name:10}{statistics.fmean(bare):>9.3f}{statistics.fmean(times['probe run']):>9.3f}"
            f"{mean:>9.3f}{bound:>10.3f}{ratio:>8.3f}{statistics.fmean(apart):>9.3f}"
        )
        result[name] = {
            "blocks": len(bare),
            "plain_s": [round(value, 4) for value in bare],
            "probe_s": [round(value, 4) for value in times["probe run"]],
            "more_s": round(mean, 4),
            "more_s_upper_95": round(bound, 4),
            "ratio": round(ratio, 4),
            "a_a_s": round(statistics.fmean(apart), 4),
        }
    save("launcher/short_commands", result)
    sys.exit(not held)


if __name__ == "__main__":
    main()
