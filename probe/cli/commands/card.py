"""``probe card``: does a technique pay here? A page for each."""

from __future__ import annotations

import argparse

from ..arguments import add_command, add_dir, add_format

SUMMARY = "train with and without a technique, and write a card: does it pay here?"
USAGE = (
    "probe card TECHNIQUE … [--base STACK] [--seeds N] [--dir D] "
    "-- python train.py --stack {stack} --seed {seed}"
)
EXAMPLES = (
    "probe card ema 'precision(dtype=bf16)' -- python train.py --stack {stack} --seed {seed}",
    "probe card sam --base paper --seeds 8 --dir runs/sam "
    "-- python train.py --stack {stack} --seed {seed}",
    "probe card                        go on with those in ./runs/cards, or write their pages anew",
)
_ALONE = ("--json", "--help")  # options without a value


def rewritten(words: list[str]) -> list[str]:
    """The words as argparse takes them: techniques would take those of the command as well."""
    at = words.index("--") if "--" in words else len(words)
    head: list[str] = []
    takes_value = False
    for word in words[:at]:
        is_option = word[:1] == "-" and not takes_value
        head.append(word if takes_value or is_option else f"--technique={word}")
        alone = "=" in word or word[:2] != "--" or any(a.startswith(word) for a in _ALONE)
        takes_value = is_option and not alone
    return [*head, *words[at:]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--technique",
        action="append",
        dest="techniques",
        default=[],
        metavar="TECHNIQUE",
        help="the same as TECHNIQUE, with options where wanted: 'precision(dtype=bf16)'",
    )
    parser.add_argument("--base", metavar="STACK", help="what each is added to (baseline)")
    parser.add_argument(
        "--seeds", type=int, metavar="N", help="trainings of each, with seeds from 0 on (5)"
    )
    add_dir(parser, "where they are kept, and gone on with (./runs/cards)")
    add_format(parser, "md", "json")
    add_command(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises ProbeError."""
    from ...plugins import SERVICES, load

    return int(load(SERVICES, "card")(options))
