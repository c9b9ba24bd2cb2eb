"""How far the recorder has thinned what it kept of a run (:mod:`probe.recorder.upkeep`)."""

from __future__ import annotations

from pathlib import Path

from .footers import read_footer
from .reader import RunReader
from .segment_names import parse
from .segment_reader import segment_files


def thinned_until_ns(reader: RunReader) -> int | None:
    """Until when raw samples or edges of a run were thinned, by the reader's clock; None: nothing.

    What came later is all there.
    """
    ends = []
    for node in reader.nodes():
        end_ns = _end_ns(node, "samples")
        if end_ns is not None:
            ends.append(end_ns + reader.ahead_of(node))
    for rank in reader.ranks():
        for folder, ahead_ns in reader.folders(rank):
            end_ns = _end_ns(folder, "edges")
            if end_ns is not None:
                ends.append(end_ns + ahead_ns)
    return max(ends, default=None)


def _end_ns(folder: Path, table: str) -> int | None:
    """When the last thinned segment of a table was closed."""
    ends = []
    last: dict[str, Path] = {}
    for path in segment_files(folder, table):
        name = parse(path.stem)
        if name is not None and name.thin:
            last[name.writer] = path
    for path in last.values():
        footer = read_footer(path)
        if footer is not None and footer.closed_ns is not None:
            ends.append(footer.closed_ns)
    return max(ends, default=None)
