"""From settings to the words and the environment of a process."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import UsageError
from .knobs import Knob, Place
from .outcome import Settings

_PLACE = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
SEED, STACK = "seed", "stack"


def placeholders(command: Sequence[str]) -> set[str]:
    """Names in braces that knobs fill in."""
    return {name for word in command for name in _PLACE.findall(word)} - {SEED}


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command with places for the knobs' values and for ``{seed}``."""

    words: Sequence[str]
    knobs: Sequence[Knob]

    def check(self) -> None:
        """Raises UsageError where the script's own setting cannot be had by leaving words out."""
        for at, word in enumerate(self.words):
            for name in set(_PLACE.findall(word)) - {SEED}:
                alone = word == f"{{{name}}}" and at > 0 and self.words[at - 1].startswith("-")
                if not (alone or re.fullmatch(rf"[^={{}}]+=\{{{name}\}}", word)):
                    raise UsageError(
                        f"the script's own {name} is unknown where {{{name}}} stands: write it as "
                        f"an option, which can be left out: --{name} {{{name}}} or "
                        f"{name}={{{name}}}"
                    )

    @property
    def is_seeded(self) -> bool:
        """Whether the command takes a seed."""
        return any(f"{{{SEED}}}" in word for word in self.words)

    def shown(self, settings: Settings) -> list[str]:
        """The words of these settings, with ``{seed}`` left in them."""
        return self.filled(settings, f"{{{SEED}}}")

    def filled(self, settings: Settings, seed: int | str) -> list[str]:
        """The words of one training; options at the script's own setting are left out."""
        values = {
            knob.name: settings.get(knob.name)
            for knob in self.knobs
            if knob.place is Place.ARGUMENT
        }
        values |= {STACK: self.stack(settings), SEED: str(seed)}
        words: list[str] = []
        for word in self.words:
            absent = [name for name in _PLACE.findall(word) if values.get(name) is None]
            if not absent:
                words.append(_PLACE.sub(lambda match: str(values[match[1]]), word))
            elif word == f"{{{absent[0]}}}":
                words.pop()  # the option before it
        return words

    def stack(self, settings: Settings) -> str | None:
        """The techniques that are on, as a stack's text; None for the script's own stack."""
        texts = [
            text
            for knob in self.knobs
            if knob.place is Place.STACK and (text := settings.get(knob.name)) is not None
        ]
        return "+".join(sorted(texts)) or None

    def environment(self, settings: Settings) -> Mapping[str, str]:
        """Variables that a training gets beside those that are set."""
        threads = next(
            (settings.get(knob.name) for knob in self.knobs if knob.place is Place.ENVIRONMENT),
            None,
        )
        return {} if threads is None else dict.fromkeys(_THREADS, threads)
