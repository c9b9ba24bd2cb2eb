"""What is public in Python, from its docstrings: a page of directives that Sphinx fills in."""

from __future__ import annotations

import inspect

import probe

_HEAD = """Python
======

The names of ``probe.__all__`` and ``optimizers.__all__``, the entries in frameworks, and what
extensions implement. What stays as it is: :doc:`/stability`. ``help(probe.watch)`` prints the same.
The fields of reports are the keys of their JSON: :doc:`report-json`.
"""
_OF_A_REPORT = ("members: render, to_dict, to_json", "no-signature")

# A heading, and what stands below it: (directive, name, options).
_PARTS: dict[str, tuple[tuple[str, str, tuple[str, ...]], ...]] = {
    "Recording": (
        ("class", "probe.watch", ("signature-of-init",)),
        ("function", "probe.start", ()),
        ("function", "probe.phase", ()),
        ("class", "probe.Run", ("members", "no-signature")),
    ),
    "Reading": (
        ("function", "probe.open_report", ()),
        ("function", "probe.open_run", ()),
        ("class", "probe.Report", _OF_A_REPORT),
        ("class", "probe.GroupReport", _OF_A_REPORT),
        ("class", "probe.RunReader", ("members", "no-signature")),
    ),
    "Errors": (
        ("exception", "probe.ProbeError", ("members",)),
        ("exception", "probe.UsageError", ()),
        ("exception", "probe.StoreError", ()),
    ),
    "In frameworks": (
        ("class", "probe.integrations.hf.PhasewattCallback", ()),
        ("class", "probe.integrations.lightning.PhasewattCallback", ()),
        ("class", "probe.integrations.accelerate.PhasewattTracker", ()),
    ),
    "Training with techniques": (
        ("class", "optimizers.Stack", ("members",)),
        ("class", "optimizers.Trainer", ("members",)),
        ("class", "optimizers.Budget", ("members",)),
        ("class", "optimizers.Result", ("members",)),
        ("class", "optimizers.Plan", ("members",)),
        ("exception", "optimizers.TrainingFailed", ()),
        ("function", "optimizers.ablate", ()),
    ),
    "What extensions implement": (
        ("class", "probe.sensors.Sensor", ("members",)),
        ("class", "probe.model.Source", ("members",)),
        ("class", "exporters.Exporter", ("members",)),
        ("class", "optimizers.Technique", ("members",)),
    ),
}


def page() -> str:
    """The page, in reStructuredText."""
    lines = [_HEAD]
    for heading, entries in _PARTS.items():
        lines += [heading, "-" * len(heading), ""]
        for directive, name, options in entries:
            lines.append(f".. auto{directive}:: {name}{_signature(options)}")
            lines += [
                f"   :{option}:{values}"
                for option, _, values in (written.partition(":") for written in options)
                if "signature" not in option
            ]
            lines.append("")
    return "\n".join(lines)


def _signature(options: tuple[str, ...]) -> str:
    """The signature where Sphinx would show another one; empty: as it finds it."""
    if "signature-of-init" in options:  # its __new__ takes what decorators pass
        own = inspect.signature(probe.watch.__init__)
        return str(own.replace(parameters=list(own.parameters.values())[1:]))
    return "()" if "no-signature" in options else ""  # users do not construct it


def documented() -> set[str]:
    """The full names of what the page describes."""
    return {name for entries in _PARTS.values() for _, name, _ in entries}
