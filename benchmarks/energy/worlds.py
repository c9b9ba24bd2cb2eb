"""The worlds in which the attribution is judged: how power varies, and how a sensor shows it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from probe.attribution.response.response import Response
from tests.fakes.power_sensors import Counter, SampledCounter
from tests.fakes.power_traces import QUIET, World

GRID, PART_TIME, OTHER, EVEN, SYSTEMATIC, ASSUMED, BEFORE, OUTSIDE = (
    "grid",
    "part-time",
    "other",
    "even",
    "systematic",
    "assumed",
    "before",
    "outside",
)
SHARP, USUAL = ((1.0, 0.0),), ((1.0, 0.008),)


@dataclass(frozen=True, slots=True)
class Scene:
    """Steps of one kind in a world, watched by a counter.

    ``given`` is the sensor's true response where it is one of the family; ``words`` must be in what
    the report calls the sensor.
    """

    name: str
    step: str
    kind: str
    world: World = field(default_factory=World)
    counter: Counter = field(default_factory=Counter)
    given: Response | None = None
    words: tuple[str, ...] = ()
    seconds: float = 60.0


def _of_grid(step: str, delay_ms: float, tau_ms: float) -> Scene:
    words = (("late",) if delay_ms >= 5 else ()) + (("slow",) if tau_ms >= 15 else ())
    return Scene(
        f"D {delay_ms:g}, τ {tau_ms:g} ms",
        step,
        GRID,
        World(lag=((1.0, tau_ms / 1e3),)),
        Counter(delay_s=delay_ms / 1e3),
        Response.of(delay_ms / 1e3, tau_ms / 1e3),
        words,
    )


_SIXTY = [(0, 0), (5, 0), (10, 0), (20, 0), (30, 0), (0, 8), (10, 8), (20, 8), (0, 20), (10, 20)]
_SIXTY += [(0, 45), (20, 45), (0, 60), (30, 60)]
_OTHERS = [(0, 8), (20, 0), (10, 20), (30, 60)]


def _part_time(name: str, part: float, period_s: float, step: str = "60 ms") -> Scene:
    return Scene(
        name,
        step,
        PART_TIME,
        World(lag=SHARP),
        Counter(period_s, part=part),
        Response.part_time(part * period_s),
        ("part-time",),
    )


def _other(name: str, world: World, counter: Counter | None = None, **more: object) -> Scene:
    return Scene(name, "60 ms", OTHER, world, counter or Counter(), **more)  # type: ignore[arg-type]


SCENES = [
    *(_of_grid("60 ms", *point) for point in _SIXTY),
    *(_of_grid(step, *point) for step in ("180 ms", "12 ms") for point in _OTHERS),
    _part_time("25 of 100 ms", 0.25, 0.1),
    _part_time("22 of 101.2 ms", 0.22, 0.1012),
    _part_time("10 of 20 ms", 0.5, 0.02),
    _part_time("25 of 100 ms", 0.25, 0.1, "180 ms"),
    _other("average of 25 ms", World(lag=SHARP), Counter(average_s=0.025)),
    _other("two lags", World(lag=((0.7, 0.004), (0.3, 0.02)))),
    _other("wander 4 ms", World(), Counter(wander_s=0.004), words=("wandering",)),
    _other("late, wander 4 ms", World(lag=SHARP), Counter(delay_s=0.02, wander_s=0.004)),
    replace(_other("idle decay", World(idle_decay=0.2)), step="60 ms, checkpoints"),
    _other("slack 0.3 ms", World(slack_s=0.0003)),
    _other("quiet, slack 0.3 ms", replace(QUIET, slack_s=0.0003)),
    _other("quiet, marks 0.3 ms long", replace(QUIET, marks_long_s=0.0003)),
    _other("power cap", World(cap_w=550.0)),
    _other("another tenant", World(tenant=(80.0, 3.0))),
    Scene("even, D 20 ms", "60 ms, even", EVEN, World(lag=SHARP), Counter(delay_s=0.02)),
    Scene("even", "60 ms, even", EVEN),
    Scene("gain 1.047, −21.6 W", "60 ms", SYSTEMATIC, World(), Counter(gain=1.047, offset_w=-21.6)),
    Scene("gain 1.05", "60 ms", SYSTEMATIC, World(), Counter(gain=1.05)),
    Scene("gain 0.95", "60 ms", SYSTEMATIC, World(), Counter(gain=0.95)),
    *(
        Scene("as assumed", step, ASSUMED, given=Response.of(0.0, 0.008))
        for step in ("180 ms", "60 ms", "12 ms")
    ),
    *(
        Scene(name, step, BEFORE, world, counter, Response.of(0.0, 0.008))
        for name, world, counter in (
            ("waits at constant energy", World(waits=True), Counter()),
            ("work at constant energy", World(constant_energy=True), Counter()),
            ("counter reset", World(), Counter(reset_s=30.0)),
            ("5 % updates missed", World(), Counter(missed=0.05)),
            ("clocks drift 20 ppm", World(clock_drift=20e-6), Counter()),
            ("20 ms counter", World(), Counter(0.02)),
        )
        for step in ("180 ms", "60 ms", "12 ms")
    ),
    *(
        _other(f"{name}{of}", world, counter)
        for of, counter in (("", Counter()), (", 20 ms counter", Counter(0.02)))
        for name, world in (
            ("batch doubled", World(change=(27.0, 1.9, 1.15))),
            ("power grows with length", World(length_cv=0.3, length_power=0.2)),
        )
    ),
    *(
        Scene(f"{name}{of}", "60 ms", OUTSIDE, World(lag=lag), counter)
        for of, counter in (("", Counter()), (", 20 ms counter", Counter(0.02)))
        for name, lag in (
            ("30 % late by 0.3 s", ((0.7, 0.01), (0.3, 0.3))),
            ("τ 1 s", ((1.0, 1.0),)),
        )
    ),
    *(
        Scene(f"{name}{of}", step, OUTSIDE, World(), replace(counter, delay_s=delay_s, later=later))
        for of, step, counter in (
            ("", "60 ms", Counter()),
            ("", "180 ms", Counter()),
            ("", "12 ms", Counter()),
            (", 20 ms counter", "60 ms", Counter(0.02)),
        )
        for name, delay_s, later in (
            ("5 ms late then 20 ms", 0.005, (20.0, 0.015)),
            ("25 ms late then in time", 0.025, (40.0, -0.025)),
        )
    ),
    *(
        Scene(f"{number} samples of {1e3 * sample_s:.0f} ms", step, OUTSIDE, World(), counter)
        for number, sample_s in ((2, 0.02), (3, 0.005), (5, 0.005))
        for step in ("180 ms", "60 ms", "12 ms")
        for counter in (SampledCounter(samples=number, sample_s=sample_s),)
    ),
]
