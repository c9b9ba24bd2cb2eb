"""Does the residual of the fit still look like another response?

The same powers through neighbouring responses are columns of their own (:mod:`nuisance`). What of
them the fit cannot explain is correlated with the residual, block by block of the run; Hotelling's
T² over the blocks says how likely such correlations are by chance. No noise level is assumed, and
blocks of unequal noise do no harm. (A ratio of variances would need an absolute level: the power of
single instances varies by an unknown 0.3–2 %.)
"""

from __future__ import annotations

import numpy as np

from ..arrays import Floats

_LEAST_SIZE = 0.15  # of the largest singular value: smaller directions are left out
_FEWEST = 6  # more blocks than directions: the smaller ones of too many are left out


def p_value(
    block_sums: Floats, tested: Floats, solved: Floats, matrix: Floats, value: Floats
) -> float:
    """Probability that a residual of the right model is correlated so much with other responses.

    Args:
        block_sums: zᵀz of each block, (b, n, n), the energy first.
        tested: from z to the columns that the residual is tested against, (n, q).
        solved: from z to the columns that were solved for, (n, p).
        matrix, value: of the solve, (p, p) and (p,).

    Returns:
        In [0, 1]; 1 where there are too few blocks to say.
    """
    total = block_sums.sum(0)
    size = np.sqrt(np.maximum(np.diag(tested.T @ total @ tested), 0.0))
    tested = tested[:, size > 1e-9 * max(float(size.max(initial=0.0)), 1e-30)]
    if not tested.shape[1]:
        return 1.0
    # What the solved columns explain of the tested ones is taken out of them.
    rest = tested - solved @ np.linalg.solve(matrix, solved.T @ total @ tested)
    gram = rest.T @ total @ rest
    norm = np.sqrt(np.maximum(np.diag(gram), 1e-30))
    square, direction = np.linalg.eigh(gram / np.outer(norm, norm))
    kept = square > _LEAST_SIZE**2 * square[-1]
    kept[: max(0, len(kept) - (len(block_sums) - _FEWEST))] = False
    if not kept.any():
        return 1.0
    rest = (rest / norm) @ direction[:, kept]
    residual = np.zeros(len(total))
    residual[0] = 1.0
    residual = residual - solved @ value
    scores = np.einsum("nq,bnm,m->bq", rest, block_sums, residual)
    blocks, q = scores.shape
    mean = scores.mean(0)
    cov = np.cov(scores.T).reshape(q, q)
    cov = cov + 1e-12 * np.trace(cov) * np.eye(q)
    t2 = blocks * float(mean @ np.linalg.solve(cov, mean))
    from scipy.special import fdtrc

    return float(fdtrc(q, blocks - q, (blocks - q) / (q * (blocks - 1)) * t2))
