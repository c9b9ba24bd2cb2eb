"""GPT-2 small on WikiText-2, with any stack of techniques, watched.

    python examples/gpt2_wikitext2.py --stack paper --data ~/wikitext-2-raw --bpe ~/gpt2
    python examples/gpt2_wikitext2.py --size tiny                # a laptop, under a minute
    torchrun --nproc_per_node 2 examples/gpt2_wikitext2.py --stack paper

--data takes WikiText-2 as published (tokens, raw or parquet) or any plain text: a folder with
train.txt and valid.txt or test.txt, or a file, whose last tenth is for validation. Without --data
it trains on the source of Python's standard library, without --bpe on bytes, and says so. Nothing
is downloaded. The baseline is the paper's §IV-B: AdamW (0.9, 0.999), weight decay 0.01, rate 1e-4,
batches of 32, fp32.
"""

import argparse
import sys

import text
import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import GPT2Config, GPT2LMHeadModel

from optimizers import Stack, Trainer
from optimizers.training.ranks import leaving
from probe.errors import ProbeError

options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
options.add_argument("--stack", default="baseline", help="baseline, paper, or names with commas")
options.add_argument("--data", help="WikiText-2 (tokens, raw, parquet) or plain text")
options.add_argument(
    "--modules", action="store_true", help="by kind of module too; on CUDA forward only"
)
options.add_argument("--bpe", help="folder with GPT-2's vocab.json and merges.txt")
options.add_argument("--size", choices=["full", "tiny"], help="full on a GPU, else tiny")
options.add_argument("--samples", type=int, help="windows to train on; tiny: 1,500")
options.add_argument("--eval-every", type=int, help="windows between evaluations; a sixth of all")
options.add_argument("--batch", type=int, help="32; tiny: 16")
options.add_argument("--lr", type=float, help="1e-4 as in the paper; tiny: 2e-3")
options.add_argument("--target", help="end at, for example, 'perplexity<=8'")
options.add_argument("--seed", type=int, default=0)
options.add_argument("--snapshots", help="folder to save the training's state in, every 200 steps")
options.add_argument("--resume", action="store_true", help="go on from the newest of them")
args = options.parse_args()


def main():
    tiny = (args.size or ("full" if torch.cuda.is_available() else "tiny")) == "tiny"
    corpus = text.load(args.data, args.bpe)
    window = 64 if tiny else 1024
    train, valid = text.Windows(corpus.train, window), text.Windows(corpus.valid, window)

    torch.manual_seed(args.seed)
    shape = {"n_embd": 96, "n_layer": 4, "n_head": 4} if tiny else {}  # the defaults are GPT-2's
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=corpus.vocabulary,
            n_positions=window,
            use_cache=False,
            bos_token_id=None,
            eos_token_id=None,
            **shape,
        )
    )

    def loss(net, batch):
        logits = net(input_ids=batch[:, :-1]).logits
        return nn.functional.cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten())

    def evaluate(net):
        device = next(net.parameters()).device
        few = torch.utils.data.Subset(valid, range(min(len(valid), 128 if tiny else len(valid))))
        nats = sum(
            float(loss(net, batch.to(device))) * len(batch)
            for batch in DataLoader(few, batch_size=16)
        ) / len(few)
        return {"loss": nats, "perplexity": float(torch.tensor(nats).exp())}

    batch = args.batch or (16 if tiny else 32)
    samples = args.samples or (1500 if tiny else 3 * len(train))
    stack = Stack.of(args.stack)
    trainer = Trainer(
        model,
        train,
        loss,
        stack=stack,
        samples=samples,
        batch_size=batch,
        lr=args.lr or (2e-3 if tiny else 1e-4),
        evaluate=evaluate,
        eval_every=args.eval_every or max(batch, samples // 6),
        target=args.target,
        seed=args.seed,
        name=f"{'gpt-tiny' if tiny else 'gpt2'}-{stack.name}",
        data_name=corpus.name,
        config={
            "model": "a small GPT-2" if tiny else "GPT-2 small",
            "tokens_per_sample": window,  # `probe tables` counts tokens
        },
        modules=args.modules,
        snapshots=args.snapshots,
        snapshot_every=200,
    )
    if trainer.rank == 0:
        parameters = sum(p.numel() for p in model.parameters())
        print(
            f"{'a small GPT-2' if tiny else 'GPT-2 small'}, {parameters / 1e6:.1f} M parameters, "
            f"on {corpus.name} as {corpus.tokens}, {trainer.device}"
        )
        if corpus.note:
            print(corpus.note)
        print(trainer.table)
    result = trainer.fit(resume=args.resume)
    if trainer.rank == 0:
        print(result)
        print(text.perplexity(result.metrics["loss"], corpus))
        print(f"\n{trainer.report()}\n")


try:
    with leaving():
        main()
except ProbeError as error:
    sys.exit(f"error: {error}")
