"""The small files of a recorder's directory: its sources, its gaps, the names in its rings."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from ..errors import StoreError
from ..model import DeviceKind, Gap, Kind, Provenance, Source
from . import files, untrusted

_GAPS_BYTES = 64 << 20  # of a longer file the first part is read
_PIECE = 1 << 20


def read_sources(node: Path) -> list[Source]:
    """The sources that a node's recorder registered, in the order of their index.

    Raises:
        StoreError: sources.json is damaged; no sample can be told from another without it.
    """
    path = node / "sources.json"
    stored = files.read_json(path)
    try:
        return [_source(value) for value in stored or []]
    except (TypeError, ValueError, KeyError, AttributeError):
        raise StoreError(
            f"{path} is damaged: it is not a list of sources; restore it or remove {node}"
        ) from None


def _source(value: dict[str, Any]) -> Source:
    kept = {name: item for name, item in value.items() if name in _FIELDS}
    kept["kind"] = Kind(kept["kind"])
    kept["device_kind"] = DeviceKind(kept.get("device_kind", DeviceKind.OTHER))
    kept["provenance"] = Provenance(kept["provenance"])
    source = Source(**kept)
    for name, kind in _FIELDS.items():
        if kind == "str" and not isinstance(getattr(source, name), str):
            raise TypeError(name)
        if kind == "float" and not isinstance(getattr(source, name), (int, float)):
            raise TypeError(name)
    return source


_FIELDS = {item.name: str(item.type) for item in fields(Source)}


def read_gaps(node: Path) -> list[Gap]:
    """What a node's recorder did not record; lines that are torn or damaged are left out."""
    try:
        with untrusted.opened(node / "gaps.jsonl", 1 << 40) as file:
            content = file.read(_GAPS_BYTES)
    except OSError:
        return []
    gaps = (_gap(line) for line in content.split(b"\n") if line.startswith(b"{"))
    return [gap for gap in gaps if gap is not None]


def _gap(line: bytes) -> Gap | None:
    try:
        gap = Gap(**untrusted.parsed(line))
    except (ValueError, TypeError):
        return None
    return gap if files.is_whole(gap.begin_ns) and files.is_whole(gap.end_ns) else None


def read_names(folder: Path, ring: str) -> dict[int, str]:
    """Names of phases and metrics in a ring by their code; what is no name is left out."""
    stored = files.read_json(folder / f"names-{ring}.json")
    if not isinstance(stored, dict):
        return {}
    return {
        int(code): name
        for code, name in stored.items()
        if code.isascii() and code.isdigit() and len(code) < 6 and isinstance(name, str)
    }
