"""NVML rig: a C libnvidia-ml.so.1 that the real pynvml loads, with a known true power.

The library is built once per source text by gcc. Its state is one mmapped file, so a
test, the recorder under test and a workload in a third process see the same device::

    rig = NvmlRig(tmp_path, gpus=2, power_w=250.0, period_s=0.1)
    subprocess.run([...], env={**os.environ, **rig.env()})       # its own process, or
    rig.load()                                                   # this one, once, before pynvml
    rig.set_power(0, 400.0); rig.fail("nvmlDeviceGetPowerUsage", 15); rig.lose(1)

Times are CLOCK_MONOTONIC nanoseconds, powers watts. With ``virtual=True`` time stands
still unless :class:`RigClock` is asked to sleep: minutes of sampling pass in milliseconds.
The classes below mirror the C structs; ``tests/unit/probe/sensors/test_fake_nvml.py``
compares their size with the library's.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import subprocess
import tempfile
import time
from ctypes import c_char, c_double, c_int32, c_int64
from math import fsum
from pathlib import Path

MAX_GPUS, MAX_FUNCTIONS, MAX_RULES, MAX_TAPE = 16, 64, 256, 65536
MAX_LATTICES, MAX_MIG = 8, 7
MAGIC = 0x4E564D4C52494731
SOURCE = Path(__file__).with_name("nvml.c")


class _Tape(ctypes.Structure):
    _fields_ = [("time_ns", c_int64), ("watts", c_double), ("joules", c_double)]


class _Lattice(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in ("from_ns", "period_ns", "phase_ns", "jitter_ns")),
        ("skip", c_double),
    ]


class Gpu(ctypes.Structure):
    """One device's settings; every scalar may be assigned live."""

    _fields_ = [
        ("uuid", c_char * 96),
        ("name", c_char * 96),
        ("bus_id", c_char * 32),
        ("mig_uuid", (c_char * 96) * MAX_MIG),
        *(
            (name, c_int32)
            for name in (
                "arch virtualization mig_mode mig_count gpm lost usage_average sample_clock "
                "sample_depth tape_count lattice_count utilization memory_utilization "
                "sm_clock_mhz memory_clock_mhz temperature_c power_limit_mw pcie_tx_kb pcie_rx_kb "
                "field_186 field_185"
            ).split()
        ),
        *(
            (name, c_int64)
            for name in (
                "event_reasons memory_total memory_used lost_ns back_ns sample_spacing_ns "
                "power_period_ns power_window_ns lag_ns counter_offset_mj reset_ns fast_read_ns "
                "last_energy_read_ns shown_mj second_lag_ns delay_ns average_ns wander_ns "
                "offset_mw part_from_ns busy_spacing_ns"
            ).split()
        ),
        *(
            (name, c_double)
            for name in (
                "counter_gain fast_read_loss_mj lost_mj sm tensor dram cap_w second_lag_share part"
            ).split()
        ),
        ("lattices", _Lattice * MAX_LATTICES),
        ("tape", _Tape * MAX_TAPE),
    ]


class _Rule(ctypes.Structure):
    _fields_ = [
        *((name, c_int32) for name in ("kind", "function", "gpu", "code")),
        *((name, c_int64) for name in ("from_ns", "until_ns", "after_calls", "value")),
    ]


class Control(ctypes.Structure):
    """The whole file."""

    _fields_ = [
        *((name, c_int64) for name in ("magic", "virtual_ns", "latency_ns")),
        *((name, c_int32) for name in ("gpus", "rules", "inits", "initialised")),
        ("driver_version", c_char * 96),
        ("rule", _Rule * MAX_RULES),
        ("calls", (c_int64 * (MAX_GPUS + 1)) * MAX_FUNCTIONS),
        ("gpu", Gpu * MAX_GPUS),
    ]


def build(hide: tuple[str, ...] = ()) -> Path:
    """Compile the library, without the symbols in ``hide``; return its folder. Cached."""
    digest = hashlib.sha256(SOURCE.read_bytes() + repr(sorted(hide)).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"nvml-rig-{os.getuid()}-{digest}"
    library = folder / "libnvidia-ml.so.1"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        script = folder / f"symbols-{os.getpid()}-{os.urandom(3).hex()}.map"
        local = f"local: {'; '.join(hide)};" if hide else ""
        script.write_text("{ global: *; " + local + " };\n")
        made = folder / f"made-{os.getpid()}-{os.urandom(3).hex()}.so"
        soname = "-Wl,-soname,libnvidia-ml.so.1"
        versions = f"-Wl,--version-script={script}"
        command = ["gcc", "-O2", "-shared", "-fPIC", soname, versions]
        subprocess.run([*command, "-o", str(made), str(SOURCE), "-lm"], check=True)
        made.rename(library)  # atomic: parallel test processes build the same thing
    return folder


class RigClock:
    """The rig's time as a :class:`probe.clock.Clock`: virtual if the rig is, else real."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def now_ns(self) -> int:
        return int(self._control.virtual_ns) or time.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        if self._control.virtual_ns:
            self._control.virtual_ns += max(0, round(seconds * 1e9))
        elif seconds > 0:
            time.sleep(seconds)


class NvmlRig:
    """GPUs with a known true power behind a real shared library."""

    def __init__(
        self,
        folder: Path,
        *,
        gpus: int = 1,
        power_w: float = 250.0,
        period_s: float = 0.1,
        jitter_s: float = 0.0,
        name: str = "NVIDIA H100 80GB HBM3",
        arch: int = 9,
        hide: tuple[str, ...] = (),
        virtual: bool = False,
    ) -> None:
        """Make ``gpus`` devices that have drawn ``power_w`` for an hour.

        Args:
            period_s: update period of the energy counter; each GPU has its own phase.
            jitter_s: each update is uniformly early or late by up to this.
            hide: symbols that the library shall not have.
            virtual: time moves only through :meth:`clock`.
        """
        self.library_folder = build(hide)
        self.path = Path(folder) / f"nvml-rig-{os.getpid()}-{time.monotonic_ns()}"
        with self.path.open("wb") as file:
            file.truncate(ctypes.sizeof(Control))
        self._map()
        control = self.control
        control.gpus, control.driver_version = gpus, b"570.00"
        start = time.monotonic_ns()
        for index in range(gpus):
            gpu = control.gpu[index]
            gpu.uuid = f"GPU-{index:08x}-1111-2222-3333-444455556666".encode()
            gpu.name, gpu.arch = name.encode(), arch
            gpu.bus_id = f"00000000:{index + 1:02X}:00.0".encode()
            gpu.gpm, gpu.usage_average, gpu.field_185, gpu.field_186 = 1, 1, 1, 1
            gpu.utilization, gpu.memory_utilization = 87, 41
            gpu.sm_clock_mhz, gpu.memory_clock_mhz, gpu.temperature_c = 1755, 2619, 61
            gpu.power_limit_mw, gpu.pcie_tx_kb, gpu.pcie_rx_kb = 700_000, 12_000, 34_000
            gpu.memory_total, gpu.memory_used = 80 << 30, 12 << 30
            gpu.counter_offset_mj, gpu.counter_gain, gpu.part = 123_456_789, 1.0, 1.0
            gpu.power_period_ns, gpu.power_window_ns = 100_000_000, 25_000_000
            gpu.sample_depth, gpu.busy_spacing_ns = 120, 166_667_000
            gpu.sm, gpu.tensor, gpu.dram, gpu.cap_w = 0.83, 0.41, 0.57, 700.0
            phase = start + round((index * 0.6180339887 % 1.0) * period_s * 1e9)
            lattice = gpu.lattices[0]
            lattice.period_ns, lattice.phase_ns = round(period_s * 1e9), phase
            lattice.jitter_ns = round(jitter_s * 1e9)
            gpu.lattice_count = 1
            self.set_power(index, power_w, start - 3_600_000_000_000)
        if virtual:
            control.virtual_ns = start
        control.magic = MAGIC

    @classmethod
    def attach(cls, path: str | Path) -> NvmlRig:
        """The rig of another process, for a workload that writes the tape."""
        rig = cls.__new__(cls)
        rig.path = Path(path)
        rig.library_folder = build()
        rig._map()
        return rig

    def _map(self) -> None:
        with self.path.open("r+b") as file:
            self._mmap = mmap.mmap(file.fileno(), ctypes.sizeof(Control))
        self.control = Control.from_buffer(self._mmap)

    # -- how a process reaches it ------------------------------------------------

    def env(self) -> dict[str, str]:
        """What a subprocess needs to load this library and see this rig."""
        inherited = os.environ.get("LD_LIBRARY_PATH", "")
        path = f"{self.library_folder}:{inherited}" if inherited else str(self.library_folder)
        return {"LD_LIBRARY_PATH": path, "NVML_RIG": str(self.path)}

    def load(self) -> None:
        """Make this process's pynvml use the rig. The first library loaded wins for good."""
        os.environ["NVML_RIG"] = str(self.path)
        library = str(self.library_folder / "libnvidia-ml.so.1")
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)

    def clock(self) -> RigClock:
        return RigClock(self.control)

    def now_ns(self) -> int:
        return self.clock().now_ns()

    def gpu(self, index: int) -> Gpu:
        gpu: Gpu = self.control.gpu[index]
        return gpu

    def uuid(self, index: int) -> str:
        return bytes(self.control.gpu[index].uuid).decode()

    # -- truth -------------------------------------------------------------------

    def set_power(self, gpu: int, watts: float, at_ns: int | None = None) -> None:
        """From ``at_ns`` (now) on the device draws ``watts``. Times must not decrease."""
        device = self.control.gpu[gpu]
        at = self.now_ns() if at_ns is None else at_ns
        count, joules = device.tape_count, 0.0
        if count >= MAX_TAPE:
            raise ValueError(f"the tape of GPU {gpu} is full")
        if count:
            last = device.tape[count - 1]
            if at < last.time_ns:
                raise ValueError("the tape's times must not decrease")
            joules = last.joules + last.watts * (at - last.time_ns) * 1e-9
        record = device.tape[count]
        record.time_ns, record.watts, record.joules = at, watts, joules
        device.tape_count = count + 1  # last: a reader in another process sees whole records

    def true_energy_j(self, gpu: int, t0_ns: int, t1_ns: int) -> float:
        """The integral of the tape over [t0, t1): what a perfect meter would say."""
        device = self.control.gpu[gpu]
        tape = [(device.tape[i].time_ns, device.tape[i].watts) for i in range(device.tape_count)]
        ends = [t for t, _ in tape[1:]] + [max(t1_ns, tape[-1][0])]
        return fsum(
            watts * max(0, min(end, t1_ns) - max(begin, t0_ns)) * 1e-9
            for (begin, watts), end in zip(tape, ends, strict=True)
        )

    def updates(self, gpu: int, t0_ns: int, t1_ns: int) -> list[int]:
        """Update instants of the counter's newest lattice in [t0, t1), without jitter or wander."""
        device = self.control.gpu[gpu]
        lattice = device.lattices[device.lattice_count - 1]
        first = -((lattice.phase_ns - max(t0_ns, lattice.from_ns)) // lattice.period_ns)
        times = range(lattice.phase_ns + first * lattice.period_ns, t1_ns, lattice.period_ns)
        return list(times)

    def set_period(
        self,
        gpu: int,
        period_s: float,
        *,
        at_ns: int | None = None,
        phase_s: float = 0.0,
        jitter_s: float = 0.0,
        skip: float = 0.0,
    ) -> None:
        """From ``at_ns`` (now) on the counter updates so; ``skip`` is the share left out."""
        device = self.control.gpu[gpu]
        lattice = device.lattices[device.lattice_count]
        lattice.from_ns = self.now_ns() if at_ns is None else at_ns
        lattice.period_ns = round(period_s * 1e9)
        lattice.phase_ns = lattice.from_ns + round(phase_s * 1e9)
        lattice.jitter_ns, lattice.skip = round(jitter_s * 1e9), skip
        device.lattice_count += 1

    def set_response(
        self,
        gpu: int,
        *,
        lags: tuple[tuple[float, float], ...] = (),
        delay_s: float = 0.0,
        average_s: float = 0.0,
        part: float = 1.0,
        wander_s: float = 0.0,
        gain: float = 1.0,
        offset_w: float = 0.0,
    ) -> None:
        """What the energy counter makes of power; the readings of power stay as they are.

        Set it before the counter is read: a change while it runs is a jump of its value.

        Args:
            lags: (weight, time constant in s) of up to two first-order lags.
            delay_s: an update shows the energy of so long ago.
            average_s: power is a moving average over this long.
            part: share of a period, at its end, whose mean power stands for all of it, from now.
            wander_s: sd of a smooth wander of the update instants, some 10 s long.
            offset_w: the counter shows gain × power + offset; it falls where that is negative.
        """
        if len(lags) > 2 or abs(sum(weight for weight, _ in lags or ((1.0, 0.0),)) - 1) > 1e-9:
            raise ValueError("at most two lags, whose weights add up to 1")
        device = self.control.gpu[gpu]
        (_, first_s), (share, second_s) = (*lags, (0.0, 0.0), (0.0, 0.0))[:2]
        device.lag_ns, device.second_lag_ns = round(first_s * 1e9), round(second_s * 1e9)
        device.second_lag_share = share
        device.delay_ns, device.average_ns = round(delay_s * 1e9), round(average_s * 1e9)
        device.part, device.part_from_ns = part, self.now_ns()
        device.wander_ns, device.counter_gain = round(wander_s * 1e9), gain
        device.offset_mw = round(offset_w * 1e3)

    def set_mig(self, gpu: int, uuids: list[str]) -> None:
        """Switch MIG mode on with these instances."""
        device = self.control.gpu[gpu]
        for index, uuid in enumerate(uuids):
            device.mig_uuid[index].value = uuid.encode()
        device.mig_mode, device.mig_count = 1, len(uuids)

    # -- failures ----------------------------------------------------------------

    def fail(
        self,
        function: str | None,
        code: int,
        gpu: int | None = None,
        at_ns: int | None = None,
        after_calls: int | None = None,
        until_ns: int | None = None,
    ) -> None:
        """``function`` (None: every one) returns ``code`` from ``at_ns`` or after n more calls."""
        self._rule(1, function, code, 0, gpu, at_ns, after_calls, until_ns)

    def answer(
        self,
        function: str,
        value: int,
        gpu: int | None = None,
        at_ns: int | None = None,
        after_calls: int | None = None,
        until_ns: int | None = None,
    ) -> None:
        """A wrong raw value instead of the true one: 0, 0xFFFFFFFF, …"""
        self._rule(2, function, 0, value, gpu, at_ns, after_calls, until_ns)

    def _rule(
        self,
        kind: int,
        function: str | None,
        code: int,
        value: int,
        gpu: int | None,
        at_ns: int | None,
        after_calls: int | None,
        until_ns: int | None,
    ) -> None:
        rule = self.control.rule[self.control.rules]
        rule.function = -1 if function is None else self.functions.index(function)
        rule.gpu = -1 if gpu is None else gpu
        rule.code, rule.value = code, ctypes.c_int64(value).value
        rule.from_ns, rule.until_ns = at_ns or 0, until_ns or 0
        already = 0  # calls are counted per device
        if after_calls is not None and function:
            row = self.control.calls[self.functions.index(function)]
            already = max(row) if gpu is None else row[gpu]
        rule.after_calls = already + (after_calls or 0)
        rule.kind = kind
        self.control.rules += 1

    def clear(self) -> None:
        """Forget all failures and wrong values; nothing is lost any more."""
        self.control.rules = 0
        for gpu in self.control.gpu[: self.control.gpus]:
            gpu.lost = 0

    def lose(self, gpu: int, at_ns: int | None = None, back_ns: int | None = None) -> None:
        """Every call on this device answers GPU_IS_LOST (15) from ``at_ns`` to ``back_ns``."""
        device = self.control.gpu[gpu]
        device.lost_ns, device.back_ns, device.lost = at_ns or 0, back_ns or 0, 1

    # -- accounting --------------------------------------------------------------

    @property
    def functions(self) -> tuple[str, ...]:
        """Every exported NVML function, in the library's order."""
        source = SOURCE.read_text()
        table = source.split("#define FUNCTIONS(F)")[1].split("#define AS_ENUM")[0]
        return tuple(part.split(")")[0] for part in table.split("F(")[1:])

    def calls(self, function: str, gpu: int | None = None) -> int:
        """How often ``function`` was called, for one device or in all."""
        row = self.control.calls[self.functions.index(function)]
        return int(sum(row)) if gpu is None else int(row[gpu])

    @property
    def initialised(self) -> int:
        """nvmlInit calls not yet matched by nvmlShutdown, over all processes."""
        return int(self.control.initialised)
