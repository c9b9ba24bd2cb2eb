"""CodeCarbon is asked once per machine, version and question; what is kept is checked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from probe.errors import UsageError
from probe.sensors import _kept_answers
from probe.sensors._carbon import carbon_intensity
from probe.sensors._kept_answers import kept_answer


@dataclass(frozen=True)
class Watts:
    watts: float


class Oracle:
    """Answers 7 W, and counts how often it is asked."""

    def __init__(self) -> None:
        self.times_asked = 0

    def __call__(self) -> Watts:
        self.times_asked += 1
        return Watts(7.0)

    def answer(self, question: str = "processor A") -> float:
        return kept_answer(Watts, question, self, lambda kept: kept.watts > 0).watts


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PROBE_CALIBRATION", raising=False)
    return tmp_path / "phasewatt" / "codecarbon"


def only_file(cache: Path) -> Path:
    (path,) = cache.iterdir()
    return path


def test_it_is_asked_once_for_each_question(cache: Path) -> None:
    oracle = Oracle()
    assert [oracle.answer(), oracle.answer()] == [7.0, 7.0]
    assert oracle.times_asked == 1
    assert oracle.answer("processor B") == 7.0
    assert oracle.times_asked == 2


def test_another_version_is_asked_anew(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    oracle = Oracle()
    oracle.answer()
    monkeypatch.setattr(_kept_answers, "version", lambda _package: "99.0")
    oracle.answer()
    assert oracle.times_asked == 2


@pytest.mark.parametrize(
    "kept",
    [
        "",
        "{",
        "[1]",
        "null",
        '{"answer": {"watts": 5.0}}',
        '{"question": "processor B", "answer": {"watts": 5.0}}',
        '{"question": QUESTION, "answer": {"watts": -5.0}}',
        '{"question": QUESTION, "answer": {"watts": "5"}}',
        '{"question": QUESTION, "answer": {"watts": 5.0, "more": 1}}',
        '{"question": QUESTION, "answer": [5.0]}',
    ],
)
def test_what_cannot_be_an_answer_is_asked_anew_and_replaced(cache: Path, kept: str) -> None:
    oracle = Oracle()
    oracle.answer()
    path = only_file(cache)
    question = json.loads(path.read_text())["question"]
    path.write_text(kept.replace("QUESTION", json.dumps(question)))
    assert [oracle.answer(), oracle.answer()] == [7.0, 7.0]
    assert oracle.times_asked == 2
    path.write_text(json.dumps({"question": question, "answer": {"watts": 5.0}}))
    assert oracle.answer() == 5.0  # a whole one is believed


def test_where_nothing_can_be_kept_it_is_asked_every_time(cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("a file where the folder should be")
    oracle = Oracle()
    assert [oracle.answer(), oracle.answer()] == [7.0, 7.0]
    assert oracle.times_asked == 2


def test_a_refusal_is_not_kept(cache: Path) -> None:
    for _ in range(2):
        with pytest.raises(UsageError, match="'FRA'"):
            carbon_intensity("XXX")
    assert not cache.exists()
    assert carbon_intensity("FRA") == carbon_intensity("FRA")
    assert "france" in only_file(cache).read_text().lower()
