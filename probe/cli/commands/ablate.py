"""``probe ablate``: train with and without each technique."""

from __future__ import annotations

import argparse

from ..arguments import add_command, add_dir, add_format

SUMMARY = "train with and without each technique: which one made the gain"
EXAMPLES = (
    "probe ablate --techniques precision,schedule -- python train.py --stack {stack} --seed {seed}",
    "probe ablate                        go on with the one in ./runs/ablation",
)
USAGE = (
    "probe ablate --techniques A,B,C [--design D] [--blocks N] [--dir D] "
    "-- python train.py --stack {stack} --seed {seed}"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--techniques", metavar="A,B,C", help="in the order of adding them")
    parser.add_argument(
        "--design",
        choices=("cumulative", "leave-one-out", "shapley"),
        default="cumulative",
        metavar="DESIGN",
        help="cumulative, leave-one-out or shapley (cumulative)",
    )
    parser.add_argument("--blocks", type=int, default=3, help="how often each is trained (3)")
    add_dir(parser, "where it is kept, and gone on with (./runs/ablation)")
    add_format(parser, "text", "json")
    add_command(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises ProbeError."""
    from ...plugins import SERVICES, load

    return int(load(SERVICES, "ablate")(options))
