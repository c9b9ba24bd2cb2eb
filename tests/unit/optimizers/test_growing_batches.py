"""Sizes of batches over a training, pixels of smaller images, and what is cut off sequences."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from optimizers import Stack, Trainer  # noqa: E402
from optimizers.errors import TechniqueRefused  # noqa: E402
from optimizers.plan import Plan  # noqa: E402
from optimizers.techniques.resizing import Resizing  # noqa: E402
from optimizers.techniques.sequence import SequenceLength  # noqa: E402
from tests.fakes.refused_techniques import refusal  # noqa: E402

from .models import Mixed, MixedSamples, loss, samples, stacked  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


def changed(technique, batch, done):
    (change,) = technique.plan(Plan()).batches
    return change(batch, done)


def train(stack):
    """What the loss is given in each micro-batch of 20 steps."""
    shapes = []

    def noted(model, batch):
        (images, tokens), classes = batch
        shapes.append((len(classes), images.shape[2:], tokens.shape[1]))
        return loss(model, batch)

    trainer = Trainer(
        Mixed(),
        MixedSamples(),
        noted,
        stack=Stack.of(stack),
        samples=16 * 20,
        batch_size=16,
        classify=False,
        quiet=True,
    )
    shapes.clear()  # operations were counted
    return trainer, trainer.fit(), shapes


def test_a_training_sees_the_sizes_of_the_samples_consumed_before_each_step():
    _, result, shapes = train("resizing(scale=0.25,delay=0.2,full=0.79),sequence(full=0.5)")
    expected = []
    for step in range(20):
        done = step / 20
        scale = 1 if done >= 0.79 else 0.25 + 0.75 * max(0.0, done - 0.2) / 0.59
        share = 1 if done >= 0.5 else 0.25 + 0.75 * done / 0.5
        side, length = 4 * round(16 * scale / 4), 8 * round(24 * share / 8)
        expected.append((16, (side, side), length))
    assert shapes == expected
    assert [shapes[i][1][0] for i in (0, 8, 19)] == [4, 8, 16]
    assert [shapes[i][2] for i in (0, 5, 19)] == [8, 16, 24]
    assert result.mfu is None and result.mfu_reason.startswith("batches change their size")


def test_micro_batches_are_pieces_of_the_smaller_batch():
    _, _, shapes = train("sequence(full=1),accumulation(k=2)")
    assert len(shapes) == 40 and {size for size, _, _ in shapes} == {8}
    assert [length for _, _, length in shapes] == sorted(length for _, _, length in shapes)
    assert {length for _, _, length in shapes} == {8, 16, 24}


def test_half_of_an_image_is_the_weighted_mean_of_its_pixels():
    """A triangle of twice the width: weights 1, 3, 3, 1 over four pixels of each axis."""
    image = np.random.default_rng(0).normal(size=(2, 3, 8, 12))
    small = changed(Resizing(multiple=1), (torch.from_numpy(image), torch.arange(2)), 0.0)
    assert small[0].shape == (2, 3, 4, 6) and torch.equal(small[1], torch.arange(2))

    def halved(values):  # along the last axis, without its first and last entry
        return (values[..., 1:-4:2] + 3 * values[..., 2:-3:2] + 3 * values[..., 3:-2:2]) / 8 + (
            values[..., 4:-1:2] / 8
        )

    inner = halved(np.swapaxes(halved(image), 2, 3)).swapaxes(2, 3)
    np.testing.assert_allclose(small[0][:, :, 1:-1, 1:-1].numpy(), inner, rtol=0, atol=1e-12)


def test_a_flat_image_stays_flat_and_its_edges_are_no_darker():
    flat = torch.full((1, 1, 10, 10), 3.0)
    assert torch.allclose(changed(Resizing(), [flat], 0.6)[0], torch.tensor(3.0), atol=1e-6)


def test_what_is_as_long_as_the_tokens_is_cut_with_them():
    tokens, mask = torch.arange(32).view(2, 16), torch.ones(2, 16, dtype=torch.bool)
    batch = {"ids": tokens, "mask": mask, "pixels": torch.ones(2, 7), "class": torch.arange(2)}
    short = changed(SequenceLength(0.5, full=0.4, multiple=4), batch, 0.0)
    assert torch.equal(short["ids"], tokens[:, :8]) and short["mask"].shape == (2, 8)
    assert short["pixels"] is batch["pixels"] and short["class"] is batch["class"]
    assert changed(SequenceLength(0.5, full=0.4, multiple=4), batch, 0.2)["ids"].shape == (
        2,
        16 * 3 // 4,
    )


@pytest.mark.parametrize("technique", [Resizing(), SequenceLength()])
def test_from_its_share_on_a_batch_is_the_very_same(technique):
    batch = (torch.ones(1, 3, 8, 8), torch.ones(1, 64, dtype=torch.long))
    assert changed(technique, batch, technique.full) is batch
    assert changed(technique, batch, 1.0) is batch
    smaller = changed(technique, batch, 0.0)
    assert sum(leaf.numel() for leaf in smaller) < sum(leaf.numel() for leaf in batch)


@pytest.mark.parametrize(("stack", "what"), [("resizing", "image"), ("sequence", "tokens")])
def test_batches_without_images_or_tokens_are_refused_in_a_line(stack, what):
    trainer = Trainer(
        stacked(), samples(64), loss, stack=Stack.of(stack), samples=64, classify=False, quiet=True
    )
    with pytest.raises(TechniqueRefused, match=f"{stack}: a batch holds no {what}") as refused:
        trainer.fit()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("technique", "line"),
    [
        (Resizing(scale=1.0), "scale=1.0: above 0 and below 1"),
        (Resizing(delay=0.9), "delay=0.9, full=0.8"),
        (Resizing(delay=0.0, full=0.0), "full above 0"),
        (Resizing(multiple=0), "multiple=0"),
        (SequenceLength(scale=0.0), "scale=0.0"),
        (SequenceLength(full=0.0), "full=0.0"),
        (SequenceLength(multiple=0), "multiple=0"),
    ],
)
def test_options_that_cannot_be_are_refused_in_a_line(technique, line):
    assert line in refusal(technique)


def test_the_share_of_tokens_that_is_claimed_is_the_share_that_is_seen():
    technique = SequenceLength(scale=0.2, full=0.5, multiple=1)
    tokens = torch.zeros(1, 1000, dtype=torch.long)
    seen = [changed(technique, [tokens], i / 1000)[0].shape[1] / 1000 for i in range(1000)]
    assert technique.predicts(Plan()).startswith(f"{sum(seen) / 1000:.0%} of the tokens")
