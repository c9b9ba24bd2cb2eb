"""Stable-Baselines3: ``agent.learn(…, callback=PhasewattCallback())``."""

from __future__ import annotations

from typing import Any

from .frameworks import imported
from .guard import guarded
from .training_run import TrainingRun

callbacks = imported("stable-baselines3", "2.0", "stable_baselines3.common.callbacks")

_OF_THIS_RUN = {"num_timesteps", "start_time"}  # of an agent's attributes; they are no settings


_BaseCallback: Any = callbacks.BaseCallback


class PhasewattCallback(_BaseCallback):  # type: ignore[misc]
    """Records each ``learn()`` as a run, or as part of the run that is active.

    The agent's logger gets ``phasewatt/energy_j``, ``phasewatt/watts`` and
    ``phasewatt/share/<phase>`` after every rollout, where a meter measures. A rollout's forwards
    are ``inference``. The run gets the agent's settings as its config.

    Args:
        options: those of :class:`probe.watch`, by name: ``PhasewattCallback(name="ppo")``.

    Raises:
        UsageError: an option cannot be used.
    """

    def __init__(self, **options: Any):
        super().__init__()
        self._training = TrainingRun(options)

    @guarded
    def _on_training_start(self) -> None:
        self._training.begin(self.model, config=_config(self.model))

    def _on_step(self) -> bool:
        return True  # anything else would end the training

    @guarded
    def _on_rollout_end(self) -> None:
        for key, value in self._training.numbers().items():
            self.logger.record(key, value)

    @guarded
    def _on_training_end(self) -> None:
        self._training.end()


def _config(agent: Any) -> dict[str, Any]:
    """The settings of an agent: its attributes that are numbers or texts."""
    settings = {
        name: value
        for name, value in vars(agent).items()
        if not name.startswith("_")
        and name not in _OF_THIS_RUN
        and isinstance(value, (bool, int, float, str))
    }
    return {"trainer": {"algorithm": type(agent).__name__, **settings}}
