"""Checks live runs every few seconds, and sends a message when a rule begins or ceases to hold."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from probe.redact import redact_text
from probe.report.sentences import short

from ..data.library import Library
from .senders import Message, by_command, by_webhook
from .settings import Settings

EVERY_S = 5.0
_MOST_RUNS = 200  # live at once
_LAST_MESSAGE_S = 1.0


@dataclass(frozen=True, slots=True)
class Alert:
    """A rule that holds of a run, since when, and in which words."""

    run_id: str
    name: str
    rule: str
    since: str
    detail: str


class Watcher:
    """The alerts of one directory. Without rules it does nothing.

    Args:
        send: sends a message and returns why it failed, in lines; by default as the settings say.
    """

    def __init__(
        self,
        library: Library,
        settings: Settings,
        send: Callable[[Message], list[str]] | None = None,
    ) -> None:
        self._library, self._settings = library, settings
        self._send = send or self._by_settings
        self._lock = threading.Lock()
        self._alerts: dict[tuple[str, str], Alert] = {}
        self._problem = ""
        self._ended = threading.Event()
        self._waiting: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    @property
    def is_on(self) -> bool:
        """Whether there is any rule."""
        return bool(self._settings.rules)

    def start(self) -> None:
        """Start the thread that checks the runs and the one that sends messages."""
        if self.is_on and not self._threads:
            self._threads = [
                threading.Thread(target=work, name=f"alerts: {name}", daemon=True)
                for name, work in (("check", self._check_on), ("send", self._send_all))
            ]
            for thread in self._threads:
                thread.start()

    def close(self) -> None:
        """Stop checking."""
        self._ended.set()
        self._waiting.put(None)
        for thread in self._threads:
            thread.join(_LAST_MESSAGE_S)

    def alerts(self) -> list[Alert]:
        """The rules that hold now, the newest first."""
        with self._lock:
            return sorted(self._alerts.values(), key=lambda alert: alert.since, reverse=True)

    def problem(self) -> str:
        """Why the last message could not be sent; empty if it was sent."""
        with self._lock:
            return self._problem

    def check(self) -> None:
        """Look at every live run once."""
        rows = [row for row in self._library.rows() if row["status"] == "running"][:_MOST_RUNS]
        live = {str(row["id"]): short(str(row["name"] or row["id"]), 60) for row in rows}
        for run_id, name in live.items():
            for rule in self._settings.rules:
                try:
                    detail = rule.holds(self._library.open(run_id))
                except Exception:  # a damaged run: its own page says what is wrong with it
                    continue
                self._note(run_id, name, rule.text, detail)
        with self._lock:  # what has ended is watched no more
            for key in [key for key in self._alerts if key[0] not in live]:
                del self._alerts[key]

    def _note(self, run_id: str, name: str, rule: str, detail: str | None) -> None:
        key = run_id, rule
        with self._lock:
            before = self._alerts.get(key)
            since = datetime.now(UTC).isoformat(timespec="seconds")
            if detail is not None:
                self._alerts[key] = Alert(
                    run_id, name, rule, before.since if before else since, detail
                )
            elif before is not None:
                del self._alerts[key]
        if (detail is None) == (before is None):
            return
        state = "over" if detail is None else "on"
        text = f"{rule}: {detail}" if detail else f"{rule}: no longer"
        self._waiting.put(
            {
                "text": f"phasewatt: {name}: {text}",
                "run": run_id,
                "name": name,
                "rule": rule,
                "state": state,
                "detail": detail or "",
                "time": since,
            }
        )

    def _check_on(self) -> None:
        while not self._ended.wait(EVERY_S):
            try:
                self.check()
            except Exception as error:
                self._complain(f"alerts: {type(error).__name__}: {error}")

    def _send_all(self) -> None:
        while (message := self._waiting.get()) is not None:
            try:
                why = self._send(message)
            except Exception as error:
                why = [f"{type(error).__name__}: {error}"]
            with self._lock:
                self._problem = "; ".join(why)
            for line in why:
                self._complain(f"alert not sent: {line}")

    def _by_settings(self, message: Message) -> list[str]:
        settings, why = self._settings, []
        if settings.command:
            why.append(by_command(settings.command, message))
        if settings.webhook:
            why.append(by_webhook(settings.webhook, message))
        return [redact_text(line)[:300] for line in why if line]

    @staticmethod
    def _complain(line: str) -> None:
        print(redact_text(f"dashboard: {line}")[:500], file=sys.stderr, flush=True)
