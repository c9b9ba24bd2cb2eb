"""The node's power by IPMI's data centre extension: ``ipmitool dcmi power reading``.

What a baseboard controller calls instantaneous is a mean of up to a minute, and a call may take
seconds: good for the total of a run, never for its phases. The command is asked every ten seconds,
with a time limit.
"""

from __future__ import annotations

import re
import shutil
from typing import ClassVar

from ...errors import SensorUnavailable
from ...units import NS_PER_S
from .._polled import PolledMeter, PolledSensor
from ._node_power import node_power

PERIOD_NS = 10 * NS_PER_S
LIMIT_S = 8.0
COMMAND = ("ipmitool", "dcmi", "power", "reading")
_DEVICES = ("ipmi0", "ipmi/0", "ipmidev/0")
_WATTS = re.compile(r"Instantaneous power reading\s*:\s*(\d+)\s*Watts", re.IGNORECASE)
_STATE = re.compile(r"Power reading state is\s*:\s*(\w+)", re.IGNORECASE)


class IpmiSensor(PolledSensor):
    """Power of the whole node, as its baseboard controller says."""

    name: ClassVar[str] = "ipmi"

    def find(self) -> list[PolledMeter]:
        """One meter, if the controller answers."""
        if not any((self.context.dev_root / name).exists() for name in _DEVICES):
            raise SensorUnavailable(
                "no /dev/ipmi0 here: no baseboard controller, or its driver is not loaded",
                "sudo modprobe ipmi_devintf ipmi_si  # on a server",
            )
        command = shutil.which(COMMAND[0])
        if command is None:
            raise SensorUnavailable("ipmitool is not installed", "install ipmitool")
        try:
            dcmi_watts(command)
        except (OSError, ValueError) as error:
            raise SensorUnavailable(
                f"ipmitool dcmi power reading: {error}",
                "let this user read /dev/ipmi0  # sudo chmod a+rw /dev/ipmi0",
            ) from None
        source = node_power("ipmi", "ipmitool dcmi power reading")
        return [PolledMeter(source, lambda: dcmi_watts(command), PERIOD_NS)]


def dcmi_watts(command: str) -> float:
    """The node's power in W by ``ipmitool`` at this path.

    Raises:
        OSError: it cannot be started, or took too long.
        ValueError: it failed, or said nothing of power.
    """
    import subprocess

    try:
        done = subprocess.run(
            [command, *COMMAND[1:]],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"no answer within {LIMIT_S:g} s") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise ValueError(lines[0][:200] if lines else f"exit code {done.returncode}")
    state = _STATE.search(done.stdout)
    if state is not None and state[1].lower() != "activated":
        raise ValueError(f"power reading is {state[1]}")
    match = _WATTS.search(done.stdout)
    if match is None or not 0 < int(match[1]) <= 100_000:
        raise ValueError(f"no power in {done.stdout.strip()[:80]!r}")
    return float(match[1])
