"""The small files of a recorder's directory: its sources, its gaps, the names in its rings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from ..errors import StoreError
from ..model import DeviceKind, Gap, Kind, Provenance, Source, device_kind
from . import checksums, files, untrusted
from .field_kinds import is_whole

_GAPS_BYTES = 64 << 20  # of a longer file the first part is read
_PIECE = 1 << 20
_DEVICE = re.compile(rb'"device": ?"([^"\\]*)"')


def read_sources(node: Path) -> list[Source]:
    """The sources that a node's recorder registered, in the order of their index.

    Raises:
        StoreError: sources.json is damaged; no sample can be told from another without it.
    """
    path = node / "sources.json"
    bad: list[Path] = []
    stored = files.read_json(path, damaged=bad.append)
    try:
        if bad:
            raise ValueError
        return [_source(value) for value in stored or []]
    except (TypeError, ValueError, KeyError, AttributeError):
        raise StoreError(
            f"{path} is damaged: it is not a list of sources; restore it or remove {node}"
        ) from None


def accelerators(sources: Iterable[Any]) -> int:
    """How many GPUs and their like a node's sources are of.

    Args:
        sources: as they stand in sources.json; what is no source counts for nothing.
    """
    kind = str(DeviceKind.ACCELERATOR)
    entries = [source for source in sources if isinstance(source, dict)]
    return len(
        {
            str(source.get("uuid") or source.get("device"))
            for source in entries
            if source.get("device_kind", device_kind(str(source.get("device")))) == kind
        }
    )


def accelerators_of_node(node: Path) -> int:
    """The same of a node's directory, for a list of very many runs.

    Names of devices are looked for in the text: parsing it takes fifty times as long, and the
    sources of eight GPUs are 60 kB. 0 where the file is missing.
    """
    try:
        text = untrusted.read_regular(node / "sources.json", files.JSON_BYTES)
    except OSError:
        return 0
    names = [name.decode("utf-8", "replace") for name in set(_DEVICE.findall(text))]
    return sum(device_kind(name) is DeviceKind.ACCELERATOR for name in names)


def _source(value: Any) -> Source:
    kept = {name: item for name, item in value.items() if name in _FIELDS}
    kept["kind"] = Kind(kept["kind"])
    kept["device_kind"] = DeviceKind(kept.get("device_kind", DeviceKind.OTHER))
    kept["provenance"] = Provenance(kept["provenance"])
    if value.get("offset_s"):  # of older runs: how far its clock was ahead
        kept["delay_s"] = -value["offset_s"]
    source = Source(**kept)
    for name, kind in _FIELDS.items():
        if kind == "str" and not isinstance(getattr(source, name), str):
            raise TypeError(name)
        if kind == "float" and not isinstance(getattr(source, name), (int, float)):
            raise TypeError(name)
    return source


_FIELDS = {item.name: str(item.type) for item in fields(Source)}


def read_gaps(node: Path, damaged: Callable[[Path], None] = lambda _: None) -> list[Gap]:
    """What a node's recorder did not record; lines that are torn or damaged are left out.

    Args:
        node: the recorder's directory.
        damaged: hears of a file with such lines.
    """
    path = node / "gaps.jsonl"
    try:
        with untrusted.opened(path, 1 << 40) as file:
            content = file.read(_GAPS_BYTES)
    except OSError:
        return []
    gaps = [_gap(line, path.name) for line in content.removesuffix(b"\n").split(b"\n")]
    if None in gaps:
        damaged(path)
    return [gap for gap in gaps if gap is not None]


def gap_line(gap: Gap) -> bytes:
    """A line of the file of gaps."""
    return checksums.with_checksum(asdict(gap), "gaps.jsonl", compact=True)


def _gap(line: bytes, name: str) -> Gap | None:
    try:
        gap = Gap(**checksums.without_checksum(untrusted.parsed(line), name))
    except (ValueError, TypeError):
        return None
    return gap if is_whole(gap.begin_ns) and is_whole(gap.end_ns) else None


def read_names(
    folder: Path, ring: str, damaged: Callable[[Path], None] = lambda _: None
) -> dict[int, str]:
    """Names of phases and metrics in a ring by their code; what is no name is left out.

    Args:
        folder: of the rank.
        ring: its name.
        damaged: hears of a file that is not what was written.
    """
    stored = files.read_json(folder / f"names-{ring}.json", damaged=damaged)
    if not isinstance(stored, dict):
        return {}
    return {
        int(code): name
        for code, name in stored.items()
        if code.isascii() and code.isdigit() and len(code) < 6 and isinstance(name, str)
    }
