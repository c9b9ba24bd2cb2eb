"""A small byte-level GPT on the source of Python's standard library, watched.

    python examples/02_stdlib_gpt.py

A hand-written loop without a DataLoader, with gradient accumulation; no download: the text is
the `.py` files of the Python that runs this. phasewatt is given nothing but the name: it finds
the model at the first optimizer step. `--bare` leaves it out.
"""

import argparse
import contextlib
import math
import sysconfig
from pathlib import Path

import torch
from torch import nn

import probe

options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
options.add_argument("--steps", type=int, default=120)
options.add_argument("--seed", type=int, default=0)
options.add_argument("--bare", action="store_true", help="train without phasewatt")
options.add_argument("--weights", help="save losses and weights there")
args = options.parse_args()
torch.manual_seed(args.seed)

context, width, heads, depth, batch, accumulate = 64, 96, 4, 3, 12, 2
files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
text = torch.tensor(list(b"\n".join(f.read_bytes() for f in files)[:2_000_000]), dtype=torch.uint8)
split = len(text) * 9 // 10
train, valid = text[:split], text[split:]


def get_batch(source):
    start = torch.randint(len(source) - context - 1, (batch,))
    block = torch.stack([source[i : i + context + 1] for i in start]).long()
    return block[:, :-1], block[:, 1:]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.before(x)).view(b, t, 3, heads, -1).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, width))
        return x + self.mlp(self.after(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block() for _ in range(depth)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 256))

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1]))
        logits = self.head(self.blocks(x))
        return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
losses = []

watched = probe.watch(name="stdlib-gpt", data="Python standard library")
with contextlib.nullcontext() if args.bare else watched as run:
    for step in range(args.steps):
        for _ in range(accumulate):
            x, y = get_batch(train)
            loss = model(x, y) / accumulate
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item() * accumulate)
        if run:
            run.log(loss=loss * accumulate, samples=batch * accumulate)
        if (step + 1) % 40 == 0 or step + 1 == args.steps:
            with run.phase("eval") if run else contextlib.nullcontext(), torch.no_grad():
                bits = sum(model(*get_batch(valid)).item() for _ in range(10)) / 10 / math.log(2)
            print(f"step {step + 1}: loss {losses[-1]:.3f}, validation {bits:.2f} bits per byte")

if args.weights:
    torch.save({"losses": losses, "weights": model.state_dict()}, args.weights)
if run:
    print(f"\n{run.report()}\n")
