"""Carbon intensity of electricity from the data that CodeCarbon ships. Never the network.

Asking CodeCarbon takes about a second (pandas) where its answer is not kept, so this is for a
thread of the recorder or for a command, never for the training process.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ..errors import UsageError
from ._kept_answers import kept_answer

_importing = threading.Lock()


@dataclass(frozen=True, slots=True)
class CarbonIntensity:
    """Grams of CO2 equivalent per kWh of electricity, and where that comes from."""

    g_per_kwh: float
    country_iso: str | None  # ISO 3166 alpha-3; None: the world average
    label: str
    source: str


def carbon_intensity(country: str | None) -> CarbonIntensity:
    """The intensity of ``country``; without one, CodeCarbon's world average.

    Raises:
        UsageError: a country that CodeCarbon has no data for.
    """
    return kept_answer(
        CarbonIntensity,
        f"country {country}",
        lambda: _ask(country),
        lambda kept: isinstance(kept.label, str) and 0 <= kept.g_per_kwh < math.inf,
    )


def _ask(country: str | None) -> CarbonIntensity:
    with silently():
        import_codecarbon()
        from codecarbon import __version__ as version
        from codecarbon.input import DataSource

    data = DataSource()
    if country is None:
        world = float(data.get_carbon_intensity_per_source_data()["world_average"])
        label = "world average: give country= or PROBE_COUNTRY for yours"
        return CarbonIntensity(world, None, label, f"codecarbon {version}, IEA")
    mixes = data.get_global_energy_mix_data()
    mix = mixes.get(country.upper())
    if mix is None or mix.get("carbon_intensity") is None:
        raise UsageError(
            f"no carbon intensity for country {country!r}: give an ISO 3166 alpha-3 code "
            f"like 'FRA' ({len(mixes)} countries are known)"
        )
    label = f"{mix['country_name']}, {mix['year']}"
    return CarbonIntensity(
        float(mix["carbon_intensity"]),
        country.upper(),
        label,
        f"codecarbon {version}, Our World in Data",
    )


class _NoGpus(ModuleType):
    """Replaces CodeCarbon's GPU modules: nothing is available, every other name is None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name.endswith("_AVAILABLE"):
            return False
        return (lambda: False) if name.startswith("is_") else None


def import_codecarbon() -> None:
    """Import CodeCarbon without its GPU modules; only for the recorder and for commands.

    Importing those initialises NVML, which is never shut down again, and may start
    nvidia-smi and rocm-smi; the NVML sensors here are the only ones that ask GPUs.
    Threads take turns: two that import the same packages at once may see half of one.
    """
    with _importing:
        if "codecarbon" not in sys.modules:
            for name in ("codecarbon.core.gpu_nvidia", "codecarbon.core.gpu_amd"):
                sys.modules[name] = _NoGpus(name)
        import codecarbon  # noqa: F401


@contextlib.contextmanager
def silently() -> Iterator[None]:
    """CodeCarbon prints and logs advice while it is imported; that is not for our users."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)
    logging.getLogger("codecarbon").setLevel(logging.CRITICAL)
