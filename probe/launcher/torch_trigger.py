"""Join the run of ``probe run`` when this process begins to train.

Loaded by path from the boot ``sitecustomize``, standard library only. Three
one-shot wrappers wait for the first sign of training; each puts the original back.
Transformers' Trainer learns the name of our callback, which is imported only if it is asked for.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

_armed_in = 0  # the process that was armed last
_hooked = False  # forks are followed
_REPORTERS = "transformers.integrations.integration_utils"  # what `report_to` can name
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # probe's own folder


def arm() -> None:
    """Wait for torch; does nothing in a process that never imports it."""
    if "torch" in sys.modules:
        _wait_for_training(sys.modules["torch"])
    else:
        sys.meta_path.insert(0, _Finder("torch", _wait_with_torch))
    sys.meta_path.insert(0, _Finder(_REPORTERS, _offer_callback))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing itself: sees a module being found and wraps its loader.

    Args:
        name: of the module.
        imported: called with the module, once.
    """

    def __init__(self, name: str, imported: Callable[[Any], None]):
        self._name, self._imported = name, imported

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            try:
                self._imported(module)
            except Exception as error:
                _say(f"phases are not recorded: {error}")

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _wait_with_torch(torch: Any) -> None:
    _note_torch()
    _wait_for_training(torch)


def _offer_callback(reporters: Any) -> None:
    """Let a Trainer be asked for ours by its name, ``report_to=["phasewatt"]``."""

    class PhasewattCallback:
        """Becomes the entry's, which is imported only if a Trainer makes one."""

        def __new__(cls) -> Any:
            _load_probe()
            from probe.integrations import hf

            return hf.PhasewattCallback()

    names = getattr(reporters, "INTEGRATION_TO_CALLBACK", None)
    if isinstance(names, dict):
        names.setdefault("phasewatt", PhasewattCallback)


def _note_torch() -> None:
    """For the report of a command in which nothing trained: whether torch was there at all."""
    with contextlib.suppress(OSError, KeyError):
        marker = os.path.join(os.environ["PROBE_RUN"], "members", ".torch")
        os.close(os.open(marker, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def _wait_for_training(torch: Any) -> None:
    global _armed_in
    _armed_in = _armed_in or os.getpid()
    fired: list[bool] = []

    def once(owner: Any, name: str) -> Callable[[], None] | None:
        original = getattr(owner, name, None)
        if original is None:
            return None

        @functools.wraps(original)
        def first(*args: Any, **kwargs: Any) -> Any:
            if not fired and not _is_loader_worker():
                fired.append(True)
                for restore in restores:
                    restore()
                _join(late=owner is torch.autograd)
                return getattr(owner, name)(*args, **kwargs)
            return original(*args, **kwargs)

        def restore() -> None:
            if getattr(owner, name) is first:  # else a later patch: stay below as a pass-through
                setattr(owner, name, original)

        setattr(owner, name, first)
        return restore

    from torch.utils.data import dataloader

    restores = [
        restore
        for restore in (
            once(torch.optim.Optimizer, "__init__"),
            once(torch.autograd, "_engine_run_backward"),
            once(dataloader._BaseDataLoaderIter, "__init__"),
        )
        if restore is not None
    ]


def _join(*, late: bool) -> None:
    """Join the run; ``late``: at a backward, after a forward that nobody heard."""
    # A fork server's child imports torch itself, and ends as all that are forked do.
    forked = os.getpid() != _armed_in or "multiprocessing.forkserver" in sys.modules
    try:
        _load_probe()
        from probe.session.watch import attach

        attach(forked=forked, late=late)
    except Exception as error:
        _say(f"phases are not recorded: {error}")
    _follow_forks()


def _follow_forks() -> None:
    """A child that is forked from here on and trains is a training of its own.

    What follows forks in the engine was told before us and goes first: it lets go of the parent's
    run, and then the child waits for its own first sign of training.
    """
    global _hooked
    if not _hooked:
        _hooked = True
        os.register_at_fork(after_in_child=_rearm)


def _rearm() -> None:
    try:
        _wait_for_training(sys.modules["torch"])
    except Exception as error:
        _say(f"phases are not recorded here: {error}")


def _is_loader_worker() -> bool:
    """Whether this process loads data for another: what it computes is not a training."""
    loader = sys.modules.get("torch.utils.data")
    return loader is not None and loader.get_worker_info() is not None


def _load_probe() -> None:
    """Import this very package as ``probe``, wherever the user's python looks."""
    init = os.path.join(_ROOT, "__init__.py")
    loaded = sys.modules.get("probe")
    if loaded is None:
        spec = importlib.util.find_spec("probe")
        if spec is None or spec.origin is None:
            spec = importlib.util.spec_from_file_location(
                "probe", init, submodule_search_locations=[_ROOT]
            )
            assert spec is not None and spec.loader is not None
            loaded = importlib.util.module_from_spec(spec)
            sys.modules["probe"] = loaded
            spec.loader.exec_module(loaded)
            return
        origin = spec.origin
    else:
        origin = getattr(loaded, "__file__", None) or ""
    if not os.path.exists(origin) or not os.path.samefile(origin, init):
        raise RuntimeError(f"another package named probe stands at {origin}")


def _say(line: str) -> None:
    sys.stderr.write(f"phasewatt: {line}\n")
