"""``probe tables`` of tiny real runs: every figure of the paper, and every number computed again.

The runs are in ``tests/fixtures/tables.tar.xz`` (``python -m tests.fixtures.record_tables``): a CNN
and a transformer, baseline and stack, the CNN on one and two ranks, and a cumulative ablation.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from probe.cli.main import main
from probe.compare.paper import text as render
from probe.compare.paper.model import PaperTables
from probe.compare.paper.tables import tables
from probe.report.build import report_of
from probe.store.reader import RunReader
from tests.fixtures.archives import TABLES, unpack
from tests.fixtures.record_tables import STACK

# The paper's figures by table, row by row, typed off its page.
PAPER = {
    "Table I": """42.3 31.2 −11.1 −26.2 8.24 6.13 −2.11 −25.6 1,240 1,580 +340 +27.4
        85.31 85.14 −0.17 −0.2 42.3 58.7 +16.4 +38.8""",
    "Table II": """3.82 2.91 −0.91 −23.8 12.43 9.32 −3.11 −25.0 8,520 10,890 +2,370 +27.8
        44.82 45.13 +0.31 +0.7""",
    "Table III": """42.3 8.24 85.31 38.1 7.12 85.28 9.9 13.6 34.5 6.45 85.22 18.4 21.7
        32.8 6.45 85.19 22.5 21.7 31.2 6.13 85.14 26.2 25.6""",
    "Table IV": """1,240 1,580 100 100 2,310 3,040 93.1 96.2 4,250 5,980 85.7 94.6""",
    "error analysis": "35 28 22 15",
    "architecture patterns: a transformer": "−25 −32",
    "architecture patterns: a CNN": "28",
    "speed-up and doubling": "1.27 1.42 14.8 15.0 19",
}
UNITS = {
    "Table I": ["(min)", "(GB)", "(img/s)", "final accuracy (%)", "FLOPs utilisation (%)"],
    "Table II": ["(h)", "(GB)", "(tok/s)", "final perplexity"],
    "Table III": ["min", "GB", "accuracy (%)", "faster", "less memory"],
    "Table IV": ["throughput (img/s)", "efficiency (%)"],
}
NUMBER = re.compile(r"[+−]?\d[\d,]*(?:\.\d+)?")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tables")
    unpack(TABLES, place)
    return place


@pytest.fixture(scope="module")
def made(folder: Path) -> PaperTables:
    return tables(
        "cnn-baseline",
        f"cnn-{STACK}",
        directory=folder / "runs",
        also=("gpt-baseline", f"gpt-{STACK}"),
        ablation=folder / "ablation",
    )


class Run:
    """What a run's files say, without the code of comparisons."""

    def __init__(self, path: Path):
        reader = RunReader(path)
        self.report = report_of(path).to_dict()
        self.name, self.ranks = reader.meta["name"], len(reader.ranks())
        self.seed = reader.meta["config"]["seed"]
        self.seconds = (reader.end_ns() - reader.begin_ns) / 1e9
        self.samples = float(reader.logged()["samples"][1].sum())
        self.last = {name: float(values[-1]) for name, (_, values) in reader.logged().items()}
        self.peak = max(
            float(reader.values(rank)["peak_memory_bytes"][1].max()) for rank in reader.ranks()
        )

    def spent(self, *phases: str) -> float:
        """Seconds in phases; every device has a row for each, with the same time."""
        seconds = {row["phase"]: row["time_s"] for row in self.report["phases"]}
        return math.fsum(seconds.get(phase, 0.0) for phase in phases)


@pytest.fixture(scope="module")
def runs(folder: Path) -> list[Run]:
    return [Run(path.parent) for path in sorted(folder.glob("runs/*/run.json"))]


def side(runs: list[Run], name: str, ranks: int = 1) -> list[Run]:
    return sorted((r for r in runs if r.name == name and r.ranks == ranks), key=lambda r: r.seed)


def paired(base: Any, other: Any) -> dict[str, Any]:
    """Means, change and 95 % interval of runs with the same seeds."""
    base, other = np.array(base), np.array(other)
    differences = other - base
    half = stats.t.ppf(0.975, len(base) - 1) * differences.std(ddof=1) / math.sqrt(len(base))
    change = differences.mean()
    return {
        "base": base.mean(),
        "other": other.mean(),
        "change": change,
        "interval_change": (change - half, change + half),
        "percent": 100 * change / base.mean(),
        "interval_percent": (
            max(-100.0, 100 * (change - half) / base.mean()),  # less than nothing is impossible
            100 * (change + half) / base.mean(),
        ),
    }


def row(made: PaperTables, title: str, what: str) -> Any:
    (table,) = [t for t in made.tables if f"Table {t.table}: {t.title}".find(title) >= 0]
    return next(each for each in table.rows if each.what == what)


def agrees(actual: Any, expected: dict[str, Any], tolerance: float = 1e-9) -> None:
    for field, value in expected.items():
        assert getattr(actual, field) == pytest.approx(value, rel=tolerance, abs=1e-12), field


@pytest.mark.parametrize(
    ("kind", "table", "time", "per"),
    [("cnn", "Table I:", "min", 60), ("gpt", "Table II:", "h", 3600)],
)
def test_results_are_what_the_runs_files_say(
    kind: str, table: str, time: str, per: int, made: PaperTables, runs: list[Run]
) -> None:
    base, other = side(runs, f"{kind}-baseline"), side(runs, f"{kind}-{STACK}")
    assert len(base) == len(other) == (3 if kind == "cnn" else 2)
    scaled = [o.seconds * b.samples / o.samples for b, o in zip(base, other, strict=True)]
    table_row = row(made, table, "time, the same work")
    assert table_row.unit == time
    agrees(table_row, paired([b.seconds / per for b in base], [s / per for s in scaled]))
    memory = paired([b.peak / 1e9 for b in base], [o.peak / 1e9 for o in other])
    agrees(row(made, table, "peak memory"), memory)
    work = 16 if kind == "gpt" else 1  # tokens of a sample
    rates = [[work * run.samples / run.seconds for run in runs_] for runs_ in (base, other)]
    agrees(row(made, table, "throughput"), paired(*rates))
    what, name, scale = (
        ("final accuracy", "eval_accuracy", 100)
        if kind == "cnn"
        else ("final perplexity", "eval_perplexity", 1)
    )
    quality = [[scale * run.last[name] for run in runs_] for runs_ in (base, other)]
    agrees(row(made, table, what), paired(*quality))
    if kind == "cnn":
        mfu = [[100 * run.last["mfu"] for run in runs_] for runs_ in (base, other)]
        agrees(row(made, table, "FLOPs utilisation"), paired(*mfu))


def test_scaling_is_what_the_runs_files_say(made: PaperTables, runs: list[Run]) -> None:
    names = ("cnn-baseline", f"cnn-{STACK}")
    rates = {
        (name, ranks): np.array([r.samples / r.seconds for r in side(runs, name, ranks)])
        for name in names
        for ranks in (1, 2)
    }
    two = [rates[name, 2] for name in names]
    agrees(row(made, "Table IV:", "2 ranks: throughput"), paired(*two))
    table_row = row(made, "Table IV:", "2 ranks: efficiency")
    shares = [100 * rates[name, 2].mean() / 2 / rates[name, 1].mean() for name in names]
    agrees(table_row, {"base": shares[0], "other": shares[1], "change": shares[1] - shares[0]})
    errors = [
        share**2
        * rates[name, ranks].var(ddof=1)
        / len(rates[name, ranks])
        / rates[name, ranks].mean() ** 2
        for name, share in zip(names, shares, strict=True)
        for ranks in (1, 2)
    ]
    counts = [len(rates[name, ranks]) for name in names for ranks in (1, 2)]
    degrees = sum(errors) ** 2 / sum(e**2 / (n - 1) for e, n in zip(errors, counts, strict=True))
    half = stats.t.ppf(0.975, degrees) * math.sqrt(sum(errors))
    assert table_row.interval_change == pytest.approx(
        (table_row.change - half, table_row.change + half), rel=1e-9
    )
    assert row(made, "Table IV:", "4 ranks: throughput").ours == "not measured"


def test_components_are_what_the_ablation_says(made: PaperTables, folder: Path) -> None:
    steps = json.loads((folder / "ablation" / "result.json").read_text())["steps"]
    first = steps[0]["in_all"]
    table_row = row(made, "Table III:", "baseline")
    assert table_row.time == pytest.approx(first["time_s"]["base"] / 60)
    assert table_row.memory == pytest.approx(first["memory_bytes"]["base"] / 1e9)
    assert table_row.quality == pytest.approx(100 * first["quality"]["base"])
    for step in steps:
        in_all = step["in_all"]
        table_row = row(made, "Table III:", f"+ {step['technique']}")
        assert table_row.time == pytest.approx(in_all["time_s"]["other"] / 60)
        assert table_row.memory == pytest.approx(in_all["memory_bytes"]["other"] / 1e9)
        assert table_row.quality == pytest.approx(100 * in_all["quality"]["other"])
        base, other = (in_all["time_s"][key] for key in ("base", "other"))
        assert table_row.faster == pytest.approx(100 * (1 - other / base))
        base, other = (in_all["memory_bytes"][key] for key in ("base", "other"))
        assert table_row.less_memory == pytest.approx(100 * (1 - other / base))
        assert table_row.interval_faster[0] < table_row.faster < table_row.interval_faster[1]
    assert [step["technique"] for step in steps] == STACK.split(",")


def test_runs_that_kept_no_memory_by_kind_say_so(made: PaperTables) -> None:
    """The stored runs are of before it was recorded."""
    by_kind = [
        row
        for table in made.tables
        if "architecture" in table.title
        for row in table.rows
        if row.what.endswith(": peak memory")
    ]
    assert len(by_kind) == 5 and all(row.ours == "not measured" for row in by_kind)
    shown = render.text(made, 100)
    for row in by_kind:
        lines = [line for line in shown.splitlines() if line.startswith(f"  {row.what} (GB)")]
        assert lines and all(line.endswith("not measured") for line in lines)


def test_costs_and_patterns_are_what_the_reports_say(made: PaperTables, runs: list[Run]) -> None:
    base, other = side(runs, "cnn-baseline"), side(runs, f"cnn-{STACK}")
    joules = [[run.report["total"]["energy_j"] for run in runs_] for runs_ in (base, other)]
    per_sample = [
        [energy / run.samples for energy, run in zip(energies, runs_, strict=True)]
        for energies, runs_ in zip(joules, (base, other), strict=True)
    ]
    agrees(row(made, "what the paper lacks", "energy per sample"), paired(*per_sample), 1e-3)
    products = [
        [energy * run.seconds for energy, run in zip(energies, runs_, strict=True)]
        for energies, runs_ in zip(joules, (base, other), strict=True)
    ]
    agrees(row(made, "what the paper lacks", "energy-delay product"), paired(*products), 1e-3)
    for kind, title, part in (
        ("convolution", "a CNN", "cnn"),
        ("attention", "a transformer", "gpt"),
        ("mlp", "a transformer", "gpt"),
    ):
        spent = [
            [
                1e3 * run.spent(f"forward/{kind}", f"backward/{kind}") / run.samples
                for run in side(runs, name)
            ]
            for name in (f"{part}-baseline", f"{part}-{STACK}")
        ]
        table_row = row(made, f"patterns: {title}", f"{kind}: time")
        agrees(table_row, paired(*spent), 1e-6)


def test_speed_up_and_doubling_follow_from_the_times(made: PaperTables, runs: list[Run]) -> None:
    base, other = side(runs, "cnn-baseline"), side(runs, f"cnn-{STACK}")
    scaled = [o.seconds * b.samples / o.samples for b, o in zip(base, other, strict=True)]
    change = paired([b.seconds for b in base], scaled)
    mean, (low, high) = change["base"], change["interval_change"]
    table_row = row(made, "speed-up", "net speed-up (21)")
    assert table_row.value == pytest.approx(mean / (mean + change["change"]))
    assert table_row.interval == pytest.approx((mean / (mean + high), mean / (mean + low)))
    doubling = row(made, "speed-up", "doubling time (22)(23)")
    factors = [mean / (mean + end) for end in (low, high)]
    ends = [5 * math.log(2) / math.log(f) if f > 1 else None for f in factors]
    assert doubling.interval == pytest.approx(tuple(ends))
    recomputed = [run.spent("recompute") for run in other]
    shares = [100 * r / (run.seconds - r) for r, run in zip(recomputed, other, strict=True)]
    assert all(recomputed)
    assert row(made, "speed-up", "recomputation, of the rest").value == pytest.approx(
        np.mean(shares), rel=1e-6
    )


def sections(shown: str) -> dict[str, str]:
    """Title of a table → its lines."""
    blocks = re.split(r"\n\s*\n", shown.replace("**\n\n|", "**\n|"))
    return {block.lstrip("*").partition("\n")[0]: block for block in blocks}


@pytest.mark.parametrize("form", ["text", "narrow", "md"])
def test_every_figure_of_the_paper_is_there_in_its_unit(form: str, made: PaperTables) -> None:
    shown = {
        "text": lambda: render.text(made),
        "narrow": lambda: render.text(made, 80),
        "md": lambda: render.md(made),
    }[form]()
    if form != "md":
        assert max(map(len, shown.splitlines())) <= (80 if form == "narrow" else 100)
    by_title = sections(shown)
    for title, figures in PAPER.items():
        (block,) = [text for head, text in by_title.items() if re.match(rf"{title}\b", head)]
        # A paper's row has its figures in the order of the paper's page.
        words = NUMBER.findall(block)
        place = 0
        for figure in figures.split():
            assert figure in words[place:], f"{title}: {figure} is not there, or not in its place"
            place = words.index(figure, place) + 1
        flat = " ".join(block.split())
        for unit in UNITS.get(title, ()):
            assert unit in flat, f"{title}: {unit}"
    for title in ("Table I", "Table II"):
        (block,) = [text for head, text in by_title.items() if re.match(rf"{title}\b", head)]
        assert len(re.findall(r"95 % interval", block)) == (5 if title == "Table I" else 4)


def test_the_text_holds_no_control_characters(made: PaperTables) -> None:
    shown = render.text(replace(made, data="\x1b[31mred\x07"))
    assert "[31mred" in shown and not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown)


def shown_as(cell: str, value: float | None) -> bool:
    """Whether a cell shows a value, rounded at its last digit."""
    if value is None:
        return True
    number = NUMBER.search(cell)
    assert number is not None, (cell, value)
    digits = number.group().replace(",", "").replace("−", "-")
    _, point, decimals = digits.partition(".")
    place = (
        10.0 ** -len(decimals)
        if point
        else 10.0 ** (len(digits.strip("-+")) - len(digits.strip("-+").rstrip("0") or "0"))
    )
    return abs(float(digits) - value) <= 0.5 * place + 1e-9 * abs(value)


def test_every_number_shown_is_the_computed_one_rounded(made: PaperTables) -> None:
    lines = render.md(made).splitlines()
    tables_shown = [i for i, line in enumerate(lines) if line.startswith("| --- |")]
    checked = 0
    for table, begin in zip(made.tables, tables_shown, strict=True):
        cells = []
        for line in lines[begin + 1 :]:
            if not line.startswith("|"):
                break
            cells.append([cell.strip() for cell in line.strip("|").split("|")])
        for each in table.rows:
            label = each.what + (f" ({each.unit})" if getattr(each, "unit", "") else "")
            place = next(i for i, row in enumerate(cells) if row[0] == label)
            values = cells[place]
            if hasattr(each, "value"):
                expected = [(1, each.value)]
            elif hasattr(each, "faster"):
                expected = [(1, each.time), (2, each.memory), (3, each.quality)]
                expected += [(4, each.faster), (5, each.less_memory), (6, each.less_energy)]
            else:
                expected = [(1, each.base), (2, each.other), (3, each.change), (4, each.percent)]
            for column, value in expected:
                assert shown_as(values[column], value), (each.what, values[column], value)
                checked += value is not None
            if limits := getattr(each, "interval_change", None):
                low, high = cells[place + 1][3].split(" … ")
                assert shown_as(low, limits[0]) and shown_as(high, limits[1]), each.what
                checked += 2
            cells = cells[place + 1 :]
    assert checked > 100


def test_the_command_takes_names_with_commas_and_writes_every_format(
    folder: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    words = ["tables", "gpt-baseline", f"gpt-{STACK}", "--dir", str(folder / "runs"), "--format"]

    def run(format_: str) -> None:
        with pytest.raises(SystemExit) as ended:
            main([*words, format_])
        assert ended.value.code == 0

    run("json")
    written = json.loads(capsysbinary.readouterr().out)
    assert written["schema"] == 1 and written["other"]["name"] == f"gpt-{STACK}"
    assert [t["table"] for t in written["tables"]][:3] == ["II", "III", "IV"]
    assert written["tables"][0]["rows"][0]["paper"]["base"] == {"value": 3.82, "printed": "3.82"}
    words += ["json", "--also", "cnn-baseline", f"cnn-{STACK}", "--format"]
    run("json")
    both = json.loads(capsysbinary.readouterr().out)
    assert {"I", "II"} <= {table["table"] for table in both["tables"]}
    for format_, begin in (("text", "gpt-"), ("md", "gpt-")):
        run(format_)
        assert capsysbinary.readouterr().out.decode().startswith(begin)
