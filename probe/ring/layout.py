"""The bytes of a ring file. Little-endian; one page of header, the names, the slots.

::

    0     header   (HEADER, then the words below, then the run's directory: u16 length, utf-8)
    4096  names    (u16 code, u16 length, utf-8)*   ends at length 0
    69632 slots    capacity × 32 bytes

A record is ``time_ns u64 | payload i64 | sequence u32 | kind u16 | code u16 | check u64``.
The check word is written last, and read first, and mixes time and sequence: a record that a kill
tore, or a slot of the lap before, does not pass.
"""

from __future__ import annotations

import mmap
import struct
from enum import IntEnum, StrEnum

from ..model import Phase

MAGIC = b"PWRING01"
HEADER = struct.Struct("<8sIIQQQ")  # magic, version, capacity, pid, process start ticks, thread id
VERSION = 1

# Words of the header. Writer and reader words sit on different cache lines.
DROPPED = 64  # u64, writer: records that found the ring full
CLOSED = 72  # u64, writer: 1 once no record will follow
TAIL = 128  # u64, reader: slots acknowledged
HEARTBEAT = 136  # u64, reader: monotonic ns of its last round
SEALED = 144  # u64, reader: 1 once the run is sealed on disk, 2 if the disk refused
EPOCH = 152  # u64, reader: fencing number of the recorder that drains
READER_PID = 160  # u64, reader
HELD = 168  # u64, reader: 1 while the disk refuses what is recorded
RUN = 256  # writer: the directory of the run; length 0 where it is unknown
LENGTH = struct.Struct("<H")

NAMES = 4096
NAMES_BYTES = 65536
NAME = struct.Struct("<HH")
SLOTS = NAMES + NAMES_BYTES

SLOT = struct.Struct("<QqIHHQ")
SLOT_BYTES = SLOT.size
WORD = struct.Struct("<Q")
_FLOAT, _INTEGER = struct.Struct("<d"), struct.Struct("<q")
CHECK = 0x9E37_79B9_7F4A_7C15
SEQUENCE_MASK = 0xFFFF_FFFF

MAIN_CAPACITY = 1 << 18  # 8 MiB: a quarter of a second at a million edges per second
THREAD_CAPACITY = 1 << 13
TRAINING_THREAD = "train"  # begins the names of rings of threads that train beside the main one


class Record(IntEnum):
    """What a record says."""

    MARK = 1  # the phase `code` begins at time_ns; payload: allocated bytes, −1 unknown
    STEP = 2  # a step closed; payload: how many before it
    VALUE = 3  # run.log: name `code`; payload: the bits of a float64
    DEVICE = 4  # device clock: payload is the device time (host ns) of the mark `time_ns`
    MEMORY = 5  # allocator: name `code` (an AllocatorFigure); payload: bytes
    END = 6  # the watched block was left; code: EndCode; payload: exit code
    LEAVE = 7  # on a secondary thread: the phase `code` ended
    SYNC = 8  # a DDP forward whose backward reduces gradients (code 1) or does not (0)
    COMM = 9  # DDP's timers of one step; code: CommCode; payload: ns
    STEP_ELSEWHERE = 11  # a step of another thread that trains at the same time
    STEPPED = 10  # one of several optimizers, named `code`, has stepped `payload` times
    P2P = 12  # between two ranks; code: TransferCode; payload: how many before it << 16 | peer


LOADED = "samples_loaded"  # the name of a VALUE record: what a DataLoader gave to a step


def set_word(header: mmap.mmap, offset: int, value: int) -> None:
    """Store a word of the header that another process may read at any moment."""
    # Not pack_into: it writes zeros before the value, and the other process would see them.
    header[offset : offset + WORD.size] = WORD.pack(value)


def float_bits(value: float) -> int:
    """A float as the payload of a VALUE record. Raises struct.error, TypeError, OverflowError."""
    bits: int = _INTEGER.unpack(_FLOAT.pack(value))[0]
    return bits


class AllocatorFigure(StrEnum):
    """The names of MEMORY records: of a step's end, or of the phase that the next mark ends."""

    ALLOCATED = "allocated"
    RESERVED = "reserved"
    PEAK = "peak"  # the running peak, in whichever phase it rose
    PEAK_IN_PHASE = "peak in phase"  # it rose in this phase
    RESERVED_IN_PHASE = "reserved in phase"  # and at all marks that follow, until it changes


class Code(IntEnum):
    """Numbers of the built-in phases in a ring; user names start at USER."""

    OUTSIDE = 0  # no phase: before the first and after the last edge
    DATA = 1
    FORWARD = 2
    BACKWARD = 3
    RECOMPUTE = 4
    COMMUNICATION = 5
    OPTIMIZER = 6
    EVAL = 7
    CHECKPOINT = 8
    OTHER = 9
    PRE = 10  # provisional: after data; forward if a backward comes and no forward, else other
    TAIL = 11  # provisional: after a forward; forward if a backward follows, else other
    STARTUP = 12
    COMPILE = 13
    INFERENCE = 14
    NO_GRAD = 15  # provisional: a forward without gradients; inference in a step, else eval
    RESUMED = 16  # optimizer: goes on, or does a part that is no step (unscale)
    LOADING = 17  # provisional: a loader's batch; eval if it is an evaluation's, else data
    FIRST_LOADING = 18  # the same, where an iteration over a loader begins
    EXHAUSTED = 19  # other, after a loading in which no batch came: an epoch's end
    SAVING_ON = 20  # checkpoint: goes on, or waits for one that another thread saves
    USER = 64


REDUCTIONS_WARM_UP = 5  # buckets are built anew after the first, memory is touched first


class CommCode(IntEnum):
    """The kinds of COMM records of one step."""

    BUSY = 1  # collectives ran
    EXPOSED = 2  # backward had nothing to do but wait for them
    ADDING = 3  # adding to gradients takes longer than making them, timed apart


PEER_BITS = 16  # of a P2P record's payload


class TransferCode(IntEnum):
    """The kinds of P2P records: a rank sends to its peer or receives from it, waits for that."""

    SEND = 1  # begins
    RECEIVE = 2
    WAIT_SEND = 3  # a wait for it begins
    WAIT_RECEIVE = 4
    WAITED = 5  # it is over


class EndCode(IntEnum):
    """How the watched block was left."""

    FINISHED = 0
    FAILED = 1  # payload: exit code where there is one, else 1


PHASE_OF_CODE: dict[int, str] = {
    int(code): str(Phase[code.name]) for code in Code if code.name in Phase.__members__
}
"""Names of the built-in phases by their number in a ring."""
CODE_OF_PHASE: dict[str, int] = {phase: code for code, phase in PHASE_OF_CODE.items()}
