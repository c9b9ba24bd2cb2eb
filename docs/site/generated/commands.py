"""Every command with its arguments, from the parsers that read them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from probe.cli.main import full_parser

_HEAD = """# Commands

`probe COMMAND --help` prints the same. What a command exits with, and how a run is named, is
[at the end](#exit-codes-and-runs).
"""


def page() -> str:
    """The page, in Markdown."""
    parser = full_parser()
    parts = [_HEAD, "| command | what it does |", "| --- | --- |"]
    commands = dict(_commands(parser))
    summaries = {action.dest: action.help or "" for action in _subparsers(parser)._choices_actions}
    parts += [
        f"| [`probe {name}`](#probe-{name}) | {_cell(summaries[name])} |" for name in commands
    ]
    for name, command in commands.items():
        parts += ["", f"## probe {name}", "", *_described(command)]
    parts += [
        "",
        "## Exit codes and runs",
        "",
        "```text",
        (parser.epilog or "").rstrip(),
        "```",
        "",
    ]
    return "\n".join(parts)


def _subparsers(
    parser: argparse.ArgumentParser,
) -> argparse._SubParsersAction[argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action
    raise LookupError("a parser without commands")


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield from sorted(_subparsers(parser).choices.items())


def _described(command: argparse.ArgumentParser) -> Iterator[str]:
    formatter = command._get_formatter()
    formatter._width = 96
    formatter.add_usage(
        command.usage, command._actions, command._mutually_exclusive_groups, prefix=""
    )
    yield from [(command.description or "").strip().replace("%%", "%"), "", "```text"]
    yield from [formatter.format_help().rstrip(), "```", "", "| argument | |", "| --- | --- |"]
    for action in command._actions:
        if action.help != argparse.SUPPRESS and not isinstance(action, argparse._HelpAction):
            yield f"| {_names(formatter, action)} | {_cell(formatter._expand_help(action))} |"
    yield from ["", "```text", (command.epilog or "").rstrip(), "```"]


def _names(formatter: argparse.HelpFormatter, action: argparse.Action) -> str:
    """How an argument is written, as code."""
    if action.option_strings:
        value = (
            ""
            if action.nargs == 0
            else " "
            + formatter._format_args(action, formatter._get_default_metavar_for_optional(action))
        )
        return _cell(", ".join(f"`{name}{value}`" for name in action.option_strings))
    return f"`{_cell(str(action.metavar or action.dest))}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
