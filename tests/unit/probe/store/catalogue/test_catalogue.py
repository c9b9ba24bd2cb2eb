"""A list of runs: the same from the cache and from the runs, whatever becomes of either."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from probe.analysis.carbon_and_price import Tariffs, tariff
from probe.analysis.run_sums import sum_line, worths
from probe.cli.main import main
from probe.errors import UsageError
from probe.model import RunStatus
from probe.report.build import list_row
from probe.store import files, layout
from probe.store.catalogue import Catalogue, Hungriest, RunSummary, listing
from probe.store.catalogue.kept import kept_file
from probe.store.catalogue.labels import change_labels
from probe.store.catalogue.rows import empty_row
from probe.store.catalogue.search import check_days, matching
from probe.store.catalogue.totals import Worth, total, totals_by
from probe.store.live import LiveDevice, LivePage, write_live
from probe.store.runs import create_run
from tests.fakes.listed_runs import summaries
from tests.fakes.stored_run import counter, energy_source, stored_run


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PROBE_CALIBRATION", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(listing, "_KEPT_FROM", 1)
    return tmp_path / "cache"


def finished(directory: Path, number: int, **fields: Any) -> Path:
    run = create_run(directory, f"20260101-0000{number:02}-r", shared=False, fields={"name": "r"})
    meta = files.read_run_file(run)
    value = {
        "status": RunStatus.FINISHED,
        "started": f"2026-01-0{number + 1}T00:00:00+00:00",
        "end_ns": meta["begin_ns"] + 3600 * 10**9,
        "steps": 10,
        "accelerators": 2,
        "total": {"energy_j": 1000.0 * number, "co2e_g": 0.1 * number},
    }
    files.write_json(run / layout.RUN_FILE, meta | value | fields, checked=True)
    past_s = 1e9 + number  # long ago, as most runs of a directory
    os.utime(run, (past_s, past_s))
    return run


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for number in range(1, 5):
        finished(tmp_path / "runs", number)
    return tmp_path / "runs"


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    read: list[Path] = []

    def counted(path: Path) -> RunSummary:
        read.append(path)
        return original(path)

    original = listing.summary
    monkeypatch.setattr(listing, "summary", counted)
    return read


def test_what_has_not_changed_is_not_read_again(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = summaries(directory)
    assert [row["energy_j"] for row in rows] == [4000.0, 3000.0, 2000.0, 1000.0]
    assert rows[0]["devices"] == 2 and rows[0]["duration_s"] == 3600.0
    read = count_reads(monkeypatch)
    assert summaries(directory) == rows and not read
    changed = finished_again(directory / "20260101-000002-r", {"energy_j": 7.0})
    assert {row["energy_j"] for row in summaries(directory)} == {4000.0, 3000.0, 7.0, 1000.0}
    assert read == [changed]


def finished_again(run: Path, totals: dict[str, float]) -> Path:
    meta = files.read_run_file(run)
    files.write_json(run / layout.RUN_FILE, meta | {"total": totals}, checked=True)
    return run


@pytest.mark.parametrize(
    ("recorded", "listed"),
    [
        ([250.37, 99.62], [250, 100]),
        ([5.24, 7.81], [5.24, 7.81]),  # a laptop's: whole watts would be a flat line
        ([], []),
    ],
)
def test_power_in_a_list_has_the_digits_that_a_sparkline_shows(
    tmp_path: Path, recorded: list[float], listed: list[float]
) -> None:
    finished(tmp_path, 1, power={"provenance": "measured", "power_w": recorded})
    (row,) = summaries(tmp_path)
    assert row["power"] == {"provenance": "measured", "power_w": listed}


@pytest.mark.parametrize("power", [[1.0], "much", {"power_w": "much"}, {"power_w": ["a", 3]}])
def test_power_that_is_none_is_not_shown(tmp_path: Path, power: Any) -> None:
    finished(tmp_path, 1, power=power)
    (row,) = summaries(tmp_path)
    assert row["power"] is None and row["energy_j"] == 1000.0


def test_labels_are_seen_at_once_and_are_never_only_in_the_cache(directory: Path) -> None:
    catalogue = Catalogue(directory)
    catalogue.rows()
    run = directory / "20260101-000003-r"
    for tag in ("a", "b", "c"):  # within one tick of the file system's clock
        change_labels(run, add=[tag])
        assert {row["id"]: row["tags"] for row in catalogue.rows()}[run.name][-1] == tag
    assert kept_file(directory) is not None
    catalogue.keep(now=True)
    shutil.rmtree(kept_file(directory).parent)  # type: ignore[union-attr]
    assert {row["id"]: row["tags"] for row in summaries(directory)}[run.name] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\xff\x00" * 99),
        lambda path: path.write_text(path.read_text().replace('"r"', "{", 1)),
        lambda path: path.write_text(path.read_text().replace('"version": ', '"version": 9')),
        lambda path: path.write_text(path.read_text().replace('"tags"', '"tag"')),
        lambda path: path.write_text(path.read_text().split("\n")[0] + "\n[]\n[1,2,3,4]\n{}"),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), os.mkfifo(path)),
    ],
)
def test_a_cache_that_is_no_good_is_made_again(harm: Any, directory: Path) -> None:
    rows = summaries(directory)
    path = kept_file(directory)
    assert path is not None and path.stat().st_mode & 0o077 == 0
    harm(path)
    assert summaries(directory) == rows == summaries(directory)


def test_without_a_place_for_the_cache_runs_are_listed(
    directory: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.write_text("a file where the folder should be")
    assert len(summaries(directory)) == 4
    directory.chmod(0o555)
    try:
        assert len(summaries(directory)) == 4
    finally:
        directory.chmod(0o755)


def test_runs_that_go_on_are_read_each_time_and_not_kept(directory: Path) -> None:
    create_run(directory, "20260201-000000-live", shared=False, fields={"name": "live"})
    assert summaries(directory)[0]["status"] == "running"
    path = kept_file(directory)
    assert path is not None
    kept = [json.loads(line)[0] for line in path.read_text().splitlines()[1:]]
    assert len(kept) == 4 and "20260201-000000-live" not in kept


def list_runs(directory: Path, *words: str) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["ls", str(directory), *words])


def test_the_command_lists_what_a_running_run_has_used(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = create_run(directory, "20260201-000000-live", shared=False, fields={"name": "live"})
    gpu = LiveDevice("gpu0", "nvml", "measured", 1234.0, 200.0, 0)
    node = layout.node_dir(run).name.removeprefix("node-")
    write_live(run, LivePage(0, time.time(), node=node, steps=42, devices=(gpu,)))
    list_runs(directory, "--json")
    row = json.loads(capsys.readouterr().out)[0]
    assert (row["status"], row["energy_j"], row["steps"]) == ("running", 1234.0, 42)


def test_a_list_stops_reading_killed_runs_and_the_next_one_goes_on(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reading one takes long; what was read, and what cannot be read, is not tried again."""
    for number in (1, 2, 3):
        killed = f"20260101-0000{number:02}-r"
        file = directory / killed / layout.RUN_FILE
        meta = dict(files.read_run_file(file.parent))
        files.write_json(file, meta | {"status": RunStatus.KILLED, "total": {}}, checked=True)
    tried: list[str] = []

    def read(run: Path) -> dict[str, Any]:
        tried.append(run.name[-4:])
        if run.name.endswith("02-r"):
            raise ValueError("damaged")
        return {"energy_j": 5.0, "steps": 7, "hungriest": None}

    monkeypatch.setattr(list_row, "reported_fields", read)
    monkeypatch.setattr(list_row, "_MOST_S", -1.0)
    list_runs(directory)
    assert not tried and "not read yet: 3;" in capsys.readouterr().err
    monkeypatch.setattr(list_row, "_MOST_S", 60.0)
    for _ in range(2):
        list_runs(directory, "--json")
        rows = json.loads(capsys.readouterr().out)
        assert [row["energy_j"] for row in rows] == [4000.0, 5.0, None, 5.0]
    assert tried == ["03-r", "02-r", "01-r"]


def test_parts_of_a_job_that_were_merged_and_deleted_runs_go(directory: Path) -> None:
    summaries(directory)
    (directory / "20260101-000001-r" / layout.MERGED).write_text("{}")
    shutil.rmtree(directory / "20260101-000002-r")
    assert [row["id"][-4:] for row in summaries(directory)] == ["04-r", "03-r"]


def row(name: str, **fields: Any) -> RunSummary:
    day = fields.pop("day", "2026-11-03")
    return empty_row(f"id-{name}", "finished") | {  # type: ignore[return-value]
        "name": name,
        "started": f"{day}T10:00:00+00:00",
        **fields,
    }


DATA = Hungriest(phase="data", share=0.6, of="time")
RUNS = [
    row("plain", tags=["sweep"], host="node1", config="lr=0.1 optimizer.name=adam"),
    row("faster", tags=["sweep", "paper"], note="Diverged after WARM-UP", host="node2"),
    row("old", day="2026-09-30", archived=True, tags=["paper"]),
    row("bf16", day="2026-12-01", status="failed", hungriest=DATA),
]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ["plain", "faster", "bf16"]),
        ("SWEEP", ["plain", "faster"]),
        ("sweep node2", ["faster"]),
        ("tag:paper", ["faster"]),
        ("tag:pap -node2", []),
        ("-sweep", ["bf16"]),
        ("-tag:paper", ["plain", "bf16"]),
        ("config:lr=0.1", ["plain"]),
        ("lr=0.1 adam", ["plain"]),
        ("note:warm-up", ["faster"]),
        ('"after warm"', ["faster"]),
        ('"warm after"', []),
        ("status:failed", ["bf16"]),
        ("host:node", ["plain", "faster"]),
        ("phase:data", ["bf16"]),
        ("date:2026-11", ["plain", "faster"]),
        ("from:2026-11-04", ["bf16"]),
        ("from:2026-11 to:2026-11", ["plain", "faster"]),
        ("to:2026-11-03", ["plain", "faster"]),
        ('"', ["plain", "faster", "bf16"]),
        ("nosuch:thing", []),
        ("id:id-f", ["faster"]),
    ],
)
def test_search(text: str, names: list[str]) -> None:
    assert [each["name"] for each in matching(RUNS, text)] == names


def test_what_is_no_date_is_refused() -> None:
    for text in ("", "from:2026", "from:2026-11 to:2026-11-03", "name:yesterday"):
        check_days(text)
    for word in ("from:yesterday", "to:2026-13-01", "from:2026-1", "to:20261101"):
        with pytest.raises(UsageError, match=f"{word} is not a date: write .*2026-11-01"):
            check_days(word)


def test_archived_runs_are_there_when_they_are_asked_for() -> None:
    assert [each["name"] for each in matching(RUNS, "paper", archived=True)] == ["faster", "old"]


def test_totals_keep_apart_what_was_measured_and_what_a_model_says() -> None:
    rows = [
        row("a", energy_j=3.6e6, modelled_energy_j=9e9, duration_s=3600.0, devices=8, co2e_g=400.0),
        row("b", modelled_energy_j=3.6e6, g_per_kwh=500.0, duration_s=1800.0, devices=1),
        row("c", tags=["x", "y"], energy_j=7.2e6),
        row("d"),
    ]
    found_total = total(rows)
    assert (found_total.measured_j, found_total.modelled_j) == (10.8e6, 3.6e6)
    assert (found_total.co2e_g, found_total.modelled_co2e_g) == (400.0, 500.0)
    assert found_total.device_hours == 8.5
    assert (found_total.runs, found_total.unknown, found_total.no_co2e) == (4, 1, 1)
    line = " · ".join(sum_line(found_total, ""))
    assert line.startswith("4 runs · 3.00 kWh measured · 1.00 kWh by models · 400 g CO2e · ")
    by_tag = totals_by(rows, "tag", {"c": Worth()})
    assert {key: of.measured_j for key, of in by_tag.items()} == {"x": 7.2e6, "y": 7.2e6, "": 3.6e6}


def test_cost_and_intensity_that_are_given(tmp_path: Path) -> None:
    prices = tmp_path / "prices.csv"
    prices.write_text(
        "time,price EUR/kWh\n2026-11-03T10:00,0.10\n2026-11-03T11:00,0.50\n2026-11-03T12:00,0.50\n"
    )
    watts = {"provenance": "measured", "power_w": [100.0, 300.0]}
    two_hours = row("a", energy_j=3.6e6, duration_s=7200.0, power=watts)
    later = row("b", day="2026-11-09", energy_j=3.6e6, duration_s=7200.0)
    tariffs = Tariffs(tariff("200", "intensity", "g"), tariff(str(prices), "price", ""))
    worth = worths([two_hours, later], tariffs)
    assert worth["id-a"].price_per_kwh == pytest.approx(0.25 * 0.10 + 0.75 * 0.50)
    assert worth["id-b"].price_per_kwh is None  # the file says nothing of that day
    summed = total([two_hours, later], worth)
    assert summed.co2e_g == pytest.approx(400.0) and summed.cost == pytest.approx(0.4)
    assert summed.no_cost == 1


def test_devices_of_a_run_whose_run_json_does_not_count_them(tmp_path: Path, cache: Path) -> None:
    samples = counter(10**12, 5.0, 100.0)
    stored_run(tmp_path, [(energy_source(gpu), samples) for gpu in range(3)], 5.0)
    (row,) = summaries(tmp_path)
    assert row["devices"] == 3
    (tmp_path / row["id"] / f"node-{layout.node_name()}" / "sources.json").unlink()
    shutil.rmtree(cache)
    assert summaries(tmp_path)[0]["devices"] == 1  # the host


def test_the_command_searches_adds_up_and_says_what_it_leaves_out(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change_labels(directory / "20260101-000004-r", archived=True)
    change_labels(directory / "20260101-000003-r", add=["sweep"])

    def ls(*words: str) -> str:
        with pytest.raises(SystemExit):
            main(["ls", str(directory), *words])
        captured = capsys.readouterr()
        return captured.out + captured.err

    assert "20260101-000004-r" not in ls() and "(1 archived: --all shows them, too)" in ls()
    assert "20260101-000004-r" in ls("--all")
    assert [row["archived"] for row in json.loads(ls("--json"))] == [True, False, False, False]
    assert len(ls("--search", "tag:sweep").splitlines()) == 3
    assert "no run of 4" in ls("--search", "tag:other")
    sums = json.loads(ls("--by", "tag", "--json"))
    assert sums["tag"]["sweep"]["measured_j"] == 3000.0 and sums["all"]["runs"] == 4
    assert ls("--by", "day").splitlines()[-1].split()[:3] == ["all", "3", "6.00"]


def test_runs_of_a_batch_job_are_found_and_added_up(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def of_job(number: int, **fields: str) -> None:
        job = {"scheduler": "slurm", "account": "ml", "user": "ann", **fields}
        finished(directory, number, scheduler=job)

    of_job(5, job_id="70")
    of_job(6, job_id="70", restarts="1")
    of_job(7, job_id="81", array_job_id="80", array_task_id="3")
    of_job(8, job_id="90", account="bio")
    finished(directory, 9, scheduler={"scheduler": "/etc/passwd", "job_id": "70"})

    def ls(*words: str) -> int:
        with pytest.raises(SystemExit) as ended:
            main(["ls", str(directory), *words])
        return int(ended.value.code or 0)

    def ids(*words: str) -> list[str]:
        assert ls("--json", *words) == 0
        return [row["id"][13:15] for row in json.loads(capsys.readouterr().out)]

    assert ids("--job", "70") == ["06", "05"]
    assert ids("--job", "80") == ids("--job", "80_3") == ids("--search", "job:80_3") == ["07"]
    assert ids("--account", "ml") == ["07", "06", "05"]
    assert ids("--user", "ann", "--account", "bio") == ["08"]
    assert ids("--job", "7") == []
    assert ls("--by", "job", "--json") == 0
    sums = json.loads(capsys.readouterr().out)["job"]
    assert sums["70"]["measured_j"] == 11_000 and sums["80_3"]["runs"] == 1
    assert sums[""]["runs"] == 5
    assert ls("--job", "1") != 0
    assert "batch job" in capsys.readouterr().err
