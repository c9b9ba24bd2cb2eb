"""What the paper *Systematic Training Compute Optimization* states, as it prints it.

Its hardware was 4 × RTX 3090 (24 GB); it gives no intervals and measured no energy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .model import PaperFigures, PaperStep, Stated

HARDWARE = "4 × RTX 3090 (24 GB), PyTorch 2.0.1"


def figures(
    base: str = "", other: str = "", change: str = "", percent: str = "", of: str = ""
) -> PaperFigures:
    """Figures of a row; an empty text is one that the paper does not state."""
    of_base, of_other, of_change, of_percent = (
        Stated.of(text) if text else None for text in (base, other, change, percent)
    )
    return PaperFigures(of_base, of_other, of_change, of_percent, of)


@dataclass(frozen=True, slots=True)
class StatedResults:
    """Table I or II: what was trained, and a row for each figure by its name here."""

    table: str
    data: str
    model: str
    rows: Mapping[str, PaperFigures]


IMAGES = StatedResults(
    "I",
    "CIFAR-10",
    "ResNet-50",
    {
        "time": figures("42.3", "31.2", "−11.1", "−26.2", of="to 85 % accuracy"),
        "memory": figures("8.24", "6.13", "−2.11", "−25.6"),
        "throughput": figures("1,240", "1,580", "+340", "+27.4"),
        "quality": figures("85.31", "85.14", "−0.17", "−0.2"),
        "utilisation": figures("42.3", "58.7", "+16.4", "+38.8"),
    },
)
TEXT = StatedResults(
    "II",
    "WikiText-2",
    "GPT-2 small",
    {
        "time": figures("3.82", "2.91", "−0.91", "−23.8", of="to perplexity 45"),
        "memory": figures("12.43", "9.32", "−3.11", "−25.0"),
        "throughput": figures("8,520", "10,890", "+2,370", "+27.8"),
        "quality": figures("44.82", "45.13", "+0.31", "+0.7"),
    },
)


def _step(name: str, *printed: str, of: str = "") -> PaperStep:
    time, memory, quality, *saved = map(Stated.of, printed)
    faster, less_memory = saved or (None, None)
    return PaperStep(name, time, memory, quality, faster, less_memory, of)


BASELINE = _step("baseline", "42.3", "8.24", "85.31")
STEPS: Mapping[frozenset[str], PaperStep] = {
    frozenset(techniques): step
    for techniques, step in (
        (
            ("accumulation",),
            _step("+ accumulation", "38.1", "7.12", "85.28", "9.9", "13.6", of="k = 4"),
        ),
        (
            ("accumulation", "precision"),
            _step("+ mixed precision", "34.5", "6.45", "85.22", "18.4", "21.7"),
        ),
        (
            ("accumulation", "precision", "schedule"),
            _step("+ schedule", "32.8", "6.45", "85.19", "22.5", "21.7"),
        ),
        (
            ("accumulation", "precision", "schedule", "checkpointing"),
            _step("+ checkpointing", "31.2", "6.13", "85.14", "26.2", "25.6"),
        ),
    )
}
"""Table III: the techniques that are on → the row of the last one."""

SCALING: Mapping[int, tuple[PaperFigures, PaperFigures]] = {
    1: (figures("1,240", "1,580"), figures("100", "100")),
    2: (figures("2,310", "3,040"), figures("93.1", "96.2")),
    4: (figures("4,250", "5,980"), figures("85.7", "94.6")),
}
"""Table IV: GPUs → throughput in img/s, efficiency in %."""

PHASES = {"early": "35", "gradient": "28", "memory": "22", "communication": "15"}
"""Error analysis: shares of the gain in %, by the keys of a comparison's ``four``."""

FASTER_ATTENTION = figures(percent="−25", of="mixed precision alone")
LESS_MEMORY = figures(percent="−32", of="checkpointing alone")
SHARE_OF_PRECISION = figures(other="28", of="CNN")

NET_SPEED_UP = "1.27 (1.42 / 1.12)"
SPEED_UP_WITHOUT_RECOMPUTATION = "1.42"
RECOMPUTATION = "12"
GAIN_PER_CYCLE, MORE_CAUTIOUS_GAIN = 1.26, 1.20  # factors in 5 months, as the paper takes them
DOUBLING, CAUTIOUS_DOUBLING = "14.8", "19"
MONTHS = 5.0  # over which the paper counts its gain
