"""The estimator in the recorder: fed in portions, sealed, read back, taken up again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from probe.attribution.accumulator import Accumulator
from probe.attribution.estimate import estimate
from probe.attribution.regression.serialization import from_arrays, to_arrays
from probe.attribution.regression.statistics import Statistics
from probe.attribution.spans import Spans
from probe.clock import MACHINE_CLOCK
from probe.model import DeviceRequest, Kind, Provenance, Sample, Source
from probe.recorder.pipeline import attribution as module
from probe.recorder.pipeline.attribution import AttributionStage
from probe.recorder.pipeline.timelines import Settled, Timelines
from probe.ring.layout import Code
from probe.ring.reader import SLOT_DTYPE
from probe.store.files import read_arrays
from probe.store.layout import node_dir, statistics_path
from probe.store.members import Member
from probe.timeline.span_table import SpanTable
from tests.fakes.power_traces import STEPS, Counter, make_trace, scheduled_reads

SOURCE = Source(
    id="nvml:GPU-0:energy",
    device="gpu0",
    quantity="energy",
    unit="J",
    kind=Kind.COUNTER,
    provenance=Provenance.MEASURED,
    scale=1e-3,
    uuid="GPU-0",
    in_total=True,
)
END_NS = 60 * 10**9
CODES = np.array([Code.DATA, Code.FORWARD, Code.BACKWARD, Code.COMMUNICATION, Code.OPTIMIZER])


def member(rank: int) -> Member:
    return Member(
        role="rank",
        rank=rank,
        local_rank=rank,
        local_world_size=1,
        world_size=1,
        host="h",
        boot_id="b",
        pid=1,
        start_ticks=1,
        begin_ns=0,
        rings="",
        prefix="",
        request=DeviceRequest(devices="0"),
        info={},
    )


@pytest.fixture(scope="module")
def scene():
    rng = np.random.default_rng(5)
    trace = make_trace(STEPS["60 ms"], 60.0, rng)
    at, value = Counter().updates(trace, rng)
    return trace, scheduled_reads(at, value, float(trace.edges_s[-1]), rng)


def portions(trace, reads, begin_s, end_s, portion_s=0.9):
    """(spans, samples) as the recorder would meet them."""
    for until in np.arange(begin_s + portion_s, end_s + portion_s, portion_s):
        since = until - portion_s
        within = (trace.span_s[1:] > since) & (trace.span_s[1:] <= min(until, end_s))
        number = int(within.sum())
        none = np.zeros(number, np.int64)
        yield (
            SpanTable(
                (trace.span_s[:-1][within] * 1e9).astype(np.int64),
                (trace.span_s[1:][within] * 1e9).astype(np.int64),
                CODES[trace.code[within]].astype(int),
                none,
                none,
                none.astype(bool),
                ~none.astype(bool),
            ),
            [
                Sample(SOURCE.id, round(t * 1e9), round(j * 1e3), round(s * 1e9))
                for t, s, j in zip(reads.time_s, reads.span_s, reads.joules, strict=True)
                if since < t <= min(until, end_s)
            ],
        )


def feed(attributing: AttributionStage, parts) -> None:
    for table, samples in parts:
        attributing.spans({0: Settled(table, None)})
        attributing.readings(samples)
        attributing.advance([member(0)])


def sealed(run: Path):
    arrays = read_arrays(statistics_path(run, SOURCE.id))
    assert arrays is not None
    return from_arrays(arrays)


def followed() -> Timelines:
    """One rank with one ring."""
    timelines = Timelines()
    timelines.add(0, "main", np.empty(0, SLOT_DTYPE), SpanTable.empty())
    return timelines


def begun(run: Path) -> AttributionStage:
    node_dir(run).mkdir(parents=True, exist_ok=True)
    attributing = AttributionStage(run, 0, MACHINE_CLOCK)
    attributing.open([SOURCE])
    return attributing


def energies(statistics: Statistics, trace) -> tuple[np.ndarray, np.ndarray]:
    inside = np.diff(np.clip(trace.span_s, statistics.begin_s, statistics.end_s))
    seconds = {int(CODES[j]): float(inside[trace.code == j].sum()) for j in range(5)}
    truth = trace.truth(statistics.begin_s, statistics.end_s)
    estimated = estimate(statistics, float(truth.sum()), seconds)
    assert estimated is not None
    phases = [estimated.of(int(code)) for code in CODES]
    return np.array([k.energy_j for k in phases]), np.array(
        [k.high_j - k.low_j for k in phases]
    ) / 2


def test_what_is_sealed_is_what_the_raw_data_say(scene, tmp_path: Path) -> None:
    trace, reads = scene
    attributing = begun(tmp_path)
    feed(attributing, portions(trace, reads, 0.0, 61.0))
    attributing.save([member(0)], followed(), END_NS)
    streamed, about = sealed(tmp_path)
    assert about == {
        "source": SOURCE.id,
        "rank": 0,
        "complete": True,
        "resumed": False,
        "rings": ["main"],
        "on_device": False,
    }
    batch = Accumulator(begin_s=0.0)
    batch.feed_spans(Spans(trace.span_s[:-1], trace.span_s[1:], CODES[trace.code].astype(int)))
    batch.feed_reads(reads.time_s, reads.span_s, reads.joules)
    (streamed_j, half), (other, _) = energies(streamed, trace), energies(batch.finish(60.0), trace)
    assert (np.abs(streamed_j - other) <= 0.05 * half).all()


def test_statistics_survive_as_arrays(scene) -> None:
    trace, reads = scene
    batch = Accumulator()
    batch.feed_spans(Spans(trace.span_s[:-1], trace.span_s[1:], trace.code))
    batch.feed_reads(reads.time_s, reads.span_s, reads.joules)
    before = batch.finish()
    after, about = from_arrays(to_arrays(before, rank=3))
    assert about == {"rank": 3}
    assert after.columns == before.columns and np.array_equal(after.ledger, before.ledger)
    for lane, other in zip(before.lanes, after.lanes, strict=True):
        assert (lane.response, lane.tie, lane.gain) == (other.response, other.tie, other.gain)
        assert np.array_equal(lane.power_w, other.power_w)
        assert np.array_equal(lane.blur_s2, other.blur_s2)
        for a, b in zip(lane.blocks.full(), other.blocks.full(), strict=True):
            assert np.array_equal(a, b)
    with pytest.raises(ValueError):
        from_arrays({})


def test_the_next_recorder_goes_on_with_them(scene, tmp_path: Path) -> None:
    trace, reads = scene
    first = begun(tmp_path)
    feed(first, portions(trace, reads, 0.0, 50.0))
    first.save([member(0)], followed())  # then it is killed
    second = begun(tmp_path)
    feed(second, portions(trace, reads, 52.0, 61.0))
    second.save([member(0)], followed(), END_NS)
    kept, about = sealed(tmp_path)
    assert about["resumed"]  # so that a report goes through the raw data while they are there
    energy, _ = energies(kept, trace)
    truth = trace.truth(kept.begin_s, kept.end_s)
    assert 0.5 * np.abs(energy - truth).sum() / truth.sum() < 0.03


def test_a_meter_that_fails_harms_no_other(
    scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, reads = scene
    other = replace(SOURCE, id="nvml:GPU-0:other")
    attributing = begun(tmp_path)
    attributing.open([other])
    parts = list(portions(trace, reads, 0.0, 61.0))
    original = Accumulator.feed_reads

    def failing(self: Accumulator, time_s, span_s, joules) -> None:
        if len(joules) and joules[0] > 1e6:
            raise ZeroDivisionError("float division by zero")
        original(self, time_s, span_s, joules)

    monkeypatch.setattr(Accumulator, "feed_reads", failing)
    for number, (table, samples) in enumerate(parts):
        attributing.spans({0: Settled(table, None)})
        shift = 10**12 if number == 20 else 0
        attributing.readings(samples)
        attributing.readings([replace(s, source=other.id, value=s.value + shift) for s in samples])
        attributing.advance([member(0)])
    attributing.save([member(0)], followed(), END_NS)
    assert sealed(tmp_path)[1]["complete"]
    assert read_arrays(statistics_path(tmp_path, other.id)) is None
    assert attributing.followed() == [SOURCE.id]
    (line,) = attributing.warnings
    assert line.startswith(other.id) and "ZeroDivisionError" in line


def test_a_device_of_two_ranks_is_left_alone(tmp_path: Path) -> None:
    node_dir(tmp_path).mkdir(parents=True)
    attributing = AttributionStage(tmp_path, 0, MACHINE_CLOCK)
    attributing.open([SOURCE])
    attributing.save([member(0), member(1)], followed(), END_NS)
    assert read_arrays(statistics_path(tmp_path, SOURCE.id)) is None


def test_a_rank_that_joins_late_is_followed_from_the_begin(scene, tmp_path: Path) -> None:
    trace, reads = scene
    node_dir(tmp_path).mkdir(parents=True)
    attributing = AttributionStage(tmp_path, 0, MACHINE_CLOCK)
    attributing.open([SOURCE])
    for number, (table, samples) in enumerate(portions(trace, reads, 0.0, 61.0)):
        attributing.readings(samples)
        if number >= 3:  # `probe run` imports before it trains
            attributing.spans({0: Settled(table, None)})
        attributing.advance([member(0)] if number >= 3 else [])
    attributing.save([member(0)], followed(), END_NS)
    arrays = read_arrays(statistics_path(tmp_path, SOURCE.id))
    assert arrays is not None
    assert from_arrays(arrays)[0].begin_s < 1.0


def test_too_much_work_is_thinned_and_said(scene, tmp_path: Path, monkeypatch) -> None:
    trace, reads = scene
    monkeypatch.setattr(module, "_JUDGED_S", 0.0)
    monkeypatch.setattr(module, "_MOST_CPU", 2.0)  # this test does nothing else
    attributing = begun(tmp_path)
    parts = list(portions(trace, reads, 0.0, 61.0))
    feed(attributing, parts[:20])
    assert not attributing.warnings
    monkeypatch.setattr(module, "_MOST_CPU", 0.0)
    feed(attributing, parts[20:21])
    assert not attributing.warnings, "once may be the search for the lag"
    feed(attributing, parts[21:22])
    assert attributing.warnings and "one update of the meters in 2" in attributing.warnings[0]
    monkeypatch.setattr(module, "_MOST_CPU", 2.0)
    feed(attributing, parts[22:])
    attributing.save([member(0)], followed(), END_NS)
    kept, _ = sealed(tmp_path)
    assert kept.mixed_rows == pytest.approx(600 * (21 + 39 / 2) / 60, rel=0.15)
    energy, _ = energies(kept, trace)
    truth = trace.truth(kept.begin_s, kept.end_s)
    assert 0.5 * np.abs(energy - truth).sum() / truth.sum() < 0.04


def test_trouble_never_reaches_the_recording(scene, tmp_path: Path, capfd) -> None:
    trace, reads = scene
    attributing = begun(tmp_path)
    (table, samples), *_ = portions(trace, reads, 0.0, 1.0)
    broken = SpanTable(*(np.flip(getattr(table, f)) for f in table.__dataclass_fields__))
    attributing.spans({0: Settled(broken, None)})
    attributing.readings(samples)
    attributing.advance([member(0)])
    attributing.save([member(0)], followed(), END_NS)


def test_a_recorder_beats_between_two_meters(tmp_path: Path) -> None:
    node_dir(tmp_path).mkdir(parents=True, exist_ok=True)
    worked: list[str] = []
    attributing = AttributionStage(tmp_path, 0, MACHINE_CLOCK, lambda: worked.append("beat"))
    sources = [replace(SOURCE, id=f"meter-{number}") for number in range(3)]
    attributing.open(sources)
    attributing.advance([member(0)])
    for number in range(3):
        meter = attributing._meters[f"meter-{number}"].accumulator
        meter.feed_reads = lambda *_, number=number: worked.append(str(number))
    attributing.readings([Sample(source.id, 10**9, 1.0) for source in sources])
    worked.clear()
    attributing.advance([member(0)])
    assert worked == ["beat", "0", "beat", "1", "beat", "2"]
