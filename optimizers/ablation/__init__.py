"""Which technique made how much of the gain: train with and without, in fresh processes.

    result = optimizers.ablate(["schedule", "precision"],
                               ["python", "train.py", "--stack", "{stack}", "--seed", "{seed}"])

:mod:`design` says which stacks are trained and in which order, :mod:`runner` trains them,
:mod:`effects` compares the runs, :mod:`shapley` is the arithmetic of games.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from probe.report.model import JsonValue

from .design import DESIGNS, Design
from .effects import analyse
from .runner import Ablation


def ablate(
    techniques: Sequence[str],
    command: Sequence[str],
    *,
    design: str = "cumulative",
    blocks: int = 3,
    dir: str | Path = "runs/ablation",  # noqa: A002
    seed: int = 0,
    say: Callable[[str], None] = print,
) -> dict[str, JsonValue]:
    """Run or continue an ablation and return its result, the JSON of ``probe ablate``.

    Every block trains each stack once with the block's number as its seed, in random order, and
    the baseline twice: if doing nothing makes a difference, the ablation is unsound.

    Args:
        techniques: names, with options where wanted (``precision(dtype=fp16)``), in the order in
            which a cumulative design adds them.
        command: words; ``{stack}`` and ``{seed}`` are filled in. It must be watched.
        design: ``cumulative``, ``leave-one-out`` or ``shapley``.
        dir: folder of the trials; the same call with the same folder continues there.
        blocks: seed blocks; each trains every stack once.
        seed: of the random order of trials.
        say: called with a line of progress before each trial.

    Raises:
        UsageError: something that cannot be run; one line says why.
        TrialFailed: a trial ended badly; finished trials are kept.
    """
    ablation = Ablation(Path(dir), Design.of(design, techniques, blocks, seed), command)
    ablation.run(say)
    return analyse(ablation).to_dict()


__all__ = ["DESIGNS", "Ablation", "Design", "ablate", "analyse"]
