"""Limits of ``probe compare --fail-if``: exceeded, kept, or no evidence."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from probe.cli.main import main
from probe.compare.fail_if import Outcome, judged, limit_of
from probe.compare.gain import EnergyGain
from probe.compare.model import Comparison
from probe.errors import UsageError
from tests.contract.test_comparisons import comparison_of


def with_gain(gain: float, low: float | None, high: float | None) -> Comparison:
    """A comparison whose energy, 100 J before, falls by so much."""
    energy = EnergyGain(gain=gain, interval=(low, high), base=100.0, other=100.0 - gain)
    return replace(comparison_of().comparisons[0], energy_j=energy)


@pytest.mark.parametrize(
    ("gain", "low", "high", "outcome"),
    [
        (-5.0, -6.0, -4.0, Outcome.EXCEEDED),
        (-5.0, -6.0, -3.0, Outcome.NO_EVIDENCE),  # 3 % is not more than 3 %
        (-5.0, -9.0, 1.0, Outcome.NO_EVIDENCE),
        (-2.0, -3.0, -1.0, Outcome.KEPT),
        (5.0, 4.0, 6.0, Outcome.KEPT),
        (-5.0, None, -4.0, Outcome.EXCEEDED),  # rises by 4 % or more
        (-5.0, -6.0, None, Outcome.NO_EVIDENCE),
        (5.0, None, 6.0, Outcome.NO_EVIDENCE),
    ],
)
def test_the_whole_interval_decides(
    gain: float, low: float | None, high: float | None, outcome: Outcome
) -> None:
    judgement = judged(limit_of("energy > +3 %"), with_gain(gain, low, high))
    assert judgement.outcome is outcome
    assert judgement.rise == -gain and outcome in judgement.line()


def test_what_cannot_be_known_is_no_evidence_with_the_reason() -> None:
    unmeasured = comparison_of(kind="no meter").comparisons[0]
    judgement = judged(limit_of("energy > 0 %"), unmeasured)
    assert judgement.outcome is Outcome.NO_EVIDENCE and "not known" in judgement.line()
    modelled = comparison_of(kind="modelled").comparisons[0]
    judgement = judged(limit_of("energy > -99 %"), modelled)
    assert judgement.outcome is Outcome.NO_EVIDENCE and "modelled" in judgement.line()
    unlike = replace(
        with_gain(-50, -51, -49), comparable=False, reason="not comparable: devices differ"
    )
    judgement = judged(limit_of("energy > 0 %"), unlike)
    assert judgement.outcome is Outcome.NO_EVIDENCE and "devices differ" in judgement.line()


def test_quantities_are_those_of_the_comparison() -> None:
    comparison = comparison_of().comparisons[0]
    for text, gain, base in (
        ("time > 1%", comparison.time_s.gain, comparison.time_s.base),
        ("memory > 1 %", comparison.memory_bytes.gain, comparison.memory_bytes.base),
        ("energy/sample>1 %", comparison.per_sample.gain_j, comparison.per_sample.base.energy_j),
        (
            f"{comparison.phases[0].phase} time > -2.5 %",
            comparison.phases[0].gain_s,
            comparison.phases[0].base.time_s,
        ),
    ):
        rise = judged(limit_of(text), comparison).rise
        if gain is None or not base:
            assert rise is None, text
        else:
            assert rise == pytest.approx(-100 * gain / base), text


@pytest.mark.parametrize(
    "text", ["", "energy", "energy > 3", "energy > 3 J", "energy < 3 %", "watts > 3 %", "> 3 %"]
)
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--fail-if"):
        limit_of(text)


def test_a_phase_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"no phase 'colour': there are .*forward"):
        judged(limit_of("colour energy > 3 %"), comparison_of().comparisons[0])


def test_exit_codes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def code(*words: str) -> int:
        with pytest.raises(SystemExit) as end:
            main(["compare", "a", "b", *words])
        return int(end.value.code or 0)

    report = replace(comparison_of(), comparisons=[with_gain(-5.0, -6.0, -4.0)])
    monkeypatch.setattr("probe.compare.compare", lambda *_, **__: report)
    monkeypatch.setattr("probe.store.runs.find_side", lambda *_: [])
    assert code("--fail-if", "energy > 3 %") == 3
    assert re.search(r"exceeded: \+5 %, 95 % interval \+4 … \+6 %", capsys.readouterr().err)
    assert code("--fail-if", "energy > 7 %", "--format", "json") == 0
    assert code("--fail-if", "energy > 5 %") == 0
    assert code("--fail-if", "energy > 5 %", "--strict") == 3
    assert code("--fail-if", "energy > 7 %", "--fail-if", "energy > 3 %") == 3
    assert code("--strict") == 1
