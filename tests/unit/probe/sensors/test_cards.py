"""What is published of how far meters are off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from probe.model import Kind, Provenance, Source
from probe.sensors import cards
from probe.sensors.cards import systematic


def meter(model: str = "", provenance: Provenance = Provenance.MEASURED) -> Source:
    return Source(
        id="nvml:GPU-0:energy",
        device="gpu0",
        quantity="energy",
        unit="J",
        kind=Kind.COUNTER,
        provenance=provenance,
        model=model,
    )


def test_a_published_card_has_its_own_errors() -> None:
    errors = systematic(meter("NVIDIA GeForce RTX 4090"))
    assert errors is not None
    assert (errors.gain, errors.offset_w, errors.origin) == (0.047, -21.6, "database")
    # It shows 1.047 × 70 W − 21.6 W of an idle card for 10 s: the truth lies within.
    shown = (1.047 * 70 - 21.6) * 10
    assert abs(shown - 700) <= errors.half_j(shown, 10.0)


def test_any_other_card_has_what_vendors_state() -> None:
    errors = systematic(meter("NVIDIA H100 80GB HBM3"))
    assert errors is not None
    assert (errors.gain, errors.offset_w, errors.origin) == (0.05, 0.0, "vendor")
    assert errors.half_j(1000.0, 60.0) == pytest.approx(50.0)


def test_a_model_is_no_meter() -> None:
    assert systematic(meter(provenance=Provenance.MODELLED)) is None


def test_the_database_keeps_its_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    folder = Path(cards.__file__).parent
    schema = json.loads((folder / "cards.schema.json").read_text())
    stored = json.loads((folder / "cards.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(stored, schema)
    assert len(cards.cards()) == len(stored["cards"]) and not cards.problems()


def test_an_entry_of_a_driver_is_of_that_driver_only() -> None:
    card = cards.published("NVIDIA GeForce RTX 4090", "power", "530.30.02")
    assert card is not None and card.window_s == 0.1
    assert cards.published("NVIDIA GeForce RTX 4090", "power", "5300.1") is None
    assert cards.published("NVIDIA GeForce RTX 4090", "energy", "530.30.02") is None
    a100 = cards.published("NVIDIA A100-PCIE-40GB", "power", "570.00")
    assert a100 is not None and a100.window_s == 0.025


GOOD = {
    "model": "A card",
    "quantities": ["power"],
    "window_s": 0.04,
    "source": "me",
    "date": "2026-11",
}
MALFORMED = [
    7,
    {},
    GOOD | {"window_s": "long"},
    GOOD | {"window_s": -1.0},
    GOOD | {"window_s": True},
    GOOD | {"gain": 0.1},
    GOOD | {"watts": 1},
    GOOD | {"model": ""},
    GOOD | {"quantities": 3},
]


def test_a_malformed_entry_is_left_out_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"version": 1, "cards": [*MALFORMED, GOOD]}))
    monkeypatch.setenv("PROBE_CARDS", str(file))
    assert len(cards.problems()) == len(MALFORMED)
    assert all(line.startswith("mine.json: entry ") for line in cards.problems())
    own = cards.published("A card", "power", "1")
    assert own is not None and own.window_s == 0.04
    schema = json.loads((Path(cards.__file__).parent / "cards.schema.json").read_text())
    for entry in MALFORMED:  # the schema says the same
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"version": 1, "cards": [entry]}, schema)


@pytest.mark.parametrize("text", ["", "[]", '{"version": 9, "cards": []}', "\x00", '{"version":1}'])
def test_a_broken_file_is_ignored_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    file = tmp_path / "broken.json"
    file.write_text(text)
    monkeypatch.setenv("PROBE_CARDS", str(file))
    assert len(cards.problems()) == 1 and cards.cards()
