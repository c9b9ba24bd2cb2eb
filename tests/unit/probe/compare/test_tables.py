"""The paper's tables on runs of known answers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from probe.compare.comparison import compare
from probe.compare.gain import percent_of
from probe.compare.groups import Campaign
from probe.compare.paper import text as render
from probe.compare.paper.ablation_steps import AblationStep, steps
from probe.compare.paper.model import PaperRow, PaperTable, PaperTables
from probe.compare.paper.tables import of_campaign
from probe.compare.run_record import EARLY, LATE, Held, Stage, Trial, Use
from probe.compare.sides import Question, Side
from probe.errors import UsageError


def run(block: int, seconds: float, joules: float, **more: Any) -> Trial:
    """A third early; a tenth of the time recomputes, a fifth attends."""
    stages = {}
    for stage, part in ((EARLY, 1 / 3), (LATE, 2 / 3)):
        shares = {
            "forward": 0.2,
            "forward/attention": 0.1,
            "backward": 0.5,
            "backward/attention": 0.1,
            "recompute": 0.1,
        }
        stages[stage] = Stage(
            part * 1000,
            {
                phase: Use(part * share * seconds, part * share * joules)
                for phase, share in shares.items()
            },
        )
    given: dict[str, Any] = {
        "quality": 2.0,
        "meters": frozenset({"u"}),
        "memory": {"peak": 400e6},
        "g_per_kwh": 360.0,
        "is_like": {"hardware": "H", "data": "D"},
        "settings": {"stack": "s", "lr": 0.1},
    }
    return Trial(id=f"{seconds}-{block}", block=str(block), stages=stages, **(given | more))


def campaign(other: list[Trial], base: list[Trial] | None = None) -> Campaign:
    base_runs = base or [run(i, 100.0 + (i - 1) / 10, 10_000.0 + 10 * (i - 1)) for i in range(3)]
    return Campaign(
        [Side("base", base_runs), Side("ours", other)], None, ("eval_loss", False), {}, []
    )


def rows(tables: PaperTables) -> dict[str, Any]:
    return {row.what: row for table in tables.tables for row in table.rows}


def table(tables: PaperTables, title: str) -> PaperTable:
    return next(each for each in tables.tables if title in f"Table {each.table}: {each.title}")


# 73.8 s of 100: the paper's −26.2 %.
BETTER = [
    run(i, 73.8 - (i - 1) / 10, 6_000.0 - 10 * (i - 1), memory={"peak": 300e6}) for i in range(3)
]


def test_nothing_saves_more_than_all_of_it() -> None:
    """With few runs that differ much the interval of a difference goes beyond the base."""
    few = [run(i, each, 6_000.0) for i, each in enumerate((2.0, 40.0))]
    tables = of_campaign(campaign(few))
    time = table(tables, "Table I:").rows[0]
    assert isinstance(time, PaperRow) and time.interval_percent and time.interval_change
    assert time.base is not None and time.interval_change[0] < -time.base
    assert time.interval_percent[0] == -100.0 and time.interval_percent[1] > 0
    assert percent_of(50.0, (-10.0, 60.0)) == (-20.0, 100.0)
    assert percent_of(50.0, (None, 25.0)) == (None, 50.0)
    assert percent_of(50.0, (5.0, None)) == (10.0, None)


def test_every_figure_is_what_it_must_be() -> None:
    tables = of_campaign(campaign(BETTER))
    by_name = rows(tables)
    assert [each.table for each in tables.tables][:4] == ["I", "II", "III", "IV"]  # nothing tells
    time = table(tables, "Table I:").rows[0]
    assert isinstance(time, PaperRow) and time.unit == "min"
    assert (time.base, time.other) == (pytest.approx(100 / 60), pytest.approx(73.8 / 60))
    assert time.percent == pytest.approx(-26.2, abs=0.05)
    # Blocks differ by −26, −26.2 and −26.4 s.
    differences = np.array([-26.0, -26.2, -26.4])
    half = stats.t.ppf(0.975, 2) * differences.std(ddof=1) / math.sqrt(3)
    assert time.interval_change == pytest.approx(((-26.2 - half) / 60, (-26.2 + half) / 60))
    assert time.interval_percent == pytest.approx((-26.2 - half, -26.2 + half))
    assert by_name["peak memory"].percent == pytest.approx(-25.0)
    assert by_name["peak memory"].base == pytest.approx(0.4)
    assert by_name["energy per sample"].base == pytest.approx(10.0)
    assert by_name["energy per sample"].other == pytest.approx(6.0)
    assert by_name["energy-delay product"].base == pytest.approx(10_000 * 100, rel=1e-4)
    assert by_name["CO2e"].base == pytest.approx(10_000 / 3.6e6 * 360)
    throughput = table(tables, "Table I:").rows[2]
    assert throughput.other == pytest.approx(1000 / 73.8, rel=1e-3)
    assert by_name["attention: time"].base == pytest.approx(1e3 * 0.2 * 100 / 1000)
    assert by_name["attention: energy"].other == pytest.approx(0.2 * 6000 / 1000, rel=1e-3)
    assert by_name["attention: time"].paper.percent.value == -25
    assert by_name["early training"].value == pytest.approx(100 / 3)


def test_speed_up_and_doubling_have_their_intervals() -> None:
    by_name = rows(of_campaign(campaign(BETTER)))
    net = by_name["net speed-up (21)"]
    assert net.value == pytest.approx(100 / 73.8) and net.interval[0] < net.value < net.interval[1]
    gross = by_name["without recomputation"]
    assert gross.value == pytest.approx(100 / 73.8 / 0.9)
    assert gross.interval[0] < gross.value < gross.interval[1]
    assert by_name["recomputation, of the rest"].value == pytest.approx(100 * 0.1 / 0.9)
    assert by_name["recomputation, of the rest"].paper == "12"
    assert by_name["after 3 cycles, 15 months (22)"].value == pytest.approx((100 / 73.8) ** 3)
    doubling = by_name["doubling time (22)(23)"]
    assert doubling.value == pytest.approx(5 * math.log(2) / math.log(100 / 73.8))
    assert doubling.interval[0] < doubling.value < doubling.interval[1]
    assert doubling.paper.startswith("14.8 (exactly 15.0")
    cautious = by_name["the same at 20 % a cycle"]
    assert cautious.value == pytest.approx(19.0, abs=0.02) and cautious.paper == "19"


def test_no_evidence_and_losses_have_intervals_too() -> None:
    same = [run(i, 100.0 + (1 - i) / 5, 10_000.0) for i in range(3)]
    by_name = rows(of_campaign(campaign([replace(t, id=t.id + "b") for t in same])))
    net, doubling = by_name["net speed-up (21)"], by_name["doubling time (22)(23)"]
    assert net.interval[0] < 1 < net.interval[1]
    assert doubling.interval[0] > 0 and doubling.interval[1] is None
    worse = [run(i, 120.0 + (1 - i) / 10, 12_000.0) for i in range(3)]
    by_name = rows(of_campaign(campaign(worse)))
    net, doubling = by_name["net speed-up (21)"], by_name["doubling time (22)(23)"]
    assert net.value == pytest.approx(100 / 120) and net.interval[1] < 1
    assert doubling.ours == "never" and doubling.interval == (None, None)


def test_one_run_a_side_says_why_it_has_no_interval() -> None:
    by_name = rows(of_campaign(campaign(BETTER[:1], [run(0, 100.0, 10_000.0)])))
    assert by_name["peak memory"].interval_change is None
    assert by_name["peak memory"].no_interval == "one run a side"
    assert by_name["net speed-up (21)"].no_interval == "one run a side"


def test_what_the_runs_lack_is_not_measured_and_never_the_papers() -> None:
    blind = [replace(t, energy=None, memory={}, quality=None, g_per_kwh=None) for t in BETTER]
    base = [replace(run(i, 100.0, 1.0), energy=None, memory={}, quality=None) for i in range(3)]
    tables = of_campaign(campaign(blind, base))
    by_name = rows(tables)
    for what in (
        "energy",
        "peak memory",
        "final accuracy",
        "final perplexity",
        "FLOPs utilisation",
        "energy per sample",
        "energy-delay product",
        "CO2e",
        "attention: energy",
        "attention: peak memory",
        "2 ranks: throughput",
        "+ mixed precision",
    ):
        row = by_name[what]
        assert row.ours == "not measured", what
        assert getattr(row, "other", None) is None and getattr(row, "time", None) is None, what
    assert by_name["communication-bound"].ours == "n/a: one rank"
    text = next(each for each in tables.tables if each.table == "II")
    assert text.rows[2].ours == "not measured"
    assert any("tokens_per_sample" in note for note in tables.notes)


def holding(seconds: float, block: int, quantity: str, **bytes_: tuple[float, float | None]) -> Any:
    """A run whose modules of a kind held so many bytes: (peak, added by one forward)."""
    return run(
        block,
        seconds,
        1.0,
        held={f"forward/{kind}": Held(quantity, *held) for kind, held in bytes_.items()}
        | {"backward/attention": Held(quantity, 2e9, -1e6)},
    )


def test_memory_by_kind_is_the_peak_then_and_what_one_forward_keeps() -> None:
    base = [holding(100.0 + i, i, "allocated", attention=(1.5e9 + i * 1e8, 64e6)) for i in range(2)]
    other = [holding(80.0 + i, i, "allocated", attention=(3e9 + i * 1e8, 16e6)) for i in range(2)]
    made = of_campaign(campaign(other, base))
    by_name = rows(made)
    assert [note.partition(" ")[0] for note in made.notes if "forward" in note] == ["kept:"]
    peak = by_name["attention: peak allocated"]
    assert peak.unit == "GB"
    assert (peak.base, peak.other) == (pytest.approx(2.0), pytest.approx(3.05))  # backward, forward
    kept = by_name["attention: kept by one forward"]
    assert kept.unit == "MB" and (kept.base, kept.other) == (pytest.approx(64), pytest.approx(16))
    assert kept.percent == pytest.approx(-75.0)
    base = [holding(100.0 + i, i, "resident", attention=(1e9, None)) for i in range(2)]
    by_name = rows(of_campaign(campaign(other, base)))  # one side's process, the other's GPU
    assert by_name["attention: peak memory"].ours == "not measured"
    other = [holding(80.0 + i, i, "resident", attention=(1e9, None)) for i in range(2)]
    by_name = rows(of_campaign(campaign(other, base)))
    assert by_name["attention: peak resident"].percent == pytest.approx(0.0)
    assert "attention: kept by one forward" not in by_name
    earlier = [replace(trial, held={}) for trial in base]  # recorded before memory by kind was
    made = of_campaign(campaign(other, earlier))
    peak = rows(made)["attention: peak resident"]
    assert (peak.base, peak.other, peak.ours) == (None, pytest.approx(2.0), "not measured")
    (line,) = [line for line in render.text(made).splitlines() if "attention: peak" in line]
    assert line.split()[-3:] == ["not", "measured", "2.00"]
    made = of_campaign(campaign([replace(trial, held={}) for trial in other], earlier))
    assert rows(made)["attention: peak memory"].ours == "not measured"
    assert not any("memory by kind" in note for note in made.notes)


def test_why_there_is_no_utilisation_is_said_once_for_all_runs_that_say_so() -> None:
    runs = [replace(run(i, 100.0 + i, 1.0), no_mfu="437% of the peak") for i in range(2)]
    notes = of_campaign(campaign(BETTER, [*runs, run(2, 100.0, 1.0)])).notes
    assert [note for note in notes if "utilisation" in note] == [
        "FLOPs utilisation is not stated by 2 runs: 437% of the peak"
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"is_like": {"data": "CIFAR-10"}}, ["I"]),
        ({"is_like": {"data": "WikiText-2"}}, ["II"]),
        ({"last": {"eval_accuracy": 0.5}}, ["I"]),
        ({"last": {"eval_perplexity": 50.0}}, ["II"]),
        ({"unit": "tokens"}, ["II"]),
        ({"settings": {"tokens_per_sample": 64}}, ["II"]),
        ({}, ["I", "II"]),
    ],
)
def test_the_runs_decide_which_table_they_are(changes: dict[str, Any], expected: list[str]) -> None:
    base = [replace(run(i, 100.0 + i, 1.0), **changes) for i in range(2)]
    other = [replace(run(i, 90.0 + i, 1.0), **changes) for i in range(2)]
    tables = of_campaign(campaign(other, base))
    assert [each.table for each in tables.tables if each.table in ("I", "II")] == expected
    forced = of_campaign(campaign(other, base), table="ii")
    assert [each.table for each in forced.tables if each.table in ("I", "II")] == ["II"]
    with pytest.raises(UsageError, match="--table V"):
        of_campaign(campaign(other, base), table="V")


def test_tokens_per_sample_makes_tokens_per_second() -> None:
    more = {"settings": {"tokens_per_sample": 64}, "last": {"eval_perplexity": 20.0}}
    base = [run(i, 100.0 + i, 1.0, **more) for i in range(2)]
    other = [run(i, 50.0 + i, 1.0, **more) for i in range(2)]
    row = table(of_campaign(campaign(other, base)), "Table II:").rows[2]
    assert row.unit == "tok/s"
    assert row.base == pytest.approx(64 * 1000 * (1 / 100 + 1 / 101) / 2)


def test_only_the_papers_model_and_data_bear_its_title() -> None:
    papers = {"is_like": {"data": "CIFAR-10"}, "settings": {"model": "ResNet-50"}}
    base = [run(i, 100.0 + i, 1.0, **papers) for i in range(2)]
    other = [run(i, 90.0 + i, 1.0, **papers) for i in range(2)]
    assert table(of_campaign(campaign(other, base)), "Table I:").title == "CIFAR-10, ResNet-50"
    small = {"is_like": {"data": "CIFAR-10"}, "settings": {"model": "a small ResNet"}}
    base = [run(i, 100.0 + i, 1.0, **small) for i in range(2)]
    title = table(of_campaign(campaign(other, base)), "Table I:").title
    assert title == "CIFAR-10, a small ResNet; the paper: CIFAR-10, ResNet-50"


def ranked(ranks: int, seconds: float, block: int) -> Trial:
    trial = run(block, seconds, 100.0, ranks=ranks)
    late = trial.stages[LATE]
    waiting = replace(late, phases={**late.phases, "communication": Use(seconds / 10, 1.0)})
    return replace(
        trial,
        id=f"{ranks}-{block}-{seconds}",
        stages={EARLY: trial.stages[EARLY], LATE: waiting if ranks > 1 else late},
    )


def test_scaling_of_both_sides() -> None:
    base = [ranked(1, 100.0 + i, i) for i in range(2)] + [ranked(2, 60.0 + i, i) for i in range(2)]
    other = [ranked(1, 80.0 + i, i) for i in range(2)] + [ranked(2, 42.0 + i, i) for i in range(2)]
    tables = of_campaign(campaign(other, base))
    by_name = rows(tables)
    assert "runs on 1 rank" in tables.tables[0].title and len(tables.base.ids) == 2

    def rates(seconds: list[float]) -> np.ndarray:
        return 1000 / np.array(seconds)

    throughput = by_name["2 ranks: throughput"]
    spent = 1 + 1 / 10  # the time of communication comes on top
    assert throughput.base == pytest.approx(rates([60.0, 61.0]).mean() / spent)
    efficiency = by_name["2 ranks: efficiency"]
    first, two = rates([80.0, 81.0]), rates([42.0, 43.0]) / spent
    assert efficiency.other == pytest.approx(100 * two.mean() / 2 / first.mean())
    assert efficiency.interval_change[0] < efficiency.change < efficiency.interval_change[1]
    assert (efficiency.paper.base.printed, efficiency.paper.other.printed) == ("93.1", "96.2")
    assert by_name["1 rank: efficiency"].other == 100.0
    assert by_name["2 ranks: communication"].base == pytest.approx(100 * 0.1 / 1.1)
    four = by_name["4 ranks: throughput"]
    assert four.ours == "not measured" and four.paper.base.value == 4250


def waiting(block: int, share: float) -> Trial:
    """Two ranks: 100 s of work, and so much of that again in communication; 50 W there."""
    trial = run(block, 100.0 + block / 10, 10_000.0 + block, ranks=2)
    stages = {
        stage: replace(
            each,
            phases={
                **each.phases,
                "communication": Use(length * each.samples / 10, 50 * length * each.samples / 10),
            },
        )
        for (stage, each), length in zip(
            trial.stages.items(), (share, share * (1.0, 1.02, 1.01)[block]), strict=True
        )
    }
    return replace(trial, id=f"waiting-{share}-{block}", stages=stages)


def test_less_communication_is_a_gain_of_communication() -> None:
    base, other = ([waiting(i, share) for i in range(3)] for share in (0.4, 0.1))
    comparison = compare(Side("base", base), [Side("other", other)], Question()).comparisons[0]
    assert comparison.verdict == "gain" and comparison.four is not None
    # Of the late steps only: what an early step gains is "early", in whatever phase.
    assert comparison.four["communication"] == pytest.approx(2 / 3, rel=0.01)
    gained = {cell.class_ for cell in comparison.cells if cell.time_verdict == "gain"}
    assert gained == {"communication"}
    row = rows(of_campaign(campaign(other, base)))["communication-bound"]
    low, high = row.interval
    assert low < row.value < high and row.value == pytest.approx(66.7, rel=0.01)
    assert row.paper == "15"


def gained(base: float, other: float, half: float) -> dict[str, Any]:
    gain = base - other
    return {
        "gain": gain,
        "interval": [gain - half, gain + half],
        "percent": 100 * gain / base,
        "base": base,
        "other": other,
        "verdict": "gain",
        "provenance": "measured",
    }


def ablated(*techniques: str) -> list[AblationStep]:
    entries = []
    for place, technique in enumerate(techniques, 1):
        compared = {
            "time_s": gained(600.0, 600.0 - 60 * place, 6.0),
            "energy_j": gained(100.0, 100.0 - place, 0.5),
            "memory_bytes": gained(8e9, 8e9 - 1e9 * place, 1e8),
            "quality": {"metric": "eval_accuracy", "base": 0.9, "other": 0.9 - place / 100},
        }
        step = compared | {"time_s": gained(660.0 - 60 * place, 600.0 - 60 * place, 6.0)}
        entries.append({"technique": technique, "step": step, "in_all": compared})
    parsed = steps({"steps": entries})
    assert parsed is not None
    return list(parsed)


def test_components_are_beside_the_papers_where_the_same_techniques_are_on() -> None:
    tables = of_campaign(
        campaign(BETTER), ablated("precision:dtype=bf16", "accumulation", "clipping")
    )
    three = table(tables, "Table III:")
    by_name = {row.what: row for row in three.rows}
    baseline = by_name["baseline"]
    assert (baseline.time, baseline.memory, baseline.quality) == (10.0, 8.0, 90.0)
    assert baseline.paper.memory.printed == "8.24"
    first, second = by_name["+ precision:dtype=bf16"], three.rows[2]
    assert second.what == "+ accumulation"
    assert first.paper is None and second.paper.faster.printed == "18.4"
    assert second.time == pytest.approx(8.0) and second.memory == pytest.approx(6.0)
    assert second.quality == pytest.approx(88.0) and second.faster == pytest.approx(20.0)
    assert second.interval_faster == pytest.approx((19.0, 21.0))
    assert second.less_memory == pytest.approx(25.0) and second.less_energy == pytest.approx(2.0)
    assert by_name["+ clipping"].paper is None
    for name, faster in (
        ("+ accumulation", "9.9"),
        ("+ schedule", "22.5"),
        ("+ checkpointing", "26.2"),
    ):
        assert by_name[name].ours == "not measured"
        assert by_name[name].paper.faster.printed == faster
    share = rows(tables).get("precision's part of the speed-up")
    assert share is None  # of a CNN only: these runs attend


def test_text_fits_eighty_columns_and_markdown_has_all_tables() -> None:
    tables = of_campaign(campaign(BETTER), ablated("accumulation", "precision"))
    text, md = render.text(tables, 80), render.md(tables)
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith("ours (3 runs) against base (3 runs), the same work; gain")
    assert "on H; data D" in text and "optimised: stack s, lr 0.1" in text
    assert "Table I: D, a model without a name; the paper: CIFAR-10, ResNet-50" in text
    rules = [line for line in md.splitlines() if line.startswith("| --- |")]
    assert len(rules) == len(tables.tables)
    assert "None" not in text + md and "nan" not in text + md
