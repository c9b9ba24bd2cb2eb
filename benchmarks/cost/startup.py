"""What it costs to be there at all: ms of `import probe`, of entering and leaving `watch()`.

    python -m benchmarks.cost.startup

Fresh processes. Bars, by the median: import ≤ 60 ms without torch, pandas, dash, codecarbon and
pyarrow; `watch()` holds the caller ≤ 150 ms; no thread is added to the training.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile

from benchmarks.harness.results import ROOT, save

RUNS = 15
HEAVY = ("torch", "pandas", "dash", "codecarbon", "pyarrow", "numpy")
IMPORT = f"""
import sys, time
t = time.perf_counter()
import probe
print(time.perf_counter() - t, *[m for m in {HEAVY!r} if m in sys.modules])
"""
WATCH = """
import json, os, sys, time
import torch, probe
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
threads = len(os.listdir("/proc/self/task"))
watch = probe.watch(model, optimizer)
t = time.perf_counter()
run = watch.__enter__()
entered = time.perf_counter() - t
more = len(os.listdir("/proc/self/task")) - threads
for _ in range(100):
    model(torch.ones(2, 8)).sum().backward(); optimizer.step(); optimizer.zero_grad()
time.sleep(0.5)
t = time.perf_counter()
watch.__exit__(None, None, None)
print(json.dumps([entered, time.perf_counter() - t, more]))
"""


def child(code: str, runs: str) -> str:
    """What a fresh interpreter prints."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PROBE_DIR": runs}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as a user has it
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        cwd=runs,
    )
    return done.stdout.strip()


def main() -> None:
    with tempfile.TemporaryDirectory() as runs:
        child(IMPORT, runs)  # writes the bytecode
        imports = [child(IMPORT, runs).split() for _ in range(RUNS)]
        watches = [json.loads(child(WATCH, runs)) for _ in range(RUNS)]
    loaded = sorted({name for line in imports for name in line[1:]})
    result = {
        "import_ms": [round(float(line[0]) * 1e3, 1) for line in imports],
        "heavy_modules_imported": loaded,
        "watch_enter_ms": [round(w[0] * 1e3, 1) for w in watches],
        "watch_exit_ms": [round(w[1] * 1e3, 1) for w in watches],
        "threads_added": max(w[2] for w in watches),
    }
    print(f"{'':24}{'median':>10}{'worst':>10}   bar")
    for key, bar in (
        ("import_ms", "60 ms"),
        ("watch_enter_ms", "150 ms"),
        ("watch_exit_ms", "2000 ms"),
    ):
        values = result[key]
        print(f"{key:24}{statistics.median(values):>10.1f}{max(values):>10.1f}   {bar}")
    print(f"{'threads added':24}{result['threads_added']:>10}{'':10}   0")
    print(f"{'heavy imports':24}{', '.join(loaded) or 'none':>10}{'':10}   none")
    save("cost/startup", result)
    ok = (
        statistics.median(result["import_ms"]) <= 60
        and not loaded
        and statistics.median(result["watch_enter_ms"]) <= 150
        and not result["threads_added"]
    )
    sys.exit(not ok)


if __name__ == "__main__":
    main()
