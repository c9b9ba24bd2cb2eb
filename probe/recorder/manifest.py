"""What a run needs kept so that one can say later why two runs differ: the code and its packages.

Gathered by the recorder, beside the training, in a thread of its own: asking git may take a second.
Nothing of the code itself is kept, only which commit it is and a hash of what was changed since.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import subprocess
import threading
import time
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path

from ..redact import redact_text
from ..store.run_fields import CodeFields, RunFields

_GIT_S = 2.0  # for each question
# A repository may be anybody's: nothing of its configuration is run.
_GIT = (
    *("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "core.pager=cat", "-c", "protocol.allow=never"),
)
_ALONE = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C",
}
_FILES_S = 2.0  # to compare files with the commit
_LARGEST = 1 << 20  # bytes of a file that is code


class Manifest:
    """Gathers both, once."""

    def __init__(self, pid: int) -> None:
        """``pid``: of a process that trains; its working directory, else its script, is code."""
        self._code: CodeFields | None = None
        self._packages: Mapping[str, str] | None = None
        self._pid = pid
        self._thread = threading.Thread(target=self._gather, name="manifest", daemon=True)
        self._thread.start()

    def _gather(self) -> None:
        with contextlib.suppress(Exception):  # a manifest is worth no recording
            folder = Path(os.readlink(f"/proc/{self._pid}/cwd"))
            self._code = code_of(folder)
            if self._code is None and (script := _script_of(self._pid, folder)) is not None:
                self._code = code_of(script.parent)
        with contextlib.suppress(Exception):
            self._packages = packages()

    def gathered(self, wait_s: float = 0.0) -> RunFields:
        """The run's fields of both, None where they are not known after waiting so long at most."""
        self._thread.join(wait_s)
        return {"code": self._code, "packages": self._packages}


def _script_of(pid: int, folder: Path) -> Path | None:
    """The script in a process's command line, which began in ``folder``; None if there is none."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:]
    scripts = (folder / os.fsdecode(word) for word in words if word.endswith(b".py"))
    return next((script.resolve() for script in scripts if script.is_file()), None)


def packages() -> dict[str, str]:
    """Version by name of every package on our path, which is the training's without its script's.

    Of two with one name the first counts, as for an import.
    """
    versions: dict[str, str] = {}
    for each in distributions():
        if name := each.metadata["Name"]:  # broken installations have none
            versions.setdefault(re.sub(r"[-_.]+", "-", str(name)).lower(), str(each.version))
    return dict(sorted(versions.items()))


def code_of(folder: Path) -> CodeFields | None:
    """The commit of a folder's repository, and what was changed since; None if it has none.

    Files are compared with the commit here, not by git, which would run the filters that the
    repository asks for. Those above a MiB are data, not code, and are not looked at.
    """
    commit = _asked(folder, "rev-parse", "--verify", "HEAD")
    top = _asked(folder, "rev-parse", "--show-toplevel")
    if commit is None or top is None:
        return None
    tree = _asked(folder, "ls-tree", "-r", "-z", "--full-tree", "HEAD")
    branch = _asked(folder, "rev-parse", "--abbrev-ref", "HEAD")
    root = Path(os.fsdecode(top.rstrip(b"\n")))
    changed = None if tree is None else _changed(root, tree)
    return {
        "commit": commit.decode("ascii", "replace").strip(),
        "branch": redact_text((branch or b"").decode("utf-8", "replace").strip()),
        "changed_files": None if changed is None else len(changed),
        "diff_hash": _hash_of(changed) if changed else "",
    }


def _changed(root: Path, tree: bytes) -> dict[bytes, bytes] | None:
    """Hash of their content now, by path, of the files that are not as in the commit.

    None if there are too many files to look at in time.
    """
    until_s = time.monotonic() + _FILES_S
    changed = {}
    for entry in filter(None, tree.split(b"\0")):
        about, _, path = entry.partition(b"\t")
        mode, kind, committed = about.split()
        if kind != b"blob" or mode == b"120000":  # submodules, links
            continue
        if time.monotonic() > until_s:
            return None
        now = _blob_hash(root / os.fsdecode(path), len(committed))
        if now is not None and now != committed:
            changed[path] = now
    return changed


def _blob_hash(path: Path, length: int) -> bytes | None:
    """As git names a file's content; None if it is large or no file. ``gone`` if it is not there.

    Args:
        length: of the names in this repository: 40 (SHA-1) or 64 (SHA-256).
    """
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            return None
        content = path.read_bytes()
    except FileNotFoundError:
        return b"gone"
    except OSError:
        return None
    kind = hashlib.sha1 if length == 40 else hashlib.sha256
    return kind(b"blob %d\0" % len(content) + content).hexdigest().encode()


def _hash_of(changed: Mapping[bytes, bytes]) -> str:
    parts = (path + b"\0" + content + b"\0" for path, content in sorted(changed.items()))
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def _asked(folder: Path, *words: str) -> bytes | None:
    """What git answers; None if it does not, in time."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    try:
        done = subprocess.run(
            [*_GIT, "-C", str(folder), *words],
            env=kept | _ALONE,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
