"""``./runs`` is other tools' folder, too: said in one line, once."""

from __future__ import annotations

from pathlib import Path

from probe.store.foreign_folder import foreign_line


def test_tensorboards_events_are_said_once(tmp_path: Path) -> None:
    (tmp_path / "exp").mkdir()
    (tmp_path / "exp" / "events.out.tfevents.1").touch()
    line = foreign_line(tmp_path)
    assert line is not None
    assert "TensorBoard" in line
    assert "PROBE_DIR" in line
    assert "\n" not in line
    assert foreign_line(tmp_path) is None


def test_another_tools_folder(tmp_path: Path) -> None:
    (tmp_path / "detect").mkdir()
    assert "detect" in (foreign_line(tmp_path) or "")


def test_a_folder_of_ours_is_none(tmp_path: Path) -> None:
    assert foreign_line(tmp_path / "missing") is None
    (tmp_path / "20250101-000000-ours").mkdir()
    (tmp_path / "20250101-000000-ours" / "run.json").touch()
    (tmp_path / "ablation").mkdir()  # where `probe ablate` keeps its trials
    (tmp_path / "ablation" / "ablation.json").touch()
    (tmp_path / "cards").mkdir()  # and `probe card`
    (tmp_path / "cards" / "cards.json").touch()
    (tmp_path / "search").mkdir()  # and `probe search`
    (tmp_path / "search" / "search.json").touch()
    assert foreign_line(tmp_path) is None
