"""The ring: what is written is read, once, in order; what is lost is counted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from probe.errors import StoreError
from probe.ring import layout
from probe.ring.layout import SLOTS, Code, Record
from probe.ring.reader import RingReader
from probe.ring.writer import RingWriter


def make(tmp_path: Path, capacity: int = 64) -> tuple[RingWriter, RingReader]:
    writer = RingWriter(tmp_path / "a.ring", capacity=capacity)
    return writer, RingReader(tmp_path / "a.ring")


def test_records_come_back_in_order_with_their_content(tmp_path: Path) -> None:
    writer, reader = make(tmp_path)
    for i in range(10):
        writer.write_at(1000 + i, Record.MARK, Code.DATA, -i)
    batch = reader.read()
    assert batch.rows["time_ns"].tolist() == list(range(1000, 1010))
    assert batch.rows["payload"].tolist() == [-i for i in range(10)]
    assert set(batch.rows["kind"]) == {Record.MARK}
    assert batch.holes == ()
    assert len(reader.read().rows) == 0


def test_many_laps_lose_nothing_while_the_reader_keeps_up(tmp_path: Path) -> None:
    writer, reader = make(tmp_path)
    seen: list[int] = []
    for lap in range(50):
        for i in range(63):
            writer.write_at(lap * 63 + i, Record.MARK, 1, 0)
        seen += reader.read().rows["time_ns"].tolist()
        reader.acknowledge()
    assert seen == list(range(50 * 63))
    assert writer.dropped == 0


def test_a_full_ring_drops_counts_and_leaves_a_hole(tmp_path: Path) -> None:
    writer, reader = make(tmp_path)
    for i in range(100):
        writer.write_at(i + 1, Record.MARK, 1, 0)
    assert writer.dropped == 36
    batch = reader.read()
    assert len(batch.rows) == 64
    assert reader.dropped_unseen == 36  # nothing was written after them yet
    reader.acknowledge()
    writer.write_at(500, Record.MARK, 1, 0)
    assert reader.read().holes == ((64, 500, 36),)
    assert reader.dropped_unseen == 0


def test_a_second_reader_goes_on_at_the_tail(tmp_path: Path) -> None:
    writer, reader = make(tmp_path)
    for i in range(40):
        writer.write_at(i, Record.MARK, 1, 0)
    reader.read(limit=25)
    reader.acknowledge()
    reader.read()  # read, but never acknowledged: the reader died
    assert RingReader(tmp_path / "a.ring").read().rows["time_ns"].tolist() == list(range(25, 40))


def test_a_torn_record_ends_the_batch_and_is_read_when_whole(tmp_path: Path) -> None:
    writer, reader = make(tmp_path)
    for i in range(5):
        writer.write_at(i, Record.MARK, 1, 0)
    at = SLOTS + 3 * layout.SLOT_BYTES + 24  # the check word of record 3
    with open(tmp_path / "a.ring", "r+b") as file:
        file.seek(at)
        check = file.read(8)
        file.seek(at)
        file.write(b"\0" * 8)
        file.flush()
        assert len(reader.read().rows) == 3
        file.seek(at)
        file.write(check)
        file.flush()
    assert reader.read().rows["time_ns"].tolist() == [3, 4]


def test_names_are_shared_and_bounded(tmp_path: Path) -> None:
    writer, reader = make(tmp_path)
    code = writer.code("discriminator")
    assert writer.code("discriminator") == code
    assert writer.code("forward") == Code.FORWARD
    assert reader.names()[code] == "discriminator"
    for i in range(5000):
        last = writer.code(f"name-{i}" + "x" * 100)
    assert last == Code.OTHER  # the table is full: no exception, no overrun
    assert len(reader.names()) < 2000


def test_read_only_never_moves_the_tail(tmp_path: Path) -> None:
    writer, _ = make(tmp_path)
    writer.write(Record.MARK, 1, 0)
    reader = RingReader(tmp_path / "a.ring", read_only=True)
    assert len(reader.read().rows) == 1
    reader.acknowledge()
    assert len(RingReader(tmp_path / "a.ring").read().rows) == 1


@pytest.mark.parametrize("content", [b"", b"x" * 10, b"PWRING01" + b"\0" * 100_000])
def test_what_is_not_a_ring_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "b.ring").write_bytes(content)
    with pytest.raises(StoreError):
        RingReader(tmp_path / "b.ring")


def test_no_space_is_an_error_at_creation_not_a_fault_later(tmp_path: Path) -> None:
    # A file of this size cannot be allocated anywhere; nothing must be left behind.
    with pytest.raises(StoreError, match="cannot"):
        RingWriter(tmp_path / "huge.ring", capacity=1 << 50)
    assert list(tmp_path.iterdir()) == []


class _FinishedMeanwhile(np.ndarray[tuple[int, ...], np.dtype[np.uint64]]):
    """The words of a ring's slots. The first copy of whole slots is interrupted after two words.

    ``unfinished`` runs then: a writer that stores the rest of its record.
    """

    unfinished: list[Callable[[], None]]

    def __array_finalize__(self, source: object) -> None:
        self.unfinished = getattr(source, "unfinished", [])

    def copy(self, *_: object) -> npt.NDArray[np.uint64]:  # type: ignore[override]
        before = np.array(self)
        if self.ndim == 1 or not self.unfinished:
            return before
        self.unfinished.pop()()
        return np.concatenate((before[:, :2], np.array(self)[:, 2:]), axis=1)


def test_a_record_that_is_written_while_it_is_copied_keeps_its_own_payload(tmp_path: Path) -> None:
    writer, reader = make(tmp_path, capacity=4)
    for payload in range(4):
        writer.write_at(1_000 + payload, Record.VALUE, 64, payload)
    reader.read()
    reader.acknowledge()
    writer.write_at(2_000, Record.VALUE, 64, 100)
    # The next one is half stored: its time is new, the rest is of the lap before.
    np.frombuffer(writer._map, "<u8", offset=SLOTS)[4] = 2_001
    reader._words = reader._words.view(_FinishedMeanwhile)
    reader._words.unfinished = [lambda: writer.write_at(2_001, Record.VALUE, 64, 101)]
    assert list(reader.read().rows["payload"]) == [100, 101]
    assert not reader._words.unfinished
    reader._words = np.array(reader._words)


def test_a_word_of_the_header_is_never_seen_half_written(tmp_path: Path) -> None:
    """A writer that saw a tail of 0 would drop records, a heartbeat of 0 a dead recorder."""
    _, reader = make(tmp_path)
    reader._position = 0x1122_3344_5566_7788
    reader.acknowledge()
    code = (
        "import mmap, sys, time\n"
        "with open(sys.argv[1], 'rb') as file:\n"
        "    words = memoryview(mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ)).cast('Q')\n"
        "print('ready', flush=True)\n"
        "end, seen = time.monotonic() + 1, set()\n"
        "while time.monotonic() < end:\n"
        "    seen.update((words[16] for _ in range(1000)))\n"
        "print(*map(hex, seen))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "a.ring")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        while process.poll() is None:
            for _ in range(1000):
                reader.acknowledge()
        assert process.stdout.read().split() == ["0x1122334455667788"]


WRITER = """
import sys
from pathlib import Path
from probe.ring.writer import RingWriter
ring = RingWriter(Path(sys.argv[1]), capacity=1 << 12)
print("ready", flush=True)
n = 0
while True:
    n += 1
    ring.write(1, 2, n)
"""


def test_kill_at_any_moment_leaves_only_whole_records(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    for trial in range(8):
        path = tmp_path / f"{trial}.ring"
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        reader, seen = RingReader(path), []
        deadline = time.monotonic() + rng.uniform(0.01, 0.06)
        while time.monotonic() < deadline or sum(map(len, seen)) <= 100:
            seen.append(reader.read().rows["payload"])
            reader.acknowledge()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        seen.append(reader.read().rows["payload"])
        payloads = np.concatenate(seen)
        assert len(payloads) > 100
        assert np.all(np.diff(payloads) > 0)
        # Every hole in the payloads is a counted drop.
        missing = int(payloads[-1]) - len(payloads)
        assert missing == reader._holes_seen
