"""The order in which devices are told."""

from __future__ import annotations

import random

from probe.analysis.device_energy import natural


def test_numbers_count() -> None:
    names = [
        "cpu",
        "cpu0/package0",
        "cpu0/package1",
        "gpu0",
        "gpu2",
        "gpu9",
        "gpu10",
        "gpu63",
        "node-a/gpu1",
        "node-a/gpu11",
        "node-b/gpu0",
        "ram",
    ]
    shuffled = random.Random(0).sample(names, len(names))
    assert sorted(shuffled, key=natural) == names


def test_no_name_is_too_strange_to_be_sorted() -> None:
    names = ["gpu", "x²", "a7", "٣", "7a", "7", ""]
    assert sorted(names, key=natural) == ["", "٣", "7", "7a", "a7", "gpu", "x²"]
