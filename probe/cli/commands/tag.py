"""``probe tag RUN +a -b --note TEXT --archive``: what is said of a run after the fact."""

from __future__ import annotations

import argparse

from ...errors import UsageError
from ..arguments import RUN, add_dir

SUMMARY = "tags and a note for a run, or put it away"
USAGE = "probe tag RUN [+TAG …] [-TAG …] [--note TEXT] [--archive | --unarchive] [--dir DIR]"
EXAMPLES = (
    "probe tag latest +lr-sweep +paper",
    "probe tag latest -paper --note 'diverged after the warm-up'",
    "probe tag my-run --archive",
    "probe tag my-run",
)
_HELP = ("-h", "-")


def rewritten(words: list[str]) -> list[str]:
    """The words as argparse takes them: ``-tag`` would be one of its options."""
    return [
        f"--remove={word[1:]}" if word[:1] == "-" and word[:2] != "--" and word not in _HELP
        else f"--add={word[1:]}" if word[:1] == "+" and len(word) > 1
        else word
        for word in _with_values(words)
    ]  # fmt: skip


def _with_values(words: list[str]) -> list[str]:
    """An option and its value as one word, so that a note may begin with a dash or plus."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in ("--note", "--dir", "--add", "--remove"):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("run", metavar="RUN", help=RUN)
    parser.add_argument(
        "--add", action="append", default=[], metavar="TAG", help="the same as +TAG"
    )
    parser.add_argument(
        "--remove", action="append", default=[], metavar="TAG", help="the same as -TAG"
    )
    parser.add_argument("--note", metavar="TEXT", help="replaces the note; '' takes it away")
    away = parser.add_mutually_exclusive_group()
    away.add_argument(
        "--archive", dest="archived", action="store_true", default=None, help="lists leave it out"
    )
    away.add_argument(
        "--unarchive", dest="archived", action="store_false", help="lists show it again"
    )
    add_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises UsageError, StoreError."""
    from ...store.catalogue.labels import change_labels, read_labels
    from ...store.layout import runs_dir
    from ...store.runs import find_run
    from ...store.trainings import group_of

    both = set(options.add) & set(options.remove)
    if both:
        raise UsageError(f"+{min(both)} and -{min(both)}: give one of them")
    path = group_of(find_run(options.run, runs_dir(options.dir)))
    asked = options.add or options.remove or options.note is not None
    if asked or options.archived is not None:
        labels = change_labels(
            path,
            add=options.add,
            remove=options.remove,
            note=options.note,
            archived=options.archived,
        )
    else:
        labels = read_labels(path)
    words = [f"+{tag}" for tag in labels.tags] + ["archived"] * labels.archived
    print(f"{path.name}: {' '.join(words) or 'no tags'}")
    if labels.note:
        print(labels.note)
    return 0
