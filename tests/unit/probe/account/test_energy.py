"""The order in which devices are told."""

from __future__ import annotations

import itertools
import random

from probe.account.energy import counted


def test_numbers_count() -> None:
    names = ["cpu", "cpu0/package0", "cpu0/package1", "gpu0", "gpu2", "gpu9", "gpu10", "gpu63",
             "node-a/gpu1", "node-a/gpu11", "node-b/gpu0", "ram"]
    shuffled = random.Random(0).sample(names, len(names))
    assert sorted(shuffled, key=counted) == names
    for one, other in itertools.permutations(["", "7", "7a", "a7", "٣", "x²", "gpu"], 2):
        assert (counted(one) < counted(other)) != (counted(other) <= counted(one))
