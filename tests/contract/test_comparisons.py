"""What every format of a comparison promises, over comparisons of all kinds."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from probe.compare.comparison import compare
from probe.compare.formats import formats, render
from probe.compare.model import ComparisonReport
from probe.compare.run_record import Trial
from probe.compare.sides import Question, Side
from probe.errors import UsageError
from probe.model import Provenance
from probe.target import Target
from tests.unit.probe.compare.test_comparison import BASE, BETTER, WORSE

HOSTILE = 'a|b\n<script>alert(1)</script> "q" `c` [l](http://x) @all =1+1 é' + "x" * 5000


def refused(trial: Trial) -> Trial:
    stages = {
        name: replace(
            stage,
            phases={
                phase: replace(use, energy_j=None) if phase == "optimizer" else use
                for phase, use in stage.phases.items()
            },
        )
        for name, stage in trial.stages.items()
    }
    return replace(trial, stages=stages)


def comparison_of(name: str = "base", kind: str = "gain") -> ComparisonReport:
    """A comparison of one of KINDS, with hostile or plain names."""
    base, others = BASE, {"better": BETTER, "worse": WORSE}
    question = Question(metric="eval_loss", higher=False)
    problems: list[list[str]] = [[], []]
    if kind == "modelled":
        base = [replace(t, energy=Provenance.MODELLED) for t in base]
        others = {
            key: [replace(t, energy=Provenance.MODELLED) for t in side]
            for key, side in others.items()
        }
    elif kind == "no meter":
        base = [replace(t, energy=None) for t in base]
        others = {key: [replace(t, energy=None) for t in side] for key, side in others.items()}
    elif kind == "missed":
        question = Question(Target("eval_loss", False, 0.5), metric="eval_loss", higher=False)
        base = [replace(t, reached=True) for t in base]
        others = {key: [replace(t, reached=False) for t in side] for key, side in others.items()}
    elif kind == "refused":
        others = {key: [refused(t) for t in side] for key, side in others.items()}
    elif kind == "single":
        base, others = base[:1], {key: side[:1] for key, side in others.items()}
    elif kind == "unlike":
        problems = [["other data: a against b"], []]
    sides = [Side(f"{name} {key}", side) for key, side in others.items()]
    return replace(
        compare(Side(name, base), sides, question, problems),
        warnings=[f"{name} is left out"],
        left_out=[f"{name} is left out"],
        tolerance_percent=0.5,
    )


KINDS = ("gain", "modelled", "no meter", "missed", "refused", "single", "unlike")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("format_", formats())
def test_every_kind_is_told(format_: str, kind: str) -> None:
    said = render(comparison_of(kind=kind), format_)
    assert said and not re.search(r"\b(None|nan|NaN|inf)\b", said)


@pytest.mark.parametrize("format_", ["text", "md", "html"])
def test_what_readers_must_not_miss(format_: str) -> None:
    def said_of(kind: str) -> str:
        said = render(comparison_of(kind=kind), format_).replace("&#95;", "_")
        return " ".join(said.split())  # lines are as long as a terminal is wide

    assert (
        "base better uses 19.9 % less energy per sample than base (95 %: 18.1 … 21.7 %)"
        in said_of("gain")
    )
    assert "most of it in forward (80 %)" in said_of("gain")
    assert "base worse uses 20.2 % more energy per sample than base" in said_of("gain")
    assert "not separated: `classify=True`" in re.sub(r"</?code>", "`", said_of("gain")).replace(
        "&#96;", "`"
    )
    assert "of it compute" in said_of("gain")
    assert "modelled: no verdict" in said_of("modelled")
    assert "not measured" in said_of("no meter")
    assert "target missed by 3 of 3 runs of base better" in said_of("missed")
    assert "cannot be told apart" in said_of("refused") and "without optimizer" not in said_of(
        "gain"
    )
    assert "one run a side: no interval; a verdict needs 2 or more runs a side" in said_of("single")
    assert " … " not in said_of("single")
    assert "not comparable: other data: a against b" in said_of("unlike")


@pytest.mark.parametrize("kind", KINDS)
def test_json_is_the_contract(kind: str) -> None:
    parsed = json.loads(render(comparison_of(kind=kind), "json"))
    assert parsed["schema"] == 1 and parsed["mode"] in ("equal_work", "to_target")
    for comparison in parsed["comparisons"]:
        for key in ("time_s", "energy_j", "memory_bytes"):
            assert {"gain", "interval", "percent", "progress", "cost", "verdict"} <= comparison[
                key
            ].keys()
            assert comparison[key]["verdict"] in ("gain", "loss", "no evidence")
        assert {"base", "other", "difference_percent", "ok"} <= comparison["quality"].keys()
        for row in (*comparison["phases"], comparison["per_sample"]):
            assert {
                "phase",
                "base",
                "other",
                "gain_j",
                "gain_j_interval",
                "gain_s",
                "gain_s_interval",
                "share",
                "verdict",
            } <= row.keys()
            assert set(row["base"]) == set(row["other"]) == {"time_s", "energy_j"}
        for cell in comparison["cells"]:
            assert cell["classified"] in ("measured", "counted", "by phase")
            assert {
                "stage",
                "class",
                "time_s",
                "time_s_interval",
                "energy_j",
                "energy_j_interval",
                "progress_j",
                "cost_j",
                "share",
                "status",
                "provenance",
            } <= cell.keys()
        four = comparison["four"]
        assert four is None or set(four) == {"early", "gradient", "memory", "communication", "rest"}
        assert (four is None) == (comparison["verdict"] == "no evidence" or not comparison["cells"])
        assert {"verdict", "reason"} <= comparison.keys()


def intervals(value: object, key: str = "") -> Iterator[list[float | None]]:
    """Every interval of a JSON."""
    if isinstance(value, dict):
        for name, entry in value.items():
            yield from intervals(entry, name)
    elif isinstance(value, list):
        if "interval" in key and value:
            yield value
        for entry in value:
            yield from intervals(entry)


@pytest.mark.parametrize("kind", KINDS)
def test_no_interval_has_zero_width(kind: str) -> None:
    limits = list(intervals(json.loads(render(comparison_of(kind=kind), "json"))))
    assert all(low is None or high is None or low < high for low, high in limits)
    # One run has no interval; without a meter nothing differs between these runs.
    assert bool(limits) == (kind not in ("single", "modelled", "no meter"))


@pytest.mark.parametrize("kind", KINDS)
def test_phases_and_cells_add_up(kind: str) -> None:
    for comparison in comparison_of(kind=kind).comparisons:
        total = comparison.per_sample
        assert sum(row.gain_s for row in comparison.phases) == pytest.approx(total.gain_s, rel=1e-9)
        if total.gain_j is not None:
            joules = [row.gain_j for row in comparison.phases if row.gain_j is not None]
            assert sum(joules) == pytest.approx(total.gain_j, rel=1e-9)


@pytest.mark.parametrize("format_", formats())
def test_the_answer_and_the_phases_come_first(format_: str) -> None:
    said = render(comparison_of(), format_)
    if format_ == "json":
        keys = list(json.loads(said)["comparisons"][0])
        assert keys.index("phases") < keys.index("cells")
        return
    said = said.replace("it in\nforward", "it in forward")
    answer = said.index("most of it in forward")
    assert answer < said.index("optimizer") < said.index("gradient-heavy")
    if format_ == "csv":
        first = next(csv.DictReader(io.StringIO(said)))
        assert first["phase"] == "forward" and "most of it in forward" in first["answer"]


def test_hostile_names_are_only_names() -> None:
    html = render(comparison_of(HOSTILE), "html")
    assert "<script>" not in html and "<a " not in html
    md = render(comparison_of(HOSTILE), "md")
    assert "<script>" not in md and "](http" not in md and "@all" not in md
    assert "\x1b" not in render(comparison_of("\x1b[31mred"), "text")
    rows = list(csv.reader(io.StringIO(render(comparison_of("=1+1"), "csv"))))
    assert all(len(row) == len(rows[0]) for row in rows)
    assert not any(cell.startswith("=") for row in rows for cell in row)


def test_a_format_that_is_none() -> None:
    with pytest.raises(UsageError, match="choose from csv, html, json, md, text"):
        render(comparison_of(), "pdf")
