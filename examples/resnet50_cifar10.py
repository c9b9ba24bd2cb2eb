"""ResNet-50 on CIFAR-10, with any stack of techniques, watched.

    python examples/resnet50_cifar10.py --stack paper --data ~/cifar10
    python examples/resnet50_cifar10.py --size tiny              # a laptop, under a minute
    torchrun --nproc_per_node 2 examples/resnet50_cifar10.py --stack paper

--data takes CIFAR-10 as published (an archive, the python or the binary batches), a folder for each
class with PNG or JPEG files of 32 × 32 (below train/ and test/, or not), or an .npz. Files with a
published md5 are checked; the single .bin batches have none and need --unchecked. Without --data it
trains on scikit-learn's digits at 32 × 32, and says so. Nothing is downloaded. The baseline is the
paper's §IV-B: AdamW (0.9, 0.999), weight decay 0.01, rate 1e-4, batches of 128, fp32.
"""

import argparse
import sys

import images
import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import ResNetConfig, ResNetForImageClassification

from optimizers import Stack, Trainer
from optimizers.training.ranks import leaving
from probe.errors import ProbeError

options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
options.add_argument("--stack", default="baseline", help="baseline, paper, or names with commas")
options.add_argument("--data", help="CIFAR-10, images in folders, or an .npz")
options.add_argument("--unchecked", action="store_true", help="do not compare md5 sums")
options.add_argument(
    "--modules", action="store_true", help="by kind of module too; on CUDA forward only"
)
options.add_argument("--size", choices=["full", "tiny"], help="full on a GPU, else tiny")
options.add_argument("--samples", type=int, help="images to train on; tiny: 4 epochs")
options.add_argument("--eval-every", type=int, help="images between evaluations; an epoch")
options.add_argument("--batch", type=int, help="128; tiny: 64")
options.add_argument("--lr", type=float, help="1e-4 as in the paper; tiny: 3e-3")
options.add_argument("--target", help="end at, for example, 'accuracy>=0.9'")
options.add_argument("--seed", type=int, default=0)
options.add_argument("--snapshots", help="folder to save the training's state in, every 200 steps")
options.add_argument("--resume", action="store_true", help="go on from the newest of them")
args = options.parse_args()


def main():
    tiny = (args.size or ("full" if torch.cuda.is_available() else "tiny")) == "tiny"
    data = images.load(args.data, checked=not args.unchecked)
    mirror = args.data is not None  # a mirrored digit is none
    train = images.Augmented(data.train, train=True, mirror=mirror)
    test = images.Augmented(data.test, train=False, mirror=False)

    torch.manual_seed(args.seed)
    shape = (
        {"embedding_size": 16, "hidden_sizes": [32, 64], "depths": [2, 2], "layer_type": "basic"}
        if tiny
        else {}
    )  # the defaults are ResNet-50's
    model = ResNetForImageClassification(ResNetConfig(num_labels=data.classes, **shape))

    def loss(net, batch):
        return nn.functional.cross_entropy(net(pixel_values=batch[0]).logits.float(), batch[1])

    def evaluate(net):
        device = next(net.parameters()).device
        right = 0
        for x, y in DataLoader(test, batch_size=250):
            logits = net(pixel_values=x.to(device, next(net.parameters()).dtype)).logits
            right += int((logits.argmax(1) == y.to(device)).sum())
        return {"accuracy": right / len(test)}

    batch = args.batch or (64 if tiny else 128)
    samples = args.samples or (4 if tiny else 90) * len(train)
    stack = Stack.of(args.stack)
    trainer = Trainer(
        model,
        train,
        loss,
        stack=stack,
        samples=samples,
        batch_size=batch,
        lr=args.lr or (3e-3 if tiny else 1e-4),
        evaluate=evaluate,
        eval_every=args.eval_every or min(len(train), samples),
        target=args.target,
        seed=args.seed,
        data_name=data.name,
        config={"model": "a small ResNet" if tiny else "ResNet-50"},
        modules=args.modules,
        name=f"{'resnet-tiny' if tiny else 'resnet50'}-{stack.name}",
        snapshots=args.snapshots,
        snapshot_every=200,
    )
    if trainer.rank == 0:
        parameters = sum(p.numel() for p in model.parameters())
        print(
            f"{'a small ResNet' if tiny else 'ResNet-50'}, {parameters / 1e6:.1f} M parameters, "
            f"on {data.name}, {trainer.device}"
        )
        if data.note:
            print(data.note)
        print(trainer.table)
    result = trainer.fit(resume=args.resume)
    if trainer.rank == 0:
        print(result)
        print(f"\n{trainer.report()}\n")


try:
    with leaving():
        main()
except ProbeError as error:
    sys.exit(f"error: {error}")
