"""Numbers with the digits that they deserve, and their units: the only place that formats them.

An error has one digit, two if its first digit is 1; a value has the digits of its error, and
three without one.
"""

from __future__ import annotations

import math
import re

_UNBROKEN = re.compile(r"(?<=\d) (?=[%±…]|[kmµ]?W?[Jhgs]\b|kWh\b|W\b)|(?<=±) (?=\d)")
_NEGLIGIBLE = 1e-2  # share of the error below which a value is zero
_JOULES = ((3.6e6, "kWh"), (1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ"))
_PREFIXES = ((1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"))


def number(value: float | None, half_width: float | None = None) -> str:
    """``value`` rounded by its uncertainty; three digits without one; "—" for None."""
    if value is None:
        return "—"
    if value == 0:
        return "0"
    own = -math.floor(math.log10(abs(value)))
    if half_width is not None and half_width > 0 and math.isfinite(half_width):
        if abs(value) < _NEGLIGIBLE * half_width:
            return "0"
        place = _place(half_width)
    else:
        place = own + 2
    # Never fewer than one digit of the value, never more than six.
    return _rounded(value, min(max(place, own), own + 5))


def _place(half_width: float) -> int:
    """The decimal place at which a value of such an uncertainty is rounded."""
    first = -math.floor(math.log10(half_width))
    return first + (half_width * 10.0**first < 2)


def _rounded(value: float, place: int) -> str:
    rounded = round(value, place) + 0.0  # no "-0"
    return f"{rounded:.{max(0, place)}f}"


def plus_minus(value: float, half_width: float) -> str:
    """``13.1 ± 2.0``, both rounded at the same place."""
    if not half_width > 0 or not math.isfinite(half_width):
        return number(value)
    place = min(_place(half_width), 5 - math.floor(math.log10(abs(value) or half_width)))
    return f"{_rounded(value, place)} ± {_rounded(half_width, place)}"


def interval(low: float, high: float) -> str:
    """``low … high`` with digits by the width."""
    width = (high - low) / 2
    return f"{number(low, width)} … {number(high, width)}"


def duration(seconds: float) -> str:
    """83 µs, 12.3 ms, 4.21 s, 2 min 05 s, 3 h 12 min."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{number(seconds * 1e3)} ms"
    if seconds < 100:
        return f"{number(seconds)} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60):02d} min"


def energy(joules: float | None, half_width: float | None = None) -> str:
    """Joules; from 1 kJ on kilojoules, from 3.6 MJ on kilowatt hours, below 1 J mJ and µJ."""
    if joules is None:
        return "—"
    size = abs(joules)  # 20 mJ of which 5 J are unsure are 0 J
    factor, unit = joule_unit(size if size >= 1 else max(size, min(half_width or 0.0, 1.0)))
    return f"{number(joules / factor, half_width / factor if half_width else None)} {unit}"


def energy_with_error(joules: float, half_width: float) -> str:
    """``13.1 ± 2.0 kJ``."""
    factor, unit = joule_unit(max(abs(joules), half_width))
    return f"{plus_minus(joules / factor, half_width / factor)} {unit}"


def energy_range(low_j: float, high_j: float) -> str:
    """``1.2 … 1.4 kJ``."""
    factor, unit = joule_unit(max(abs(low_j), abs(high_j)))
    return f"{interval(low_j / factor, high_j / factor)} {unit}"


def unbroken(text: str) -> str:
    """The text with no-break spaces between a number and its unit, and around ``±``."""
    return _UNBROKEN.sub("\u00a0", text)


def joule_unit(joules: float) -> tuple[float, str]:
    """(J in one, name) of the unit in which an energy is easy to read: 0.02 J is (1e-3, "mJ")."""
    if not joules:
        return 1.0, "J"
    return next((pair for pair in _JOULES if abs(joules) >= pair[0]), _JOULES[-1])


def scaled(amount: float) -> tuple[float, str]:
    """(factor, prefix) of a unit that a table or an axis has for all its values, by the largest.

    0.02 J is (1e-3, "m").
    """
    if not amount:
        return 1.0, ""
    return next((pair for pair in _PREFIXES if abs(amount) >= pair[0]), _PREFIXES[-1])


def watts(value: float | None) -> str:
    """``345 W``; "—" for None."""
    return "—" if value is None else f"{number(value)} W"


def data_size(amount: float) -> str:
    """Bytes in the binary unit that fits: ``1.21 GiB``."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(amount) >= size:
            return unbroken(f"{amount / size:.3g} {unit}" if abs(amount) < 1000 * size
                            else f"{amount / size:.0f} {unit}")  # fmt: skip
    return unbroken(f"{amount:.0f} B")


def share(value: float | None) -> str:
    """A share of 1 in percent with one decimal: ``54.3 %``."""
    return "—" if value is None else f"{100 * value:.1f} %"


def share_with_error(value: float, low: float, high: float) -> str:
    """``54 ± 2 %``, or ``42 % (14 … 70 %)`` where the interval is not symmetric."""
    half = (high - low) / 2
    if half <= 0:
        return share(value)
    if abs(high + low - 2 * value) > 0.2 * half:
        return f"{number(100 * value, 100 * half)} % ({interval(100 * low, 100 * high)} %)"
    return f"{plus_minus(100 * value, 100 * half)} %"
