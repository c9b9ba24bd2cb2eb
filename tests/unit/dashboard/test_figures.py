"""Charts of plain data: valid figures, captions that say it, names that stay names."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import plotly.graph_objects as go
import pytest

from dashboard.chart_data import Anatomy, Chart, Drift, JobView, Lane, LazyRows, Level, Power
from dashboard.figures import (
    gains,
    heatmap,
    memory,
    phases,
    power,
    quality,
    ranks,
    steps,
    style,
    waste,
)
from dashboard.figures.ablation import by_technique
from dashboard.figures.label_places import LABEL_GAP, Labels, Text, in_rows
from dashboard.figures.pareto import pareto
from dashboard.figures.style import TimeScale, listed, text_px
from dashboard.figures.waterfall import Part, waterfall
from optimizers.ablation.design import Design
from optimizers.ablation.effects import evaluate
from probe.compare.gain import Verdict
from probe.compare.objective.model import Place
from probe.compare.objective.quantities import limit_of
from probe.compare.sides import Question
from probe.model import Provenance, Status
from probe.report.all_devices import all_devices
from probe.report.answer import answer
from probe.report.model import (
    CommunicationRow,
    PhaseRow,
    RankBalance,
    RankRow,
    Report,
    SkewRow,
    WaitingRow,
)
from tests.contract.test_comparisons import HOSTILE, KINDS, comparison_of
from tests.fakes.reports import phase_row, report_of_rows
from tests.unit.optimizers.test_ablation import SAVED, trials
from tests.unit.probe.compare.test_objective import every_kind

ROWS = (
    phase_row("forward", 600.0, time_s=2.0, interval=(580.0, 620.0)),
    phase_row("backward", 1500.0, time_s=3.0, interval=(1470.0, 1530.0), status=Status.WEAK),
    phase_row("data", None, time_s=0.5, bounds_j=(10.0, 90.0), status=Status.NOT_IDENTIFIABLE),
    phase_row("unattributed", 50.0, time_s=0.5, count=1, interval=(40.0, 60.0)),
)


def run_of(*rows: PhaseRow, energy_j: float | None = 2200.0) -> Report:
    report = report_of_rows(*rows, energy_j=energy_j)
    return replace(report, run=replace(report.run, duration_s=6.0))


RUN = run_of(*ROWS)
SCALE = TimeScale.of(60.0)


def watts(devices: int, bins: int = 20, provenance: str = "measured") -> Power:
    mean = np.linspace(100, 300, bins)[None, :] * np.linspace(1, 0.8, devices)[:, None]
    mean[0, 5:8] = np.nan
    return Power(
        np.linspace(0, 60, bins + 1),
        [f"gpu{i}" for i in range(devices)],
        [provenance] * devices,
        mean,
        mean * 0.9,
        mean * 1.1,
        [400.0] * devices,
    )


def checked(chart: Chart) -> Chart:
    """A figure that plotly takes, JSON that has no NaN, rows that fit their columns."""
    assert chart.caption and "\n" not in chart.caption
    assert all(len(row) == len(chart.columns) for row in chart.rows)
    if chart.figure is not None:
        go.Figure(json.loads(json.dumps(chart.figure, allow_nan=False)))
        assert chart.figure["layout"]["height"] > 0
    return chart


def timed(row: PhaseRow, device: str = "host") -> PhaseRow:
    """The same phase where only its time is known."""
    return phase_row(row.phase, None, device=device, time_s=row.time_s, count=row.count)


def test_the_phase_that_burns_most_is_named_with_its_share() -> None:
    chart = checked(phases.phases(RUN))
    assert answer(RUN).headline.startswith("backward takes 69.8 ± 1.4 % of the energy (weak")
    assert "data" in chart.caption and "bounds" in chart.caption
    assert chart.figure is not None
    bars = chart.figure["data"][0]
    assert bars["x"][:2] == [150.0, 60.0]  # per step, most first
    assert bars["error_x"]["array"][0] == pytest.approx(3.0)
    assert [row[1] for row in chart.rows] == [row.phase for row in ROWS]


def test_several_gpus_are_one_and_a_refusal_of_one_is_everybodys() -> None:
    more = [replace(row, device="gpu1") for row in ROWS if row.phase != "data"]
    more.append(
        phase_row(
            "data", 40.0, device="gpu1", time_s=0.5, interval=(30.0, 50.0), status=Status.WEAK
        )
    )
    run = run_of(*ROWS, *more, energy_j=4340.0)
    (table,) = all_devices(run)
    rows = {row.phase: row for row in table.phases}
    assert rows["backward"].energy_j == 3000.0
    assert rows["backward"].energy_j_interval == (2940.0, 3060.0)
    assert rows["data"].energy_j is None and rows["data"].bounds_j == (40.0, 140.0)
    assert rows["unresolved"].energy_j == 40.0  # what gpu1 knows of data
    checked(phases.phases(run))


def test_without_joules_it_is_time_and_says_so() -> None:
    run = run_of(*map(timed, ROWS), energy_j=None)
    chart = checked(phases.phases(run))
    assert (
        "Time only" in chart.caption and "backward takes 50.0 % of the time" in answer(run).headline
    )
    assert "of the energy" not in chart.caption
    assert phases.phases(run_of()).figure is None


def test_a_models_joules_are_never_added_to_measured_ones() -> None:
    model = phase_row("forward", 1e6, device="cpu", time_s=2.0, provenance=Provenance.MODELLED)
    mixed = run_of(*ROWS, model)
    assert answer(mixed).phase == "backward" and "69.8" in answer(mixed).headline
    without_data = run_of(*(row for row in mixed.phases if row.phase != "data"))
    assert waste.uses(without_data)[0]["training"] == 2100.0
    only = checked(phases.phases(run_of(model, energy_j=None)))
    assert "by a model" in only.caption and only.figure is not None
    assert only.figure["data"][0]["marker"]["pattern"]["shape"] == ["/"]


@pytest.mark.parametrize("provenance", [Provenance.MEASURED, Provenance.MODELLED])
def test_a_meter_that_ranks_share_says_nothing_of_their_phases(provenance: Provenance) -> None:
    """What several ranks use together is not told apart: the page shows their times."""
    card = phase_row("unattributed", 2000.0, time_s=10.0, provenance=provenance)
    ranks = [timed(row, f"rank{rank}") for rank in range(2) for row in ROWS]
    run = run_of(card, *ranks)
    assert answer(run).phase == "backward" and "of the time" in answer(run).headline
    chart = checked(phases.phases(run))
    assert "Time only: several ranks share" in chart.caption
    assert any(line[0] == "gpu0" and line[4] == 2000.0 for line in chart.rows)
    amounts, unit, _ = waste.uses(run)
    assert unit == "s" and amounts["training"] > 0
    wasted = waste.wasted(run)
    assert wasted is not None and wasted[0] != 1.0 and wasted[1] == "time"


def test_waste_adds_up() -> None:
    run = run_of(*(row for row in ROWS if row.phase != "data"))
    amounts, unit, _ = waste.uses(run)
    assert unit == "J" and sum(amounts.values()) == 2150.0
    assert waste.wasted(run) == (pytest.approx(50 / 2150), "energy")
    checked(waste.waste(run))
    assert waste.waste(run_of()).figure is None


def test_where_the_energy_of_waiting_is_refused_its_time_is_shown() -> None:
    amounts, unit, _ = waste.uses(RUN)
    assert unit == "s" and amounts["waiting for data"] > 0
    wasted = waste.wasted(RUN)
    assert wasted is not None and wasted[0] > 0 and wasted[1] == "time"
    assert "% of the time is waiting or idle" in checked(waste.waste(RUN)).caption


@pytest.mark.parametrize("devices", [1, 3, 8, 64])
def test_power_of_few_and_many(devices: int) -> None:
    chart = checked(power.power(watts(devices), SCALE, None))
    assert chart.figure is not None
    lines = [t for t in chart.figure["data"] if t.get("mode") == "lines" and t.get("name")]
    limits = [line for line in lines if str(line["name"]).startswith("power limit")]
    assert [line["y"] for line in limits] == [[400.0, 400.0]]
    lines = [line for line in lines if line not in limits]
    assert len(lines) == (devices if devices <= power.LINES else 1)
    if devices <= power.LINES:
        assert None in lines[0]["y"], "the gap was bridged"
    points = sum(len(t["x"]) for t in chart.figure["data"])
    assert points < 2000 * max(1, len(lines))
    assert len(chart.rows) == devices * 20
    rows = checked(heatmap.heatmap(watts(devices), SCALE, (0.0, 30.0)))
    caption = rows.caption
    if rows.figure is not None:  # in the order of their numbers, whatever each draws
        places = [
            watts(devices).devices.index(str(name))
            for name in rows.figure["layout"]["yaxis"]["ticktext"]
        ]
        assert places == sorted(places)
    assert devices == 1 or " W in the mean) draws most" in caption
    assert "%" not in caption


def test_nothing_to_draw_has_words() -> None:
    for chart in (
        power.power(None, SCALE, None),
        power.power(None, SCALE, None, live=True),
        heatmap.heatmap(None, SCALE, None),
        steps.anatomy(None),
        steps.drift(None),
        memory.memory([], SCALE, None),
        quality.quality(RUN),
    ):
        assert checked(chart).figure is None


def test_inside_a_step_and_step_after_step() -> None:
    lane = Lane(
        "rank 0, host", np.array([1.0, 1.02]), np.array([1.02, 1.1]), ["forward", "backward"]
    )
    chart = checked(steps.anatomy(Anatomy(7, np.array([1.0, 1.1]), [lane], watts(8))))
    assert chart.caption.startswith("Step 7, 100 ms each")
    value = np.array([10.0] * 10 + [20.0] * 10)
    moved = Drift(np.arange(20.0), value, value - 1, value + 1, "J", 5, (10,), "estimated")
    chart = checked(steps.drift(moved))
    assert "changed 1 time, from 10.0 J at first to 20.0 J at last" in chart.caption
    assert chart.figure is not None
    assert chart.figure["layout"]["annotations"][0]["text"] == "+100 %"


def test_memory_says_how_full() -> None:
    level = Level("gpu0", "memory_used", "B", np.array([0.0, 1.0]), np.array([1e9, 4e10]), 8e10)
    assert "50 % of what it has" in checked(memory.memory([level], SCALE, None)).caption


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["base", HOSTILE])
def test_every_kind_of_comparison_has_its_charts(kind: str, name: str) -> None:
    report = comparison_of(name, kind)
    for comparison in report.comparisons:
        by_phase = checked(gains.by_phase(report, comparison))
        sample = comparison.per_sample
        saved = sample.gain_j if comparison.verdict_by == "energy" else sample.gain_s
        assert math.isclose(sum(row[3] for row in by_phase.rows), saved, rel_tol=1e-9)
        chart = checked(gains.by_cell(comparison))
        checked(gains.by_kind(comparison))
        if chart.figure is not None:
            measured = comparison.energy_j.provenance == "measured"
            total = (comparison.energy_j if measured else comparison.time_s).gain
            assert math.isclose(
                sum(row[3] for row in chart.rows), total, rel_tol=1e-6, abs_tol=1e-6
            )


@pytest.mark.parametrize("name", ["kind", HOSTILE])
def test_the_front_is_drawn_with_its_constraints(name: str) -> None:
    report = every_kind(name)
    chart = checked(pareto(report, "time", "loss"))
    assert chart.figure is not None
    markers = [trace for trace in chart.figure["data"] if trace["mode"] != "lines"]
    assert len(markers) == 3
    filled = [
        each.place is Place.FRONT and not symbol.endswith("-open")
        for each, symbol in zip(
            report.configurations, [trace["marker"]["symbol"] for trace in markers], strict=True
        )
    ]
    assert filled == [each.place is Place.FRONT for each in report.configurations]
    assert any(filled) and not all(filled)
    (line,) = chart.figure["layout"]["shapes"]
    assert line["y0"] == line["y1"] == 2.5 and line["xref"] == "paper"
    # The same numbers as the command's.
    keys = [column.key for column in chart.columns]
    for row, each in zip(chart.rows, report.configurations, strict=True):
        by_key = dict(zip(keys, row, strict=True))
        assert by_key["score"] == each.score and by_key["name"] == each.name
        assert by_key["time"] == each.term("time").value
        assert by_key["memory"] == each.term("memory").value / 2**20
    sizes = [trace["marker"]["size"] for trace in markers]
    assert sizes[2] > sizes[0] > sizes[1]  # 6, 5 and 4 GB
    assert "<script" not in json.dumps(chart.figure)


@pytest.mark.parametrize("width", [220.0, 500.0, 3400.0])
def test_labels_of_changes_that_lie_close_do_not_overlap(width: float) -> None:
    anchors = [0.02, 0.3, 0.31, 0.33, 0.34, 0.36, 0.5, 0.93, 0.96]
    texts = ["+12 %", "-90 %", "+636 %", "-86 %", "+5 %", "+7 %", "+88 %", "+1200 %", "-92 %"]
    places = in_rows(anchors, texts, 4)
    assert places[:5] == [(0, True), (0, True), (1, True), (2, True), (3, True)]
    assert places[5] is None  # the table below the chart has it
    boxes = []
    for anchor, text, place in zip(anchors, texts, places, strict=True):
        if place is not None:
            at, size = anchor * width, text_px(text)
            begin = at + LABEL_GAP if place.is_right else at - LABEL_GAP - size
            assert begin >= 0 and begin + size <= width
            boxes.append((place.row, begin, begin + size))
    assert len(boxes) == 8
    for (row, _, end), (other_row, begin, _) in combinations(sorted(boxes), 2):
        assert row != other_row or end <= begin


def test_a_change_is_labelled_with_its_percentage() -> None:
    value = np.array([10.0] * 10 + [1.0] * 3 + [7.36] * 7)
    series = Drift(np.arange(20.0), value, value, value, "s", 1, (10, 13), "measured")
    drawn = steps.drift(series).figure
    assert drawn is not None
    labels = [(note["x"], note["text"]) for note in drawn["layout"]["annotations"]]
    assert labels == [(9.5, "-90 %"), (12.5, "+636 %")]


def test_labels_stand_apart_or_not_at_all() -> None:
    # Two points whose labels met where each went to the side with more room.
    labels = Labels((11.5, 13.7), (3770.0, 4260.0))
    places = [(side, height) for side in ("right", "left") for height in ("top", "bottom")]
    placed = [
        labels.add(Text(*at, words, f"{height} {side}", 15.0) for side, height in places[::order])
        for at, words, order in (
            ((12.17, 3970.0), "plain, 354 MiB", 1),
            ((13.0, 4055.0), "faster, 354 MiB", -1),
        )
    ]
    assert [text.position if text else "" for text in placed] == ["top right", "top left"]
    assert labels.add([Text(12.3, 4000.0, "1 × the base's EDP", "top right")]) is None
    assert labels.add([Text(13.6, 3800.0, "1 × the base's EDP", "bottom right")]) is None
    below = Text(13.6, 3850.0, "1 × the base's EDP", "bottom left")
    assert labels.add([below]) == below


def test_labels_between_two_near_points_do_not_meet_on_a_wide_page() -> None:
    # On a narrow page each label ends beyond the other point; a wider page moves them together.
    labels = Labels((9.0, 10.0), (100.0, 200.0))
    assert labels.add([Text(9.4, 150.0, "plain, 456 MiB", "top right", 8.0)])
    towards = Text(9.45, 150.0, "faster", "top left", 8.0)
    below = towards._replace(position="bottom left")
    assert labels.add([towards, below]) == below


@pytest.mark.parametrize("words", ["5 J", "−279 mJ"])
def test_a_waterfall_has_room_for_the_longest_gain(words: str) -> None:
    part = Part("forward", 1.0, None, Verdict.GAIN)
    drawn = waterfall([part], part, "J", lambda _: words)
    # The text begins where the bars end, at the right end of the axis.
    assert drawn["layout"]["xaxis"]["range"][1] == drawn["data"][-1]["x"][0] == 1.0
    assert drawn["layout"]["margin"]["r"] >= 7.3 * len(f"  {words}")


@pytest.mark.parametrize(("limit", "drawn"), [("time=11s", True), ("time=500s", False)])
def test_a_constraint_is_in_the_picture_or_said_to_be_beyond_it(limit: str, drawn: bool) -> None:
    chart = checked(pareto(every_kind("kind", [limit_of(limit, upper=True)]), "time", "memory"))
    assert chart.figure is not None
    (line,) = chart.figure["layout"]["shapes"]
    low, high = chart.figure["layout"]["xaxis"]["range"]
    assert (low < line["x0"] < high) is drawn
    assert ("Beyond the picture: time" in chart.caption) is not drawn
    assert 6.0 < low < 7.0  # the points are to be seen all the same


def test_a_front_of_what_is_not_known_is_said_in_words() -> None:
    chart = checked(pareto(every_kind("kind"), "time", "energy"))
    assert chart.figure is None and len(chart.rows) == 3
    assert "since energy is not known of any configuration" in chart.caption
    assert "choose other axes" in chart.caption


def test_a_whisker_that_says_anything_leaves_the_bars_to_be_seen() -> None:
    shares = {"early": 0.23, "gradient": 0.5, "memory": 0.05, "communication": 0.0, "rest": 0.22}
    intervals = dict.fromkeys(shares, (-10.5, 16.5)) | {"communication": None}
    comparison = replace(
        comparison_of(kind="gain").comparisons[0],
        four=shares,
        four_intervals=intervals,
        four_rest={"waiting": 0.22},
    )
    chart = checked(gains.by_kind(comparison))
    low, high = chart.figure["layout"]["xaxis"]["range"]
    assert -200 < low < 0 and 50 < high < 300 and "beyond the picture" in chart.caption
    assert chart.rows[0][2:] == [-1050.0, 1650.0]  # the table has all of it
    assert "none" in chart.figure["data"][1]["text"][3]


def test_hostile_names_are_text() -> None:
    rows = [replace(row, phase=HOSTILE) for row in ROWS[:1]]
    drawn = json.dumps(checked(phases.phases(run_of(*rows))).figure)
    assert "<script" not in drawn and "<b>" not in drawn
    assert "<" not in style.plain("<img src=x onerror=alert(1)>")


def contrast(first: str, second: str) -> float:
    """WCAG 2.1, relative luminance."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colour", sorted({*style.SERIES, *style.PHASES.values()}))
def test_every_colour_is_seen_on_white_and_on_dark(colour: str) -> None:
    assert contrast(colour, "#ffffff") >= 3.0
    assert contrast(colour, "#1c1c1e") >= 3.0


@pytest.mark.parametrize("kind", ["cumulative", "leave-one-out", "shapley"])
def test_every_design_of_an_ablation_has_its_waterfall(kind: str) -> None:
    design = Design.of(kind, tuple(SAVED), 4)
    result = evaluate(design, range(4), trials(design), Question()).to_dict()
    chart = checked(by_technique(json.loads(json.dumps(result))))
    assert chart.figure is not None
    rows = {row[0]: row[1] for row in chart.rows}
    assert set(rows) == {*SAVED, "all together"}
    assert (
        rows["precision"] == pytest.approx(100, abs=12) and "precision saves most" in chart.caption
    )
    if kind != "leave-one-out":
        assert sum(rows[name] for name in SAVED) == pytest.approx(rows["all together"], rel=1e-6)
    assert "UNSOUND" not in chart.caption
    assert "UNSOUND" in by_technique({**result, "sound": False}).caption


def job(slowest: int | None, host: str = "node1") -> JobView:
    rank_rows = [
        RankRow(
            rank=rank,
            host=host,
            devices=(f"gpu{rank}",),
            steps=50,
            energy_j=100.0 * rank if rank else None,
        )
        for rank in range(3)
    ]
    cost = CommunicationRow(
        rank=0,
        host=host,
        blocking_s=None,
        busy_s=0.02,
        exposed_s=0.005,
        cost_s=None,
        cost_s_interval=None,
        contention_s=None,
        steps=50,
        method="DDP's timers",
    )
    balance = RankBalance(
        steps=50,
        step_s=0.05,
        skew_s=SkewRow(median=0.004, p95=0.01),
        bound_s=0.0,
        ranks=tuple(
            WaitingRow(rank=rank, waiting_s=0.001 * rank, last_share=0.3, waiting_j=2.0)
            for rank in range(3)
        ),
        slowest=slowest,
        method="DDP's timers",
    )
    return JobView(False, ranks=rank_rows, communication=[cost], balance=balance)


@pytest.mark.parametrize("host", ["node1", HOSTILE])
def test_ranks_are_listed_with_the_slowest_marked(host: str) -> None:
    chart = ranks.waiting(job(0, host))
    assert chart.figure is not None
    go.Figure(chart.figure)
    assert "Rank 0 is the slowest" in chart.caption and "4 %" in chart.caption
    (bars,) = chart.figure["data"]
    marked = [
        name
        for name, colour in zip(bars["y"], bars["marker"]["color"], strict=True)
        if colour == style.VERMILION
    ]
    assert marked == ["rank 0"]
    assert len(chart.rows) == 3 and len(chart.rows[0]) == len(chart.columns)
    assert "No rank is slower than chance" in ranks.waiting(job(None)).caption
    assert ranks.rank_rows(job(0, host))[0] == ["0", host, "50", "gpu0", "—"]
    assert ranks.cost_rows(job(0))[0][1:5] == ["—", "20.0 ms", "5.00 ms", "—"]


def test_who_waits_may_not_be_known() -> None:
    assert "not known" in ranks.waiting(replace(job(0), balance=None)).caption
    live = JobView(True)
    assert "Too few steps" in ranks.waiting(live).caption
    assert ranks.communication(live).rows == []


def test_numbers_of_an_array_are_those_of_a_list() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(size=4000) * 10.0 ** rng.integers(-12, 13, 4000)
    values[:6] = [0.0, np.nan, np.inf, -np.inf, 123456.5, 1e-6]
    cells = listed(values)
    assert cells == listed(values.tolist())
    assert cells[:4] == [0.0, None, None, None] and json.dumps(cells)


def test_a_table_is_made_when_somebody_asks_for_it() -> None:
    made: list[int] = []

    def make() -> list[list[float]]:
        made.append(1)
        return [[1.0], [2.0]]

    rows = LazyRows(make)
    assert made == []
    assert len(rows) == 2 and list(rows) == [[1.0], [2.0]] and rows[1] == [2.0] and made == [1]
