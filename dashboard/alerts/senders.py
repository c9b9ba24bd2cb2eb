"""Sends an alert to a command (without a shell) or a webhook; each has ten seconds."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

LONGEST_S = 10.0
Message = Mapping[str, str]


def by_command(words: Sequence[str], message: Message) -> str:
    """Start the command with the text as its last word and JSON on its input.

    Returns:
        Why it did not work, in one line; empty if it did.
    """
    try:
        process = subprocess.Popen(
            [*words, message["text"]],  # it begins with our name, so it is no option
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return f"{words[0]}: {getattr(error, 'strerror', None) or error}"
    try:
        process.communicate(json.dumps(message).encode(), timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"{words[0]} took more than {LONGEST_S:.0f} s and was ended"
    return "" if process.returncode == 0 else f"{words[0]} ended with {process.returncode}"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow nowhere: the user named this address and no other."""
        return


def by_webhook(address: str, message: Message) -> str:
    """POST the message as JSON; Slack's and its like show ``text``. Returns why not, or nothing."""
    host = urlsplit(address).hostname or "the webhook"
    request = urllib.request.Request(  # http or https: settings() has looked
        address,
        json.dumps(message).encode(),
        {"Content-Type": "application/json", "User-Agent": "phasewatt"},
    )
    try:
        opener = urllib.request.build_opener(_NoRedirect())
        with opener.open(request, timeout=LONGEST_S):
            return ""
    except urllib.error.HTTPError as error:
        with error:
            return f"{host} answered {error.code}"
    except (OSError, ValueError) as error:
        return f"{host}: {getattr(error, 'reason', None) or error}"
