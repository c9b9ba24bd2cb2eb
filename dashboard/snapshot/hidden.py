"""Takes private texts out of a file for others: hosts, users, paths, command and configuration."""

from __future__ import annotations

import contextlib
import getpass
import os
import pwd
import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from probe.redact import redact_text

from ..chart_data import Origin
from ..data.run import OpenRun

GONE = "…"
# "/data/x", "~/x", "C:\\x"; not "g/kWh", "forward/attention", or what every machine has in /sys.
_PATH = re.compile(r"(?<![\w./~])(?!/sys/)(?:[A-Za-z]:\\|~?/)(?:[^\s'\"<>,;:()\[\]{}|]+)")
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>]+", re.IGNORECASE)
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")
_PLAIN = re.compile(r"[A-Za-z]{1,11}|[\d.eE+-]{1,7}")  # words and numbers that stand anywhere
_SHORTEST = 4  # of a word that is taken out


class Hidden:
    """Takes hosts, users, paths, the command's words and the configuration's out of texts.

    Args:
        hosts: names of machines.
        origins: what the runs were started with.
        kept: texts that are shown all the same, like the names of runs.
        shows_all: leave them in (`--with-origin`); secrets are hidden all the same.
    """

    def __init__(
        self,
        hosts: Iterable[str],
        origins: Iterable[Origin],
        kept: Iterable[str] = (),
        *,
        shows_all: bool = False,
    ) -> None:
        self._shows_all = shows_all
        shown = set(kept)
        names = {
            host: f"host {place}" for place, host in enumerate(dict.fromkeys(hosts), 1) if host
        }
        for origin in origins:
            for user in _users(origin.directory):
                names.setdefault(user, GONE)
            words = [*origin.command, *_texts(origin.config), *_texts(origin.environment)]
            for word in words:
                for part in (word, word.rpartition("=")[2]):
                    if len(part) >= _SHORTEST and not _PLAIN.fullmatch(part) and part not in shown:
                        names.setdefault(part, GONE)
        longest = sorted(names, key=len, reverse=True)
        self._names = names
        self._pattern = (
            re.compile(r"(?<!\w)(?:" + "|".join(map(re.escape, longest)) + r")(?!\w)")
            if longest
            else None
        )

    def text(self, text: str) -> str:
        """A text without them; secrets are never in it."""
        text = redact_text(text)
        if self._shows_all:
            return text
        if self._pattern is not None:
            text = self._pattern.sub(lambda match: self._names[match[0]], text)
        text = _URL.sub(GONE, text)
        return _ADDRESS.sub(GONE, _PATH.sub(GONE, text))

    def json(self, value: Any) -> Any:
        """The same in every text of a figure's JSON."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.json(held) for key, held in value.items()}
        if isinstance(value, list | tuple):
            if all(isinstance(item, int | float) or item is None for item in value):
                return value
            return [self.json(item) for item in value]
        return value


def hidden_of(runs: Iterable[OpenRun], is_open: bool, hosts: Iterable[str] = ()) -> Hidden:
    """What is taken out of the file of some runs. Raises StoreError.

    Args:
        hosts: machines that the file may name beside those of the runs.
    """
    if is_open:
        return Hidden((), (), shows_all=True)
    hosts = list(hosts)
    kept: list[str] = []
    origins = []
    for run in runs:
        reader = run.reader
        hosts += [str(reader.meta.get("host") or ""), *(m.host for m in reader.members)]
        hosts += [node.name.removeprefix("node-") for node in reader.nodes()]
        kept += [reader.id, str(reader.meta.get("name") or "")]
        origins.append(run.origin())
    return Hidden(hosts, origins, kept)


def hidden_of_machine(directory: Path, is_open: bool) -> Hidden:
    """What is taken out of a file about this machine; ``directory`` is that of the runs."""
    if is_open:
        return Hidden((), (), shows_all=True)
    names = {socket.gethostname(), socket.gethostname().partition(".")[0]}
    return Hidden(sorted(names, reverse=True), [Origin([], str(directory), {}, {}, {})])


def _users(directory: str) -> list[str]:
    """Who may be named: the user of this process, the owner of the run, whose home it is in."""
    users = []
    with contextlib.suppress(KeyError, OSError):
        users.append(getpass.getuser())
    with contextlib.suppress(KeyError, OSError):
        users.append(pwd.getpwuid(os.stat(directory).st_uid).pw_name)
    home = re.search(r"/(?:home|Users)/([^/]+)", directory)
    return [*users, *([home[1]] if home else [])]


def _texts(value: object) -> list[str]:
    """All texts that a configuration holds; its keys are its own, too."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for held in value.values() for text in _texts(held)]
    if isinstance(value, Sequence):
        return [text for held in value for text in _texts(held)]
    return []
