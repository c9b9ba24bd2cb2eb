"""What the end of a sealed segment says of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from .hot_reader import UNREADABLE
from .segment_reader import open_sealed
from .segments import CLOSED_NS


@dataclass(frozen=True, slots=True)
class Footer:
    """Of one sealed segment."""

    schema: pa.Schema
    closed_ns: int | None  # by the recorder's clock; None: of an older version
    bytes: int
    inflated: int


def read_footer(path: Path) -> Footer | None:
    """The footer of a sealed segment; None if it is damaged."""
    try:
        with open_sealed(path) as file:
            about = file.metadata
            said = (about.metadata or {}).get(CLOSED_NS.encode())
            groups = [about.row_group(place) for place in range(about.num_row_groups)]
            return Footer(
                file.schema_arrow.remove_metadata(),
                None if said is None else int(said),
                path.stat().st_size,
                sum(group.total_byte_size for group in groups),
            )
    except UNREADABLE:
        return None
