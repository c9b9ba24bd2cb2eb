"""What CodeCarbon answered before: asking it again imports pandas.

A file per question in $PROBE_CALIBRATION, else in $XDG_CACHE_HOME/phasewatt/codecarbon, else in
~/.cache/phasewatt/codecarbon. Another version of CodeCarbon is asked anew.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, TypeVar

from ..cache_folder import cache_folder, keep

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Answer = TypeVar("Answer", bound="DataclassInstance")

_NAME_LENGTH = 100  # of a file; a processor's name is shorter


def kept_answer(
    kind: type[Answer], question: str, ask: Callable[[], Answer], is_sane: Callable[[Answer], bool]
) -> Answer:
    """The answer to ``question``, a dataclass ``kind`` of plain values; ``ask`` gives it at first.

    An answer that is not ``is_sane`` is not taken from the disk. What cannot be kept is asked
    every time. Raises what ``ask`` raises, which is not kept.
    """
    try:
        asked = f"codecarbon {version('codecarbon')} {question}"
        name = re.sub(r"[^A-Za-z0-9.]+", "-", asked).lower()[:_NAME_LENGTH]
        path = cache_folder("codecarbon") / f"{name}.json"
    except (PackageNotFoundError, RuntimeError):
        return ask()
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        stored = json.loads(path.read_text(encoding="utf-8"))
        kept = kind(**stored["answer"])
        if stored["question"] == asked and is_sane(kept):
            return kept
    answer = ask()
    with contextlib.suppress(OSError, ValueError, TypeError):
        keep(path, {"question": asked, "answer": asdict(answer)})
    return answer
