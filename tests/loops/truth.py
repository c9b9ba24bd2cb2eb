"""What a loop really did: counts and seconds, taken at torch's own calls, outside our code.

The models of the loops note their calls themselves (:mod:`models`); backwards, optimizers' steps,
loaders' batches and saves are noted by patches that stand before ours are made. What belongs to
which phase follows from the order of these events and from what the loop declares.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.data import dataloader

FORWARD, BACKWARD, STEP, DATA, SAVE, WRITE = "forward", "backward", "step", "data", "save", "write"
SCALE = "scale"
active: Truth | None = None


@dataclass(slots=True)
class Event:
    """One call; ``tag`` says more about some kinds."""

    kind: str
    begin_ns: int
    end_ns: int = 0
    tag: str = ""
    who: int = 0
    inside: Event | None = None


@dataclass
class Counts:
    """What a loop did, by phase: how often, for how many seconds, and in how many calls.

    An evaluation's calls are its forwards and its loadings; only its forwards are counted in
    ``count``.
    """

    steps: int = 0
    count: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, Any]:
        by_phase = {"count": self.count, "seconds": self.seconds, "calls": self.calls}
        return {"steps": self.steps} | {name: dict(value) for name, value in by_phase.items()}


class Truth:
    """Notes events while it is entered."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._open: list[Event] = []
        self._undo: list[Callable[[], None]] = []
        self._evaluates = False
        self.without_gradients = "eval"  # what a forward without gradients is

    # -- what a loop declares ------------------------------------------------------------

    @contextlib.contextmanager
    def evaluation(self) -> Iterator[None]:
        """What is loaded and called inside is an evaluation's."""
        before, self._evaluates = self._evaluates, True
        try:
            yield
        finally:
            self._evaluates = before

    def wrote(self) -> None:
        """The loop has written its parameters itself: a step."""
        now = time.monotonic_ns()
        self.events.append(Event(WRITE, now, now))

    @contextlib.contextmanager
    def noted(self, kind: str, begin_ns: int, who: int = 0, tag: str = "") -> Iterator[Event]:
        """Note an event around a block, whose own bookkeeping is part of the event."""
        inside = self._open[-1] if self._open else None
        event = Event(kind, begin_ns, tag=tag, who=who, inside=inside)
        self.events.append(event)
        self._open.append(event)
        try:
            yield event
        finally:
            self._open.pop()
            event.end_ns = time.monotonic_ns()

    def call(self, module: Any, call: Callable[..., Any], *args: Any) -> Any:
        """Note a forward, unless it runs in another one, in a backward or in a loading."""
        begin_ns = time.monotonic_ns()
        if any(event.kind in (FORWARD, BACKWARD, DATA) for event in self._open):
            return call(*args)
        tag = "train" if torch.is_grad_enabled() else self.without_gradients
        if self._evaluates:
            tag = "eval"
        with self.noted(FORWARD, begin_ns, id(module), tag):
            return call(*args)

    # -- patches -------------------------------------------------------------------------

    def __enter__(self) -> Truth:
        global active
        active = self
        self._wrap(torch.Tensor, "backward", BACKWARD)
        self._wrap(torch.autograd, "grad", BACKWARD)
        self._wrap(torch, "save", SAVE)
        self._wrap(torch.amp.GradScaler, "step", SCALE)
        self._wrap(torch.amp.GradScaler, "unscale_", SCALE)
        for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.LBFGS):
            self._wrap_step(kind)
        self._wrap_loader()
        return self

    def __exit__(self, *_: object) -> None:
        global active
        active = None
        for undo in reversed(self._undo):
            undo()

    def _set(self, owner: Any, name: str, value: Any) -> None:
        before = vars(owner).get(name)
        setattr(owner, name, value)
        self._undo.append(
            lambda: delattr(owner, name) if before is None else setattr(owner, name, before)
        )

    def _wrap(self, owner: Any, name: str, kind: str) -> None:
        original = getattr(owner, name)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if kind == BACKWARD and any(event.kind == BACKWARD for event in self._open):
                return original(*args, **kwargs)  # a function's own backward calls the engine
            with self.noted(kind, time.monotonic_ns(), tag=name):
                return original(*args, **kwargs)

        self._set(owner, name, wrapped)

    def _wrap_step(self, kind: Any) -> None:
        # Below torch's own hooks, which it puts on a class's step when one is made.
        original = kind.step.__wrapped__ if getattr(kind.step, "hooked", False) else kind.step

        def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if self._open and self._open[-1].who == id(optimizer):  # AdamW's is Adam's
                return original(optimizer, *args, **kwargs)
            with self.noted(STEP, time.monotonic_ns(), id(optimizer)):
                return original(optimizer, *args, **kwargs)

        self._set(kind, "step", step)

    def _wrap_loader(self) -> None:
        original = dataloader._BaseDataLoaderIter.__next__

        def __next__(iterator: Any) -> Any:
            with self.noted(DATA, time.monotonic_ns(), tag="end") as event:
                batch = original(iterator)
                event.tag = "eval" if self._evaluates else "train"
                return batch

        self._set(dataloader._BaseDataLoaderIter, "__next__", __next__)

    # -- what follows from the events ----------------------------------------------------

    def counts(self) -> Counts:
        """Counts and seconds by phase."""
        counts = Counts()
        in_evaluation = False
        for event in self.events:
            seconds = (event.end_ns - event.begin_ns) / 1e9
            if event.kind == FORWARD:
                phase = {"train": "forward"}.get(event.tag, event.tag)
                in_evaluation = phase == "eval"
                counts.count[phase] += 1
                counts.calls[phase] += 1
                counts.seconds[phase] += seconds
            elif event.kind == BACKWARD:
                in_evaluation = False
                counts.count["backward"] += 1
                counts.seconds["backward"] += seconds - self._inside(event, FORWARD)
            elif event.kind == DATA:
                phase = event.tag
                if phase == "end":
                    phase = "eval" if in_evaluation else "train"
                counts.count["data"] += event.tag == "train"
                phase = "data" if phase == "train" else "eval"
                counts.calls[phase] += 1
                counts.seconds[phase] += seconds
            elif event.kind == SAVE and (event.inside is None or event.inside.kind != SAVE):
                counts.count["checkpoint"] += 1
                counts.seconds["checkpoint"] += seconds
            elif event.kind == STEP:
                counts.count["optimizer"] += 1
                counts.seconds["optimizer"] += self._own(event) if event.inside is None else 0.0
            elif event.kind == SCALE and event.inside is None:
                counts.seconds["optimizer"] += seconds
        counts.seconds["forward"] += self._tails()
        counts.steps = self._steps()
        return counts

    def _inside(self, event: Event, *kinds: str) -> float:
        return sum(
            (e.end_ns - e.begin_ns) / 1e9
            for e in self.events
            if e.inside is event and e.kind in kinds
        )

    def _own(self, step: Event) -> float:
        """Seconds of an optimizer's step, without its closure's: from the first backward on."""
        inside = [e for e in self.events if e.inside is step]
        if not inside:
            return (step.end_ns - step.begin_ns) / 1e9
        first = next(e for e in inside if e.kind == BACKWARD)
        later = sum(e.end_ns - e.begin_ns for e in inside if e.begin_ns > first.begin_ns)
        return (step.end_ns - first.end_ns - later) / 1e9 - self._tails(step, first.end_ns)

    def _tails(self, inside: Event | None = None, after_ns: int = 0) -> float:
        """Seconds from a forward to the backward that follows, if nothing lies between."""
        total, last, between = 0, None, 0
        for event in sorted(self.events, key=lambda e: e.begin_ns):
            if inside is not None and (event.inside is not inside or event.begin_ns < after_ns):
                continue
            if event.kind == FORWARD:
                trains = event.tag == "train" or last is not None
                last, between = (event if trains else None), 0
            elif event.kind == BACKWARD and last is not None:
                total += event.begin_ns - last.end_ns - between
                last = None
            elif event.kind in (STEP, WRITE) and event.inside is None:
                last = None
            elif event.kind in (DATA, SAVE):
                between += event.end_ns - event.begin_ns
        return total / 1e9

    def _steps(self) -> int:
        """Steps: optimizers that step one after the other, with nothing between, are one."""
        steps, stepped = 0, set()
        for event in self.events:
            if event.kind == WRITE:
                steps, stepped = steps + 1, set()
            elif event.kind == STEP:
                if not stepped or event.who in stepped:
                    steps, stepped = steps + 1, set()
                stepped.add(event.who)
            elif event.inside is None and event.kind not in (SAVE, SCALE):
                stepped = set()
        return steps
