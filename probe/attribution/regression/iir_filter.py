"""y ← a y + x along rows, many rows at a time."""

from __future__ import annotations

import numpy as np

from ..arrays import Floats

_CHUNK = 16


def fading(log_decay: Floats, added: Floats, start: Floats) -> Floats:
    """yₖ = exp(log_decayₖ) yₖ₋₁ + addedₖ, y₋₁ = start.

    Inside a chunk of rows it is one product with a triangular matrix, so that Python goes from
    chunk to chunk, not from row to row.

    Args:
        log_decay: (n,), none above 0.
        added: (n, w).
        start: (w,).

    Returns:
        (n, w).
    """
    n, width = added.shape
    chunks = -(-n // _CHUNK)
    faded = np.zeros((chunks, _CHUNK))
    faded.reshape(-1)[:n] = log_decay
    faded = faded.cumsum(1)
    padded = np.zeros((chunks * _CHUNK, width))
    padded[:n] = added
    with np.errstate(over="ignore"):  # above the diagonal, which is cut off
        weights = np.tril(np.exp(faded[:, :, None] - faded[:, None, :]))
    out = weights @ padded.reshape(chunks, _CHUNK, width)
    carry = np.exp(faded)[:, :, None]
    for chunk in range(chunks):
        out[chunk] += carry[chunk] * start
        start = out[chunk, -1]
    return np.asarray(out.reshape(-1, width)[:n])
