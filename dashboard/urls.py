"""The state of a page is its URL: which run, which seconds, which devices, what is compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote, urlencode

RUNS, RUN, GAINS, SENSORS, RANKS = "/", "/run/", "/gains", "/sensors", "/ranks/"
TABLE, CSV = "/table/", "/csv/"
_LONGEST = 1e9  # seconds; nothing runs for thirty years
_MOST_DEVICES = 512


@dataclass(frozen=True, slots=True)
class State:
    """What of a run is looked at: ``span`` in seconds since its begin, ``last`` so many seconds
    before now, neither for all of it; ``devices`` empty for all.
    """

    span: tuple[float, float] | None = None
    last: float | None = None
    devices: tuple[str, ...] = ()

    @classmethod
    def of(cls, t: object = None, d: object = None) -> State:
        """From the query ``t=12.5-80`` or ``t=last-60`` and ``d=gpu0,gpu1``; nonsense is as if it
        were not there.
        """
        span = last = None
        if isinstance(t, str):
            first, _, second = t.partition("-")
            if first == "last":
                last = _seconds(second) or None
            else:
                low, high = _seconds(first), _seconds(second)
                span = (low, high) if low is not None and high is not None and low < high else None
        devices = [one for one in d.split(",") if one][:_MOST_DEVICES] if isinstance(d, str) else []
        return cls(span, last, tuple(dict.fromkeys(devices)))

    def query(self) -> dict[str, str]:
        """As :meth:`of` reads it."""
        found = {}
        if self.span is not None:
            found["t"] = "-".join(map(_fixed, self.span))
        elif self.last is not None:
            found["t"] = f"last-{_fixed(self.last)}"
        if self.devices:
            found["d"] = ",".join(self.devices)
        return found

    def within(self, duration_s: float) -> tuple[float, float]:
        """The seconds that are meant, of a run of ``duration_s``."""
        if self.last is not None:
            return max(0.0, duration_s - self.last), max(duration_s, 1e-3)
        if self.span is None:
            return 0.0, max(duration_s, 1e-3)
        low = min(self.span[0], max(0.0, duration_s - 1e-3))
        return low, max(low + 1e-3, min(self.span[1], duration_s))

    def everything(self) -> State:
        """The same devices over the whole run."""
        return replace(self, span=None, last=None)


def run(id_: str, state: State | None = None) -> str:
    """The page of a run, below the base path."""
    return RUN + quote(id_, safe="") + _query((state or State()).query())


def ranks(id_: str) -> str:
    """The page of a run's ranks."""
    return RANKS + quote(id_, safe="")


def data(kind: str, id_: str, view: str, state: State) -> str:
    """A view of a run as a table or as CSV."""
    return f"{kind}run/{quote(id_, safe='')}/{quote(view, safe='')}{_query(state.query())}"


def gains_data(kind: str, view: str, base: str, others: Sequence[str], target: str) -> str:
    """A view of a comparison as a table or as CSV."""
    return f"{kind}gains/{quote(view, safe='')}{_gains(base, others, target)}"


def ablation_data(kind: str, folder: str) -> str:
    """An ablation as a table or as CSV."""
    return f"{kind}ablation/{quote(folder, safe='')}"


def gains(base: str = "", others: Sequence[str] = (), target: str = "") -> str:
    """A comparison."""
    return GAINS + _gains(base, others, target)


def _gains(base: str, others: Sequence[str], target: str) -> str:
    pairs = [(key, value) for key, value in (("base", base), ("target", target)) if value]
    return _query(pairs + [("other", other) for other in others])


def _query(pairs: object) -> str:
    text = urlencode(pairs)  # type: ignore[arg-type]
    return f"?{text}" if text else ""


def _fixed(seconds: float) -> str:
    """To the microsecond, without an exponent: its sign would be taken for the dash between."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value <= _LONGEST else None
