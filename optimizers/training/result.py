"""How a training ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class Result:
    """How a training ended. ``to_target`` is (samples, seconds) where the target was crossed.

    ``seconds`` are all of the training, ``train_seconds`` those of its steps: without evaluations
    and snapshots.
    """

    steps: int
    samples: int
    seconds: float
    reached: bool
    metrics: dict[str, float]
    losses: list[float]
    run: Path | None
    to_target: tuple[float, float] | None = None
    ended: str = "samples"
    mfu: float | None = None  # of all ranks' peak; None: not counted, or no peak known
    peak: str = ""  # where the peak comes from: data sheet or measurement
    mfu_reason: str = ""  # why there is no MFU
    train_seconds: float = 0.0

    def __str__(self) -> str:
        """One line."""
        speed = self.samples / self.train_seconds if self.train_seconds else 0.0
        metrics = "".join(f", {name} {value:.4g}" for name, value in self.metrics.items())
        line = (
            f"{self.steps} steps, {self.samples:,} samples in {self.seconds:.1f} s "
            f"({speed:.0f} per s of its steps){metrics}"
        )
        if self.mfu is not None:
            line += f"; MFU {self.mfu:.1%} of {self.peak}"
        elif self.mfu_reason:
            line += f"; MFU not stated: {self.mfu_reason}"
        if self.to_target is not None:
            samples, seconds = self.to_target
            line += f"; target reached after {samples:,.0f} samples, {seconds:.1f} s"
        return line
