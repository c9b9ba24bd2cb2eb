"""What an installation takes: MB on disk by package, and seconds.

    python -m benchmarks.cost.install_size                  plain `pip install .`
    python -m benchmarks.cost.install_size dashboard        with extras
    python -m benchmarks.cost.install_size --torch examples  what `make demo` needs

It installs into an environment of its own, which is removed, from the index that pip is set to, by
the versions of constraints.txt. Packages under 2 MB are added up.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness.results import save

ROOT = Path(__file__).resolve().parents[2]
SMALL_MB = 2.0
# Why a package is there, for those that a person may ask about.
WHY = {
    "pyarrow": "runs are stored as Parquet",
    "scipy": "distributions behind intervals and tests, bounds by linear programs",
    "pandas": "codecarbon needs it",
    "numpy": "the estimator",
    "pycountry": "codecarbon needs it",
    "cryptography": "codecarbon needs it",
    "rapidfuzz": "codecarbon needs it",
    "pydantic-core": "runs and reports are checked as they are read",
}
_SIZES = """
import importlib.metadata, json, os, sys
sizes = {}
for dist in importlib.metadata.distributions():
    paths = {os.path.realpath(dist.locate_file(f)) for f in dist.files or ()}
    inside = [p for p in paths if p.startswith(sys.prefix) and os.path.isfile(p)]
    sizes[dist.metadata["Name"]] = sum(os.path.getsize(p) for p in inside)
print(json.dumps(sizes))
"""


def sizes(folder: Path) -> dict[str, float]:
    """MB of the files of each package in an environment, byte code included."""
    done = subprocess.run(
        [folder / "bin/python", "-c", _SIZES], capture_output=True, text=True, check=True
    )
    return {name: size / 1e6 for name, size in json.loads(done.stdout).items()}


def install(folder: Path, *words: str) -> float:
    """Seconds that pip took."""
    began = time.perf_counter()
    subprocess.run(
        [folder / "bin/python", "-m", "pip", "install", "--quiet", *words], cwd=ROOT, check=True
    )
    return time.perf_counter() - began


def main() -> None:
    """Install, print a table, keep the result."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("extras", nargs="*")
    options.add_argument("--torch", action="store_true", help="torch first, counted apart")
    args = options.parse_args()
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "environment"
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        before = set(sizes(folder))
        if args.torch:
            (pin,) = (line for line in pins if line.startswith("torch=="))
            print(f"{pin}: {install(folder, pin):.0f} s", flush=True)
            of_torch = set(sizes(folder)) - before
            total = sum(sizes(folder)[package] for package in of_torch)
            print(f"  {total:.0f} MB with what it needs", flush=True)
            before |= of_torch
        wanted = f".[{','.join(args.extras)}]" if args.extras else "."
        took_s = install(folder, "-c", "constraints.txt", wanted)
        added = {package: mb for package, mb in sizes(folder).items() if package not in before}
    total = sum(added.values())
    print(f"pip install '{wanted}': {total:.0f} MB in {took_s:.0f} s")
    large = sorted(((mb, package) for package, mb in added.items() if mb >= SMALL_MB), reverse=True)
    for mb, package in large:
        print(
            f"  {package:16}{mb:6.0f} MB  {WHY.get(package.lower().replace('_', '-'), '')}".rstrip()
        )
    small = [mb for mb in added.values() if mb < SMALL_MB]
    print(f"  {len(small)} smaller ones {sum(small):3.0f} MB")
    packages = {package: round(mb, 1) for mb, package in large}
    result = {"mb": round(total), "seconds": round(took_s), "by_package": packages}
    save("_".join(["install_size", *args.extras]), result)


if __name__ == "__main__":
    main()
