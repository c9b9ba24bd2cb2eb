"""Builds the compiled modules: those below probe/ whose first line begins with ``# cython:``.

Where there is no C compiler they stay plain Python and do the same. One more is written in C, as it
starts a thread that must not need Python's lock; without it the caller waits some ms longer.
"""

from importlib.util import source_hash
from pathlib import Path

from setuptools import Extension, setup

DECLARED = sorted(Path("probe/ring").glob("*.pxd"))


def extension(source: Path) -> Extension:
    """Compile one module; it carries a hash of its sources (``probe/ring/stale_check.py``)."""
    sources = [source, *DECLARED]
    built_from = source_hash(b"".join(path.read_bytes() for path in sources)).hex()
    return Extension(
        ".".join(source.with_suffix("").parts),
        [str(source)],
        depends=[str(path) for path in DECLARED],
        define_macros=[("PHASEWATT_BUILT_FROM", f'"{built_from}"')],
        extra_compile_args=["-g0", "-fno-plt"],
        optional=True,
    )


setup(
    ext_modules=[
        Extension("probe.recorder.spawn_thread", ["probe/recorder/spawn_thread.c"], optional=True),
        *(
            extension(source)
            for source in sorted(Path("probe").rglob("*.py"))
            if source.read_bytes().startswith(b"# cython:")
        ),
    ],
    options={"build_ext": {"force": True}},  # times of files do not say what was built from what
)
