"""Every training of a search in Optuna's storage, from the moment it begins.

Two studies: the one that suggests, whose trials have the knobs as parameters, and one of what is
trained again and of the proof. A search that is killed goes on from them; several hosts may use the
same ones. What a trial does not hold by Optuna's own means is one attribute, ``training``.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial

from ..errors import UsageError
from .knobs import Knob, own_parameters
from .outcome import Cost, Outcome, Part, Settings, State, Training
from .plan import BeginProof

JOURNAL = "journal.log"
_TRIES, _AGAIN_S = 5, 0.5
_TRAINING, _PROOF, _SEARCH = "training", "proof", "search"
_FIXED = "fixed_params"  # where Optuna keeps what a trial has to suggest


def open_storage(folder: Path, url: str | None) -> optuna.storages.BaseStorage:
    """The storage of a search: a file in its folder, or where ``url`` says.

    Raises:
        UsageError: it cannot be opened.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if url is None:
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        return JournalStorage(JournalFileBackend(str(folder / JOURNAL)))
    for left in reversed(range(_TRIES)):
        try:
            return optuna.storages.RDBStorage(url)
        except Exception as error:
            # Two hosts that begin at once both make the tables, and one of them fails.
            if left and type(error).__name__ in ("IntegrityError", "OperationalError"):
                time.sleep(_AGAIN_S)
                continue
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise UsageError(f"--storage {url!r} cannot be opened: {reason}") from None
    raise AssertionError("the last try returns or raises")


class Store:
    """The trainings of one search."""

    def __init__(
        self,
        storage: optuna.storages.BaseStorage,
        knobs: Sequence[Knob],
        *,
        name: str = "search",
        sampler_seed: int | None = None,
    ):
        """Open the search's two studies, or begin them."""
        self._knobs = knobs
        self._ended: dict[tuple[str, int], Training] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna says of each of these options that it is new
            self._sampler = optuna.samplers.TPESampler(
                multivariate=True, group=True, constant_liar=True, seed=sampler_seed
            )
        self._random = optuna.samplers.RandomSampler(seed=sampler_seed)
        self._studies = {
            part: optuna.create_study(
                storage=storage, study_name=f"{name} {part}", load_if_exists=True
            )
            for part in (Part.SEARCH, Part.AGAIN)
        }

    def settings(self) -> Mapping[str, Any] | None:
        """What was asked when the search began; None if it begins now."""
        stored = self._studies[Part.SEARCH].user_attrs.get(_SEARCH)
        return dict(stored) if isinstance(stored, dict) else None

    def keep_settings(self, settings: Mapping[str, Any]) -> None:
        """Remember what is asked."""
        self._studies[Part.SEARCH].set_user_attr(_SEARCH, dict(settings))

    def proof(self) -> BeginProof | None:
        """The proof, once its champion is chosen."""
        stored = self._studies[Part.AGAIN].user_attrs.get(_PROOF)
        return None if stored is None else BeginProof(stored["settings"], stored["pairs"])

    def keep_proof(self, proof: BeginProof) -> None:
        """Choose the champion, unless another host has."""
        if self.proof() is None:
            chosen = {"settings": dict(proof.settings), "pairs": proof.pairs}
            self._studies[Part.AGAIN].set_user_attr(_PROOF, chosen)

    def trainings(self) -> list[Training]:
        """All of them, in the order in which they began."""
        trainings = [
            training
            for study in self._studies.values()
            for trial in study.get_trials(deepcopy=False)
            if (training := self._training(study.study_name, trial)) is not None
        ]
        return sorted(trainings, key=lambda each: (each.started, each.part, each.number))

    def _training(self, study: str, trial: FrozenTrial) -> Training | None:
        """What a trial holds; one that has ended is read once."""
        key = study, trial.number
        if key in self._ended:
            return self._ended[key]
        training = _read(trial)
        if training is not None and training.outcome is not None:
            self._ended[key] = training
        return training

    def suggest(self, *, own: bool, random: bool = False) -> tuple[int, Settings]:
        """A number and settings: what the sampler suggests, the script's own, or any."""
        study = self._studies[Part.SEARCH]
        study.sampler = self._random if random else self._sampler
        trial = self._own_trial(study) if own else study.ask()
        return trial.number, {knob.name: knob.suggest(trial) for knob in self._knobs}

    def _own_trial(self, study: optuna.Study) -> optuna.Trial:
        """A trial that suggests the script's own setting.

        It is running from the start. With `enqueue_trial` two hosts may both find it waiting and
        begin it, in a database without row locks, as SQLite.
        """
        fixed = {_FIXED: own_parameters(self._knobs)}
        template = create_trial(state=TrialState.RUNNING, system_attrs=fixed)
        return optuna.Trial(study, study._storage.create_new_trial(study._study_id, template))

    def number(self) -> int:
        """A number for a training that the sampler has not suggested."""
        return int(self._studies[Part.AGAIN].ask().number)

    def keep(self, training: Training) -> None:
        """Keep a training as it stands. Where it has ended, the sampler learns what it suggested.

        One without a value counts as worse than all that have one.
        """
        study = self._studies[Part.SEARCH if training.part is Part.SEARCH else Part.AGAIN]
        trial_id = study._storage.get_trial_id_from_study_id_trial_number(
            study._study_id, training.number
        )
        study._storage.set_trial_user_attr(trial_id, _TRAINING, _as_json(training))
        outcome = training.outcome
        if outcome is None:
            return
        state = TrialState.PRUNED
        if outcome.state is State.INTERRUPTED:
            state = TrialState.FAIL
        elif outcome.value is not None:
            state = TrialState.COMPLETE
        value = outcome.value if state is TrialState.COMPLETE else None
        study.tell(training.number, value, state, skip_if_finished=True)


def _as_json(training: Training) -> dict[str, Any]:
    outcome = training.outcome
    return {
        "part": str(training.part),
        "settings": dict(training.settings),
        "seed": training.seed,
        "host": training.host,
        "started": training.started,
        "limit": _cost_json(training.limit),
        "block": training.block,
        "place": training.place,
        "outcome": None
        if outcome is None
        else {
            "state": str(outcome.state),
            "cost": _cost_json(outcome.cost),
            "value": outcome.value,
            "at_least": outcome.at_least,
            "run": outcome.run,
            "why": outcome.why,
        },
    }


def _cost_json(cost: Cost) -> dict[str, float | None]:
    """Infinite limits are None, for JSON has no infinity."""
    finite = math.isfinite(cost.seconds)
    joules = cost.joules if cost.joules is not None and math.isfinite(cost.joules) else None
    return {"seconds": cost.seconds if finite else None, "joules": joules}


def _cost(stored: Mapping[str, Any]) -> Cost:
    seconds = stored["seconds"]
    return Cost(math.inf if seconds is None else seconds, stored["joules"])


def _read(trial: FrozenTrial) -> Training | None:
    stored = trial.user_attrs.get(_TRAINING)
    if stored is None:
        return None
    ended = stored["outcome"]
    outcome = None
    if ended is not None:
        outcome = Outcome(
            State(ended["state"]),
            _cost(ended["cost"]),
            ended["value"],
            ended["at_least"],
            ended["run"],
            ended["why"],
        )
    return Training(
        Part(stored["part"]),
        trial.number,
        stored["settings"],
        stored["seed"],
        stored["host"],
        stored["started"],
        _cost(stored["limit"]),
        stored["block"],
        stored["place"],
        outcome,
    )
