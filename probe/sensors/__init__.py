"""Sensors read meters. One file each, found by walking this package.

A sensor module has one class with ``name`` and the methods of :class:`Sensor`; a third party
registers the same under the entry point ``probe.sensors``. A :class:`~probe.model.Source` says
all that the rest of phasewatt needs to know: a counter of joules (``quantity="energy"``,
``in_total=True``) on a device of the kind ``accelerator`` gets energy per phase, of any
vendor. Sensors run in the recorder process, each in its own thread, never in the training
process. They must not import torch.

The life of a sensor: ``Sensor(context)`` does nothing but keep the context;
``open()`` imports the vendor library, probes every call once, and returns the
sources that work (raises :class:`SensorUnavailable` when there are none);
``read()`` is called again and again at the times that ``next_read_ns`` names;
``close()`` may be called twice.

A reading that fails is a :class:`Gap`, never a zero and never an exception. What
is unsupported is listed in ``absent`` with the reason.
"""

from .base import Sensor, SensorContext, powercap_root, read_each
from .discovery import discover_sensors

__all__ = ["Sensor", "SensorContext", "discover_sensors", "powercap_root", "read_each"]
