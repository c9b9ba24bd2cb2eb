"""Simulated comparisons with known truth: trials as a store would give them, from nothing.

A run trains on S samples until its target (CV 8 %), draws power with a CV of 2 % from run to run
while the machine warms up over the campaign, and its phases are told apart with errors that the
product's own estimator made on simulated traces (:func:`estimator_errors`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from probe.attribution.accumulator import Accumulator
from probe.attribution.estimate import estimate
from probe.attribution.response.response import Response
from probe.attribution.spans import Spans
from probe.compare.run_record import EARLY, LATE, Joint, Stage, Trial, Use
from probe.model import Status

from .power_traces import STEPS, Counter, make_trace, scheduled_reads

PHASES = ("data", "forward", "backward", "optimizer")
# Seconds and watts per sample of each phase; a step of 32 samples takes 60 ms.
SECONDS = dict(zip(PHASES, (0.19e-3, 0.53e-3, 0.97e-3, 0.16e-3), strict=True))
WATTS = dict(zip(PHASES, (120.0, 430.0, 500.0, 330.0), strict=True))
SAMPLES = 60_000
START_S, START_W = 8.0, 90.0
EVAL_EVERY, EVAL_S, EVAL_W = 10_000, 1.5, 300.0
BOUND = {"forward": 0.35, "backward": 0.3, "optimizer": 1.0}

SAMPLES_CV, POWER_CV, TIME_CV, DRIFT = 0.08, 0.02, 0.005, 0.03


@dataclass(frozen=True, slots=True)
class Technique:
    """What it does to the truth: factors on samples needed and on a sample's seconds."""

    samples: float = 1.0
    seconds: float = 1.0
    bound: float = 0.0  # moves spans to memory-bound, by that much


@functools.cache
def estimator_errors(traces: int = 40) -> tuple[tuple[tuple[float, ...], tuple[bool, ...]], ...]:
    """(relative error of each phase's joules, whether it was stated), one per simulated run."""
    trials = []
    for seed in range(traces):
        rng = np.random.default_rng([7, seed])
        trace = make_trace(STEPS["60 ms"], 60.0, rng)
        at, value = Counter().updates(trace, rng)
        reads = scheduled_reads(at, value, float(trace.edges_s[-1]), rng)
        accumulator = Accumulator(Response.of(0.0, 0.008))
        accumulator.feed_spans(Spans(trace.span_s[:-1], trace.span_s[1:], trace.code))
        accumulator.feed_reads(reads.time_s, reads.span_s, reads.joules)
        statistics = accumulator.finish()
        inside = np.diff(np.clip(trace.span_s, statistics.begin_s, statistics.end_s))
        phases = range(len(trace.names))
        lengths = {j: float(inside[trace.code == j].sum()) for j in phases}
        truth = trace.truth(statistics.begin_s, statistics.end_s)
        total = statistics.mixed_j + float(statistics.direct()[0].sum())
        estimated = estimate(statistics, total, lengths)
        assert estimated is not None
        place = [trace.names.index(name) for name in PHASES]
        trials.append(
            (
                tuple(float(estimated.of(j).energy_j / truth[j] - 1) for j in place),
                tuple(estimated.of(j).status is not Status.NOT_IDENTIFIABLE for j in place),
            )
        )
    return tuple(trials)


def expected_j(technique: Technique, *, equal_work: bool = False) -> float:
    """Mean joules of a run, warm-up over the campaign included."""
    samples = SAMPLES if equal_work else SAMPLES * technique.samples
    return (samples * _per_sample_j(technique) + START_S * START_W) * (1 + DRIFT / 2)


def expected_cost_j(technique: Technique) -> float:
    """Mean of the cost part of the gain over a base that has no technique."""
    samples = SAMPLES * (1 + technique.samples) / 2
    saved = _per_sample_j(Technique()) - _per_sample_j(technique)
    return saved * samples * (1 + DRIFT / 2)


def _per_sample_j(technique: Technique) -> float:
    steps = sum(SECONDS[phase] * WATTS[phase] for phase in PHASES)
    return technique.seconds * (steps + EVAL_S * EVAL_W / EVAL_EVERY)


def campaign(
    technique: Technique,
    blocks: int,
    rng: np.random.Generator,
    *,
    equal_work: bool = False,
    in_blocks: bool = True,
) -> tuple[list[Trial], list[Trial]]:
    """(base, other) runs, in random order inside each block."""
    sides: tuple[list[Trial], list[Trial]] = ([], [])
    errors = estimator_errors()
    for block in range(blocks):
        for turn, side in enumerate(rng.permutation(2)):
            warm = 1 + DRIFT * (2 * block + turn) / (2 * blocks - 1)
            what = technique if side else Technique()
            name = str(block) if in_blocks else None
            sides[side].append(
                _run(
                    what,
                    f"{'other' if side else 'base'}-{block}",
                    name,
                    warm,
                    errors,
                    rng,
                    equal_work,
                )
            )
    return sides


def _run(
    technique: Technique,
    id_: str,
    block: str | None,
    warm: float,
    errors: Sequence[tuple[tuple[float, ...], tuple[bool, ...]]],
    rng: np.random.Generator,
    equal_work: bool,
) -> Trial:
    spread = 0.0 if equal_work else SAMPLES_CV
    needed = SAMPLES * (1.0 if equal_work else technique.samples) * (1 + spread * rng.normal())
    early = needed / 3 * (1 + (0 if equal_work else 0.05) * rng.normal())
    power = warm * (1 + POWER_CV * rng.normal())
    pace = 1 + TIME_CV * rng.normal()
    stages = {}
    for stage, samples in ((EARLY, early), (LATE, needed - early)):
        wrong, stated = errors[rng.integers(len(errors))]
        uses, true_j = {}, []
        for phase in PHASES:
            seconds = samples * SECONDS[phase] * technique.seconds * pace
            true_j.append(seconds * WATTS[phase] * power)
            uses[phase] = seconds
        joules = np.array(true_j) * (1 + np.array(wrong))
        joules *= sum(true_j) / joules.sum()  # the counter tells the total
        phases = {
            p: Use(
                uses[p],
                float(j) if ok else None,
                Status.RESOLVED if ok else Status.NOT_IDENTIFIABLE,
            )
            for p, j, ok in zip(PHASES, joules, stated, strict=True)
        }
        refused = float(sum(j for j, ok in zip(joules, stated, strict=True) if not ok))
        evals = samples / EVAL_EVERY * EVAL_S * technique.seconds * pace
        phases["eval"] = Use(evals, evals * EVAL_W * power)
        if stage == EARLY:
            phases["unattributed"] = Use(START_S, START_S * START_W * power)
        stages[stage] = Stage(samples, phases, Joint(refused, 0.5 * refused, 1.5 * refused))
    return Trial(
        id=id_,
        stages=stages,
        block=block,
        reached=None if equal_work else True,
        quality=1.0,
        meters=frozenset({"GPU-1"}),
        bound_share={p: min(1.0, share + technique.bound) for p, share in BOUND.items()},
    )
