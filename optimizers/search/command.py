"""``probe search``."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probe.redact import HIDDEN, redact_command
from probe.store.files import read_json, write_json
from probe.store.layout import SEARCH_FILE, node_name
from probe.target import Target

from ..errors import UsageError
from ..trial_folder import alone
from .budget import Budget
from .command_line import CommandLine, placeholders
from .knobs import read_knobs
from .objective import KINDS, Objective

if TYPE_CHECKING:
    from .conclude import Asked
    from .result import SearchResult

_BEGIN = (
    "begin one with --knobs A,B --target 'loss<=2.5' --budget 3h -- python train.py --stack {stack}"
)


def search(options: argparse.Namespace) -> int:
    """Run or continue a search and print its result. Raises ProbeError."""
    folder = Path(options.dir or "runs/search")
    asked = _asked(options, folder)
    knobs = read_knobs(asked["knobs"], asked["knob"], placeholders(asked["words"]))
    command = CommandLine(asked["words"], knobs)
    command.check()
    target, budget = Target.of(asked["target"]), Budget.of(asked["budget"])
    objective = _objective(asked)
    if importlib.util.find_spec("optuna") is None:
        raise UsageError(
            "search needs Optuna, which is not installed: pip install 'phasewatt[search]'"
        )
    _check_meter(objective, budget)
    from .conclude import Asked
    from .text import render

    question = Asked(objective, target, budget, command, folder)
    _begin(folder, asked)
    result = _run(question, asked, options)
    as_json = result.to_dict()
    write_json(folder / "result.json", as_json)
    if options.format == "json":
        print(json.dumps(as_json, indent=1, allow_nan=False))
    else:
        print(render(result, objective))
    return 0


def _run(question: Asked, asked: Mapping[str, Any], options: argparse.Namespace) -> SearchResult:
    """Search until nothing is left to do. Raises ProbeError."""
    from optuna.exceptions import OptunaError

    from .conclude import conclude
    from .driver import Driver
    from .store import Store, open_storage
    from .trainings.processes import ProcessTrainings

    folder, knobs, host = question.folder, question.command.knobs, node_name()
    joules = question.objective.needs_meter or question.budget.needs_meter
    trainings = ProcessTrainings(
        folder, question.command, question.objective, question.target, needs_joules=joules
    )
    say = _quiet if options.quiet else _say
    try:
        with alone(folder, "search", host):
            storage = open_storage(folder, options.storage)
            store = Store(storage, knobs, name=folder.absolute().name)
            _check_same(store.settings(), asked, folder)
            store.keep_settings(_shown(asked))
            Driver(store, trainings, knobs, question.budget, host=host, say=say).run()
            return conclude(question, store.trainings(), store.proof(), trainings)
    except (OSError, OptunaError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UsageError(
            f"what is tried cannot be kept: {reason}; the same command goes on with it"
        ) from None


def _asked(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """What the command line asks, else what the folder's search was asked. Raises UsageError."""
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    if not words:
        stored = read_json(folder / SEARCH_FILE)
        if not _is_whole(stored):
            raise UsageError(f"there is no search in {folder} to go on with: {_BEGIN}")
        if any(HIDDEN in word for word in stored["words"]):
            raise UsageError(
                f"{folder} does not hold the secrets of its command: give the same words again to "
                "go on with it"
            )
        return {**stored, **({"budget": options.budget} if options.budget else {})}
    if not options.target:
        raise UsageError("say when a training is good enough: --target 'loss<=2.5'")
    if not options.budget:
        raise UsageError("say what the search may use: --budget 3h or --budget 3h,2kWh")
    return {
        "schema": 1,
        "knobs": options.knobs or "",
        "knob": options.knob,
        "objective": options.objective,
        "target": options.target,
        "budget": options.budget,
        "price": options.price,
        "hourly": options.hourly,
        "words": list(words),
    }


def _is_whole(stored: Any) -> bool:
    """Whether a folder's search was read, as this version writes it."""
    if not isinstance(stored, dict):
        return False
    lists, texts = ("knob", "words"), ("knobs", "objective", "target", "budget")
    return all(
        isinstance(stored.get(name), list) and all(isinstance(word, str) for word in stored[name])
        for name in lists
    ) and all(isinstance(stored.get(name), str) for name in texts)


def _objective(asked: Mapping[str, Any]) -> Objective:
    """Raises UsageError."""
    kind = asked["objective"]
    if kind not in KINDS:
        raise UsageError(f"--objective {kind!r}: choose from {', '.join(KINDS)}")
    if kind != "cost":
        return Objective(kind)
    from probe.analysis.carbon_and_price import Tariffs

    price = Tariffs.given(price=asked.get("price")).price
    hourly = asked.get("hourly") or 0.0
    if price is None and not hourly:
        raise UsageError(
            "--objective cost needs a price: --price '0.31 EUR' per kWh (PROBE_PRICE), "
            "--hourly 2.5 for the machine, or both"
        )
    if price is not None and len(price.value) > 1:
        raise UsageError(
            "--objective cost needs one price: by a price that changes, the hour would win"
        )
    if price is None:
        return Objective("cost", 0.0, hourly)
    return Objective("cost", float(price.value[0]), hourly, price.unit)


def _check_meter(objective: Objective, budget: Budget) -> None:
    """Raises UsageError where joules are asked for that nothing measures."""
    if not (objective.needs_meter or budget.needs_meter):
        return
    from probe.cli.commands.doctor import examine

    if any(source.in_total for finding in examine().sensors for source in finding.sources):
        return
    if objective.needs_meter:
        raise UsageError(
            f"objective {objective.kind} needs a meter: none here; use time "
            "(`probe doctor` says why)"
        )
    raise UsageError(
        "a budget of energy needs a meter: none here; give a time (`probe doctor` says why)"
    )


def _begin(folder: Path, asked: Mapping[str, Any]) -> None:
    """Make the folder, or see that it is this search's. Raises UsageError."""
    shown = _shown(asked)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stored = read_json(folder / SEARCH_FILE)
        if stored is not None:
            _check_same(stored, shown, folder)
        write_json(folder / SEARCH_FILE, shown)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from None


def _shown(asked: Mapping[str, Any]) -> dict[str, Any]:
    """As it is kept: without secrets."""
    return {**asked, "words": redact_command(asked["words"])}


def _check_same(stored: Any, asked: Mapping[str, Any], folder: Path) -> None:
    """Raises UsageError if another search was begun there; its budget may differ."""
    if stored is None:
        return
    if _without_budget(stored) != _without_budget(_shown(asked)):
        raise UsageError(
            f"{folder} holds another search: give another --dir, or the same words to go on with it"
        )


def _without_budget(asked: Any) -> Any:
    if not isinstance(asked, Mapping):
        return None
    return {name: value for name, value in asked.items() if name != "budget"}


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _quiet(line: str) -> None:
    """Says nothing."""


__all__: Sequence[str] = ["search"]
