"""What is trained next, from what was trained so far. Pure: a search goes on wherever it was ended.

First the script's own setting, then what the sampler suggests, then the best again on further
seeds, so that no lucky run wins; at last the champion against the script's own setting on seeds
that nothing was chosen by.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UsageError
from .budget import Budget
from .measured import Configuration, configurations, default_of, highest_value, ranked
from .outcome import NOTHING, Cost, Limits, Part, Settings, State, Training, is_own, key_of

PROOF_SHARE = 0.3  # of the budget, kept for the proof where it can use so much
FEWEST_PAIRS, MOST_PAIRS = 3, 8
ROUNDS = ((12, 2), (6, 3), (4, 6), (3, 8))  # (how many of the best, trainings of each)
MOST_REPEATED = 3  # trainings of the same settings while the sampler still suggests
NOTHING_NEW = 50  # suggestions in a row that are known already
_AGAIN_SHARE = 0.3  # of what the search may use, for the rounds
_HUNG, _START_S = 3.0, 10.0  # times the slowest of default and champion, beside a start
_STOP_S = 10.0  # to end one that hangs, and to read what it left
_SAFE = 1.15  # a training may take so much more than those before
_LOST_S = 60.0  # beyond its limit, of a training on another host


@dataclass(frozen=True, slots=True)
class Suggest:
    """Train the script's own setting, or what the sampler suggests; ``random``: anything."""

    own: bool
    limits: Limits
    random: bool = False


@dataclass(frozen=True, slots=True)
class Train:
    """Train these settings."""

    part: Part
    settings: Settings
    seed: int
    limits: Limits
    block: int | None = None


@dataclass(frozen=True, slots=True)
class BeginProof:
    """The champion is chosen; so many pairs will prove it."""

    settings: Settings
    pairs: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Another host is at what has to come first."""


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing is left to do."""


Step = Suggest | Train | BeginProof | Wait | Finished


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a decision rests on.

    ``space``: how many configurations there are; ``proof``: once it has begun; ``host``: who asks,
    at ``now``, in seconds since 1970. ``ending_s``: of the seconds that a training may take, those
    that are kept to end it and to read what it left.
    """

    trainings: Sequence[Training]
    budget: Budget
    space: float
    host: str
    now: float
    proof: BeginProof | None = None
    ending_s: float = 0.0

    def left(self) -> Budget:
        """Of the budget."""
        spent = NOTHING
        for training in self.trainings:
            spent = spent.plus(training.charged)
        return self.budget.minus(spent)

    def fits(self, left: Budget, cost: Cost) -> bool:
        """Whether trainings of that cost, and their end, fit in what is left of the budget."""
        return left.minus(Cost(self.ending_s)).covers(cost, _SAFE)

    def running(self) -> bool:
        """Whether another training goes on, on another host."""
        return any(t.outcome is None and not _is_lost(t, self) for t in self.trainings)


def next_step(situation: Situation) -> Step:
    """What this host does next. Raises UsageError if the search cannot go on."""
    tried = configurations(situation.trainings)
    default = default_of(tried)
    if default is None or not default.values:
        return _first(situation, default)
    if situation.proof is not None:
        return _proof(situation, situation.proof, tried, default)
    kept = _kept_for_proof(situation, default)
    left = situation.left().minus(kept)
    limits = _limits(left, default, tried)
    if not _in_rounds(situation) and not _exhausted(situation, tried):
        rounds = situation.budget.minus(kept).times(_AGAIN_SHARE)
        if len(tried) < 2:  # one other than the default, however small the budget is
            rounds = Budget(0.0, 0.0)
        exploring = left.minus(Cost(_finite(rounds.seconds), _finite(rounds.joules)))
        if situation.fits(exploring, _best(tried, default).cost):
            return Suggest(False, limits, random=_nothing_new(situation, NOTHING_NEW // 5))
    if (step := _again(situation, tried, left, limits)) is not None:
        return step
    if situation.running():
        return Wait()
    return _begin_proof(situation, tried, default)


def _first(situation: Situation, default: Configuration | None) -> Step:
    if situation.running():
        return Wait()
    own = [t for t in situation.trainings if is_own(t.settings)]
    if default is not None and default.failures:
        raise UsageError(
            f"the script's own setting is what others are held against: {default.why} "
            f"(its log: {own[-1].place}/log.txt in the search's folder)"
        )
    left = situation.left()
    if any(_was_short(training, left) for training in own):
        raise UsageError(
            f"the budget of {situation.budget} is too small for two trials: it ended before the "
            "script's own setting was trained once"
        )
    return Suggest(True, Limits(Cost(left.seconds, left.joules)))


def _was_short(training: Training, left: Budget) -> bool:
    """Whether the budget ended a training, and has no more for it now."""
    outcome = training.outcome
    if outcome is None or outcome.state is not State.OUT_OF_BUDGET:
        return False
    return not left.covers(outcome.cost)


def _kept_for_proof(situation: Situation, default: Configuration) -> Cost:
    """What the proof needs of the budget. Raises UsageError if too little else is left."""
    fewest, most = (2.0 * pairs * _SAFE for pairs in (FEWEST_PAIRS, MOST_PAIRS))  # trainings
    share, cost = situation.budget.times(PROOF_SHARE), default.cost
    trained = sum(t.part is not Part.PROOF for t in situation.trainings)
    ending = Cost(situation.ending_s)
    if trained == 1 and not situation.left().minus(ending).covers(cost, fewest + _SAFE):
        of_training = Budget(cost.seconds, cost.joules or math.inf)
        enough = of_training.times(fewest + 2.5)
        enough = Budget(enough.seconds + ending.seconds, enough.joules)
        raise UsageError(
            f"the budget of {situation.budget} is too small for two trials and their proof: one "
            f"training took {of_training}; give at least {enough}"
        )
    joules = cost.joules or 0.0
    return Cost(
        max(
            min(_finite(share.seconds), most * cost.seconds + ending.seconds),
            fewest * cost.seconds + ending.seconds,
        ),
        max(min(_finite(share.joules), most * joules), fewest * joules),
    )


def _finite(amount: float) -> float:
    """What is kept of a budget that is not limited: nothing."""
    return amount if math.isfinite(amount) else 0.0


def _limits(left: Budget, default: Configuration, tried: Sequence[Configuration]) -> Limits:
    costs = (default.cost, _best(tried, default).cost)
    hung_s = _HUNG * max(cost.seconds for cost in costs) + _START_S
    joules = _HUNG * max(cost.joules or math.inf for cost in costs)
    most = Cost(min(left.seconds, hung_s + _STOP_S), min(left.joules, joules))
    return Limits(most, hung_s, highest_value(tried))


def _best(tried: Sequence[Configuration], default: Configuration) -> Configuration:
    return next(iter(ranked(tried)), default)


def _in_rounds(situation: Situation) -> bool:
    return any(training.part is Part.AGAIN for training in situation.trainings)


def _exhausted(situation: Situation, tried: Sequence[Configuration]) -> bool:
    """Whether there is nothing new to suggest."""
    return len(tried) >= situation.space or _nothing_new(situation, NOTHING_NEW)


def _nothing_new(situation: Situation, suggestions: int) -> bool:
    """Whether the last so many suggestions were known, or cannot be trained."""
    lately = [t.outcome for t in situation.trainings if t.part is Part.SEARCH][-suggestions:]
    stale = [o for o in lately if o is not None and o.state in (State.KNOWN, State.REFUSED)]
    return len(stale) == suggestions


def _again(
    situation: Situation, tried: Sequence[Configuration], left: Budget, limits: Limits
) -> Step | None:
    """The next training of the rounds; None when they are over, or the money is."""
    fewest = 1
    for most, times in ROUNDS:
        for each in ranked(tried, fewest)[:most]:
            if each.seeds < times:
                if not situation.fits(left, each.cost):
                    return None
                return Train(
                    Part.AGAIN, each.settings, each.seeds, Limits(limits.cost, limits.hung_s)
                )
        fewest = times
    return None


def champion(tried: Sequence[Configuration]) -> Configuration:
    """The best of those that were trained about as often as any: few runs make lucky means."""
    often = max(len(each.values) for each in tried if each.is_sound)
    return ranked(tried, math.ceil(often / 2))[0]


def _begin_proof(
    situation: Situation, tried: Sequence[Configuration], default: Configuration
) -> Step:
    if not default.is_sound:
        return Finished()
    best = champion(tried)
    if best is default:
        return Finished()
    pair = default.cost.plus(best.cost)
    left = situation.left().minus(Cost(situation.ending_s))
    pairs = math.floor(min(left.trainings(pair) / _SAFE, MOST_PAIRS))
    return BeginProof(best.settings, pairs) if pairs >= FEWEST_PAIRS else Finished()


def _proof(
    situation: Situation, proof: BeginProof, tried: Sequence[Configuration], default: Configuration
) -> Step:
    """The next training of the proof. Both sides of a pair are trained by the same host."""
    done = [t for t in situation.trainings if t.part is Part.PROOF]
    sides = (default.settings, proof.settings)
    left = situation.left()
    limits = _limits(left, default, tried)
    limits = Limits(limits.cost, limits.hung_s)
    expected = _expected(tried, sides)
    for block in range(proof.pairs):
        # Each side is first in half of the pairs.
        order = sides if block % 2 == 0 else sides[::-1]
        theirs = [t for t in done if t.block == block and not _is_lost(t, situation)]
        for settings in order:
            same = [t for t in theirs if key_of(t.settings) == key_of(settings)]
            if any(t.outcome is not None for t in same):
                continue
            if same or any(t.host != situation.host for t in theirs):
                break  # another host is at it
            needed = expected if not theirs else _expected(tried, (settings,))
            if not situation.fits(left, needed):
                return Wait() if situation.running() else Finished()
            return Train(Part.PROOF, settings, block, limits, block)
    return Wait() if situation.running() else Finished()


def _expected(tried: Sequence[Configuration], sides: Sequence[Settings]) -> Cost:
    total = NOTHING
    for settings in sides:
        total = total.plus(next(k.cost for k in tried if key_of(k.settings) == key_of(settings)))
    return total


def _is_lost(training: Training, situation: Situation) -> bool:
    """Whether its process is gone: it was interrupted, or is long beyond its limit."""
    if training.outcome is not None:
        return training.outcome.state is State.INTERRUPTED
    return situation.now - training.started > training.limit.seconds + _LOST_S
