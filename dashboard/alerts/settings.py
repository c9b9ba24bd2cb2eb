"""The user's own alerts: from the command line, and from ``alerts.toml`` in the configuration."""

from __future__ import annotations

import os
import shlex
import stat
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from probe.errors import UsageError

from .rules import Rule, rule

_KEYS = {"rules": list, "command": list, "webhook": str}
_MOST_BYTES = 64 << 10
_EXAMPLE = 'rules = ["no step for 10 min"]'


@dataclass(frozen=True, slots=True)
class Settings:
    """The rules, and who is notified: a command (its words, no shell) and a webhook."""

    rules: tuple[Rule, ...] = ()
    command: tuple[str, ...] = ()
    webhook: str = ""


def configured() -> Path:
    """Where the user's file is: below $XDG_CONFIG_HOME, else ~/.config."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(given) if given.startswith("/") else Path("~/.config").expanduser()
    return base / "phasewatt" / "alerts.toml"


def settings(
    runs: Path, rules: Sequence[str] = (), command: str | None = None, webhook: str | None = None
) -> Settings:
    """What the command line asks for, and what the user's file does; the command line wins.

    Args:
        runs: the directory of runs, in which no such file is believed.
        rules: in words.
        command: its words as in a shell, which is not started.

    Raises:
        UsageError: a rule, the file or the webhook is not what it should be.
    """
    file = _of_file(configured(), runs)
    words = shlex.split(command) if command else list(file.command)
    address = file.webhook if webhook is None else webhook
    if address and urlsplit(address).scheme not in ("http", "https"):
        raise UsageError("the webhook of alerts: write an address that begins with https://")
    return Settings((*file.rules, *map(rule, rules)), tuple(words), address)


def _of_file(path: Path, runs: Path) -> Settings:
    content = _read(path, runs)
    if content is None:
        return Settings()
    try:
        values = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    for key, value in values.items():
        kind = _KEYS.get(key)
        texts = value if isinstance(value, list) else []
        if (
            kind is None
            or not isinstance(value, kind)
            or not all(isinstance(text, str) for text in texts)
        ):
            raise UsageError(f"{path}: {key!r} is none of {', '.join(_KEYS)}, like {_EXAMPLE}")
    return Settings(
        tuple(map(rule, values.get("rules", ()))),
        tuple(values.get("command", ())),
        values.get("webhook", ""),
    )


def _read(path: Path, runs: Path) -> bytes | None:
    """None if there is no such file. What others could have written is refused."""
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):
        return None
    if real.is_relative_to(runs.resolve()):
        raise UsageError(f"{path} lies in the directory of runs: alerts are not read from there")
    try:
        with open(real, "rb") as file:
            about = os.fstat(file.fileno())
            others = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if about.st_uid not in (os.geteuid(), 0) or others or not stat.S_ISREG(about.st_mode):
                raise UsageError(f"{path} can be written by others: make it yours (chmod 600)")
            return file.read(_MOST_BYTES)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
