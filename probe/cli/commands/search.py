"""``probe search``: what makes this training cheaper on this machine, and is that sure?"""

from __future__ import annotations

import argparse

from ..arguments import add_command, add_dir, add_format, seconds

SUMMARY = "try other settings of a training, and prove the best of them"
EXAMPLES = (
    "probe search --knobs precision,schedule,threads --target 'loss<=2.5' --budget 3h "
    "-- python train.py --stack {stack} --seed {seed}",
    "probe search --knobs batch --knob 'lr=log:1e-4..1e-1' --objective energy "
    "--target 'accuracy>=0.9' --budget 1h,1kWh "
    "-- python train.py --batch-size {batch} --lr {lr} --seed {seed}",
    "probe search                        go on with the one in ./runs/search",
)
USAGE = (
    "probe search --knobs A,B [--knob NAME=VALUES …] --target T --budget B [--objective O] "
    "[--dir D] -- python train.py --stack {stack} --batch-size {batch} --seed {seed}"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--knobs",
        metavar="A,B",
        help="batch, threads, optimizer, and techniques of a {stack}: precision, accumulation, …",
    )
    parser.add_argument(
        "--knob",
        action="append",
        default=[],
        metavar="NAME=VALUES",
        help="one of your own: 'width=64,128', 'workers=0..8', 'lr=log:1e-4..1e-1'",
    )
    parser.add_argument(
        "--objective", default="time", metavar="O", help="time, energy, cost or edp (time)"
    )
    parser.add_argument("--target", metavar="T", help="when a training is good enough: 'loss<=2.5'")
    parser.add_argument(
        "--budget", metavar="B", help="of all trainings together: 3h, 2kWh or 3h,2kWh"
    )
    parser.add_argument(
        "--price", metavar="P", help="of a kWh, like '0.31 EUR' (PROBE_PRICE): objective cost"
    )
    parser.add_argument(
        "--hourly",
        type=seconds,
        metavar="P",
        help="price of the machine for an hour: objective cost",
    )
    parser.add_argument(
        "--storage", metavar="URL", help="Optuna's, for several hosts that share --dir, too"
    )
    parser.add_argument("--quiet", action="store_true", help="no line for each training")
    add_dir(parser, "where it is kept, and gone on with (./runs/search)")
    add_format(parser, "text", "json")
    add_command(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises ProbeError."""
    from ...plugins import SERVICES, load

    return int(load(SERVICES, "search")(options))
