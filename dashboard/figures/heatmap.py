"""Device by device: which of them draws most, and when?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from probe.report.numbers import watts as watts_text
from probe.report.sentences import short

from ..chart_data import MODELLED, Chart, Floats, Power
from .power import device_means, table, whole_span
from .style import SCALE, TimeScale, figure, listed, plain

_MAX_ROWS = 64


def comparable(modelled: Sequence[bool]) -> list[int]:
    """The devices that are shown beside each other: those with a meter.

    Args:
        modelled: of each device, whether a model says its power.
    """
    return [place for place, is_modelled in enumerate(modelled) if not is_modelled]


def height(devices: int) -> int:
    """Pixels of the figure."""
    return 90 + 24 * min(devices, _MAX_ROWS)


def heatmap(watts: Power | None, scale: TimeScale, span: tuple[float, float] | None) -> Chart:
    """Power of devices × time, one row each; of very many, those with the highest mean."""
    columns, rows = table(watts)
    chosen = [] if watts is None else comparable([kind == MODELLED for kind in watts.provenance])
    if watts is None or len(chosen) < 2:
        return Chart("Only one device: there is nothing to hold beside it.", None, columns, rows)
    means = np.nan_to_num(device_means(watts.mean_w[chosen]))
    by_power = [chosen[i] for i in np.argsort(means)[::-1]][:_MAX_ROWS]
    order = sorted(by_power)
    middle = (watts.edges_s[:-1] + watts.edges_s[1:]) / 2
    across = scale.axis(span or whole_span(watts), showgrid=False)
    drawn = figure(
        [
            {
                "type": "heatmap",
                "x": scale.values(middle),
                "y": list(range(len(order))),
                "z": [listed(watts.mean_w[i]) for i in order],
                "colorscale": SCALE,
                "zmin": _quantile(watts.mean_w[order], 0.01),
                "zmax": _quantile(watts.mean_w[order], 0.99),
                "colorbar": {"title": {"text": "W"}, "thickness": 12, "outlinewidth": 0},
                "hovertemplate": "%{customdata}<br>%{x} "
                + scale.unit
                + "<br>%{z:.4g} W<extra></extra>",
                "customdata": [[plain(watts.devices[i])] * len(middle) for i in order],
            }
        ],
        height=height(len(chosen)),
        xaxis=across,
        yaxis={
            "autorange": "reversed",
            "tickvals": list(range(len(order))),
            "showgrid": False,
            "ticktext": [plain(watts.devices[i], 24) for i in order],
        },
        meta={"unit_s": scale.seconds},
    )
    ends = sorted(means)[::-1]
    first, last = (
        f"{short(watts.devices[place], 40)} ({watts_text(mean)} in the mean)"
        for place, mean in ((by_power[0], ends[0]), (by_power[-1], ends[len(order) - 1]))
    )
    caption = f"{first} draws most, {last} least. "
    more = len(chosen) - len(order)
    return Chart(
        caption
        + "Empty places are times without a reading: before a meter's first, after its last, or "
        "where one was missed." + (f" {more} more devices are in the table." if more > 0 else ""),
        drawn,
        columns,
        rows,
    )


def _quantile(values: Floats, share: float) -> float:
    """A quantile for the ends of the colour scale, which single outliers must not set."""
    return float(np.nanquantile(values, share)) if np.isfinite(values).any() else 0.0
