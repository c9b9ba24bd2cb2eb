"""File calls that fail, for a while, in every recorder: a library that is preloaded.

While a flag file exists, calls on files below one directory fail with one error, in processes
whose command line speaks of the recorder. Others, the training's among them, are left alone.
"""

from __future__ import annotations

import errno
import subprocess
from pathlib import Path

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static int concerned = -1;

static int in_recorder(void) {
    if (concerned < 0) {
        char line[1 << 16];
        long file = syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY, 0);
        long size = file < 0 ? 0 : syscall(SYS_read, file, line, sizeof line - 1);
        if (file >= 0) syscall(SYS_close, file);
        if (size < 0) size = 0;
        concerned = memmem(line, size, "probe.recorder", 14) != NULL;
    }
    return concerned;
}

static int below(const char *path) {
    const char *folder = getenv("FAILING_BELOW");
    return path && folder && strncmp(path, folder, strlen(folder)) == 0;
}

static int fails(const char *path) {
    const char *flag = getenv("FAILING_WHILE");
    if (!flag || !in_recorder() || !below(path)) return 0;
    if (syscall(SYS_faccessat, AT_FDCWD, flag, F_OK, 0)) return 0;
    errno = atoi(getenv("FAILING_WITH"));
    return 1;
}

static int fails_on(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    return fails(path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define OPENS(name)                                                            \
    int name(const char *path, int flags, ...) {                               \
        va_list more; va_start(more, flags);                                   \
        mode_t mode = va_arg(more, mode_t); va_end(more);                      \
        return fails(path) ? -1 : REAL(name)(path, flags, mode);               \
    }
OPENS(open)
OPENS(open64)
#define OPENS_AT(name)                                                         \
    int name(int at, const char *path, int flags, ...) {                       \
        va_list more; va_start(more, flags);                                   \
        mode_t mode = va_arg(more, mode_t); va_end(more);                      \
        return fails(path) ? -1 : REAL(name)(at, path, flags, mode);           \
    }
OPENS_AT(openat)
OPENS_AT(openat64)
ssize_t write(int file, const void *bytes, size_t size) {
    return fails_on(file) ? -1 : REAL(write)(file, bytes, size);
}
int rename(const char *from, const char *to) { return fails(from) ? -1 : REAL(rename)(from, to); }
int unlink(const char *path) { return fails(path) ? -1 : REAL(unlink)(path); }
int mkdir(const char *path, mode_t mode) { return fails(path) ? -1 : REAL(mkdir)(path, mode); }
int fsync(int file) { return fails_on(file) ? -1 : REAL(fsync)(file); }
"""
ERRORS = {"EIO": errno.EIO, "EMFILE": errno.EMFILE, "ENOMEM": errno.ENOMEM, "EROFS": errno.EROFS}


def failing_calls(folder: Path, below: Path, error: str) -> tuple[dict[str, str], Path]:
    """(environment of the training, the flag file while which calls fail)."""
    library, source, flag = folder / "failing.so", folder / "failing.c", folder / "fail-now"
    source.write_text(_SOURCE)
    command = ["gcc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    environment = {
        "LD_PRELOAD": str(library),
        "FAILING_BELOW": str(below),
        "FAILING_WHILE": str(flag),
        "FAILING_WITH": str(ERRORS[error]),
    }
    return environment, flag
