"""A training in JAX: phases and steps are named by hand, meters and the report are the same.

    pip install jax
    python examples/04_jax.py

JAX compiles forward, backward and update into one function, so they are one phase. A call returns
before the device is done: `block_until_ready` makes the phase as long as the work.
"""

from __future__ import annotations

import argparse
import itertools

import jax
import jax.numpy as jnp
import numpy as np

import probe

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--steps", type=int, default=200)
args = options.parse_args()

WIDTHS, BATCH, RATE = (64, 512, 512, 10), 256, 0.05
random = np.random.default_rng(0)
teacher = random.normal(size=(WIDTHS[0], WIDTHS[-1])).astype("float32")
weights = [
    jnp.asarray(random.normal(size=(wide, narrow), scale=wide**-0.5), dtype="float32")
    for wide, narrow in itertools.pairwise(WIDTHS)
]


def load():
    x = random.normal(size=(BATCH, WIDTHS[0])).astype("float32")
    return x, (x @ teacher).argmax(1)


def loss_of(weights, x, labels):
    for matrix in weights[:-1]:
        x = jax.nn.relu(x @ matrix)
    logs = jax.nn.log_softmax(x @ weights[-1])
    return -jnp.take_along_axis(logs, labels[:, None], 1).mean()


@jax.jit
def update(weights, x, labels):
    loss, slopes = jax.value_and_grad(loss_of)(weights, x, labels)
    new = [matrix - RATE * slope for matrix, slope in zip(weights, slopes, strict=True)]
    return new, loss


with probe.watch(name="jax", config={"widths": WIDTHS, "batch": BATCH, "rate": RATE}) as run:
    with run.phase("startup/compile"):
        update(weights, *load())
    for _ in range(args.steps):
        with run.phase("data"):
            x, labels = load()
        with run.phase("train"):
            weights, loss = jax.block_until_ready(update(weights, x, labels))
        run.log(loss=float(loss), samples=BATCH)
        run.step()
print(run.report())
