"""A compiled module that was built from another source than the one beside it is refused."""

from __future__ import annotations

from importlib.util import source_hash
from pathlib import Path

DECLARED = sorted(Path(__file__).parent.glob("*.pxd"))


def refuse_stale(library: str, built_from: str) -> None:
    """Compare a compiled module's source with the one that it was built from.

    Where the source does not lie beside the library there is nothing to compare.

    Args:
        library: path of the compiled module.
        built_from: hash of its sources when it was built (``setup.py``); empty: unknown.

    Raises:
        ImportError: the sources have changed since.
    """
    path = Path(library)
    source = path.with_name(path.name.partition(".")[0] + ".py")
    try:
        sources = (path.read_bytes() for path in (source, *DECLARED))
        now = source_hash(b"".join(sources)).hex()
    except OSError:
        return
    if built_from and built_from != now:
        raise ImportError(
            f"{path} was built from another {source.name} than the one beside it: build it again "
            "(python -m pip install --no-deps --no-build-isolation -e .) or delete it"
        )
