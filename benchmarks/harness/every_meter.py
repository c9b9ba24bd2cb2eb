"""A machine that has every meter we read: trees of files, a controller, libraries, all moving.

The NVML rig is beside it: :func:`benchmarks.harness.processes.under_rig`.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fakes.controllers import TOKEN, RedfishService
from tests.fakes.rapl import RaplRig
from tests.fakes.sysfs_meters import CrayNode, IntelCard, JetsonModule, write

TICK_S = 0.05  # how often the files' counters move
NODE_W = 900.0
AMDSMI = """
import sys
from probe.clock import MonotonicClock
from tests.fakes.amdsmi_module import make
sys.modules[__name__] = module = make(MonotonicClock())
module.__spec__ = __spec__
"""


@contextmanager
def every_meter() -> Iterator[None]:
    """Meters of AMD, Cray, Intel, Jetson, RAPL and Redfish for the recorders started inside.

    A thread of this process moves their counters at 20 Hz.
    """
    with tempfile.TemporaryDirectory() as name, RedfishService() as redfish:
        folder = Path(name)
        cray, intel, jetson = CrayNode(folder), IntelCard(folder), JetsonModule(folder)
        rapl = RaplRig(folder, sockets=2)
        (folder / "sys/module/amdgpu").mkdir(parents=True)
        write(folder / "amdsmi.py", AMDSMI)
        # The recorder imports what its parent can, without the parent's own folder.
        sys.path[1:1] = [str(folder), str(Path(__file__).parents[2])]
        os.environ |= {
            "PROBE_SYS_ROOT": str(folder / "sys"),
            "PROBE_POWERCAP_ROOT": str(rapl.root),
            "PROBE_REDFISH_URL": redfish.url,
            "PROBE_REDFISH_TOKEN": TOKEN,
        }
        done = threading.Event()

        def move() -> None:
            while not done.wait(TICK_S):
                cray.add(NODE_W * TICK_S)
                intel.add(NODE_W / 4 * TICK_S)
                rapl.add(NODE_W / 8 * TICK_S)
                jetson.set(10.0, 4.0, 20.0)

        mover = threading.Thread(target=move, daemon=True)
        mover.start()
        try:
            yield
        finally:
            done.set()
            mover.join()
