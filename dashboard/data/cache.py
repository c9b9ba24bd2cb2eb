"""Computes each figure of a run once for all tabs, until the run has something new."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Concatenate, ParamSpec, Protocol, TypeVar, cast

Args = ParamSpec("Args")
Answer = TypeVar("Answer")


class Changing(Protocol):
    """A source of answers that may change at any time."""

    @property
    def cache(self) -> Cache:
        """The answers computed from it."""

    def newest(self) -> str:
        """A string that changes whenever there is something new."""


Source = TypeVar("Source", bound=Changing)


def cached(
    compute: Callable[Concatenate[Source, Args], Answer],
) -> Callable[Concatenate[Source, Args], Answer]:
    """Decorates a function of a run and of hashable arguments (by position)."""

    @functools.wraps(compute)
    def answer(source: Source, /, *args: Args.args, **kwargs: Args.kwargs) -> Answer:
        key = (compute.__module__, compute.__qualname__, *args, *kwargs.items())
        return source.cache.get(key, source.newest(), lambda: compute(source, *args, **kwargs))

    return answer


class Cache:
    """The last used answers by key.

    Safe to use from many threads: the first that asks computes, the others wait.

    Args:
        most: answers that are kept.
    """

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._answers: OrderedDict[Hashable, tuple[Hashable, object]] = OrderedDict()
        self._locks: dict[Hashable, threading.Lock] = {}

    def get(self, key: Hashable, version: Hashable, compute: Callable[[], Answer]) -> Answer:
        """The answer of this version, computed if the cache does not have it."""
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            with self._lock:
                stored = self._answers.get(key)
                if stored is not None and stored[0] == version:
                    self._answers.move_to_end(key)
                    return cast("Answer", stored[1])
            answer = compute()
            with self._lock:
                self._answers[key] = version, answer
                while len(self._answers) > self._most:
                    self._locks.pop(self._answers.popitem(last=False)[0], None)
        return answer
