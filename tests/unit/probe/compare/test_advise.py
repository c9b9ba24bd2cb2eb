from __future__ import annotations

from probe.cli.commands.advise import advice
from probe.compare.advise import Advice, of_report
from probe.model import Provenance
from probe.report.model import PhaseRow, RateRow, Report
from tests.fakes.reports import phase_row, rate_row, report_of_rows


def row(
    phase: str,
    seconds: float,
    joules: float | None,
    *,
    device: str = "gpu0",
    bounds_j: tuple[float, float] | None = None,
    provenance: Provenance = Provenance.ESTIMATED,
) -> PhaseRow:
    return phase_row(
        phase, joules, device=device, time_s=seconds, bounds_j=bounds_j, provenance=provenance
    )


def report(
    *rows: PhaseRow, joules: float | None = 1000.0, rates: tuple[RateRow, ...] = ()
) -> Report:
    return report_of_rows(*rows, energy_j=joules, rates=rates)


def test_most_joules_first_and_never_more_than_was_used() -> None:
    advised = of_report(
        report(
            row("data", 3.0, 200.0),
            row("communication", 1.0, 300.0),
            row("forward", 5.0, 400.0),
            row("eval", 1.0, None, bounds_j=(10.0, 90.0)),
            row("other", 0.01, 1.0),
        )
    )
    savings = [(each.what, each.at_most_j, each.at_most_s) for each in advised.advice]
    assert [what for what, _, _ in savings] == ["exposed communication", "data wait", "evaluation"]
    assert savings[0][1] == 330.0000000000001 or abs(savings[0][1] - 330.0) < 1e-9
    assert savings[2][1] == 90.0  # refused: what it can have used at most
    assert "1. exposed communication: at most 330 J and 1.00 s (33.0 % of the run)" in advice(
        advised
    )


def test_a_bound_is_no_more_than_all() -> None:
    (advice,) = of_report(report(row("data", 9.0, 990.0))).advice
    assert advice.at_most_j == 1000.0


def test_two_cards_wait_at_the_same_time() -> None:
    rows = (row("data", 3.0, 100.0), row("data", 2.9, 90.0, device="gpu1"))
    (advice,) = of_report(report(*rows)).advice
    assert (advice.at_most_s, round(advice.at_most_j)) == (3.0, 209)


def test_memory_left_over_makes_room_for_more() -> None:
    rows = (row("recompute", 2.0, 150.0), row("optimizer", 1.0, 80.0))
    assert of_report(report(*rows)).advice == ()
    advised = of_report(report(*rows), 20e9, 80e9).advice
    assert [each.what for each in advised] == ["recomputation", "what every step costs"]
    assert advised[0].memory_bytes == 80e9
    assert "18.6 of 74.5 GiB used" in advice(of_report(report(*rows), 20e9, 80e9))
    assert of_report(report(*rows), 70e9, 80e9).advice == ()


def test_without_a_meter_time_ranks() -> None:
    modelled = {"provenance": Provenance.MODELLED}
    advised = of_report(
        report(row("data", 1.0, 9.0, **modelled), row("eval", 2.0, 1.0, **modelled), joules=None)
    )
    assert advised.ranked_by == "time"
    assert [(each.what, each.at_most_j) for each in advised.advice] == [
        ("evaluation", None),
        ("data wait", None),
    ]
    assert "J" not in advice(advised).replace("JSON", "")


def test_a_power_cap_is_named_and_not_bounded() -> None:
    def capped(share: float) -> Advice:
        forward = row("forward", 8.0, 900.0)
        return of_report(
            report(forward, rates=(rate_row("power_cap_time", "forward", 8.0, share),))
        )

    (tip,) = capped(0.6).advice
    assert (tip.what, tip.at_most_j, round(tip.share, 2)) == ("power cap", None, 0.6)
    assert "reached for 60 % of the time" in advice(capped(0.6))
    assert "nothing that this run spent" in advice(capped(0.01))
