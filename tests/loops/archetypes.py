"""Forty-odd training loops as people write them, a few steps each.

A loop is a generator: it makes its models and optimizers, yields those that one would pass to
``watch``, and then trains. ``t`` notes what happens and takes what the loop declares about it.
"""

from __future__ import annotations

import copy
import io
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from .models import Agent, Net, Part, Recurrent, Smooth, Wrapped, wait
from .truth import Truth

Loop = Callable[[Truth], Iterator[Any]]
LOOPS: dict[str, Loop] = {}
STEPS = 8
LOSS = nn.MSELoss()


def loop(function: Loop) -> Loop:
    LOOPS[function.__name__] = function
    return function


def _waits(thread: threading.Thread) -> bool:
    """Whether a thread is inside ``Thread.join``."""
    frame = sys._current_frames()[thread.ident or 0]
    return frame.f_code.co_name in ("join", "_wait_for_tstate_lock")


def batches(number: int = STEPS, **options: Any) -> DataLoader[Any]:
    data = TensorDataset(torch.randn(4 * number, 8), torch.randn(4 * number, 1))
    return DataLoader(data, batch_size=4, **options)


def batch() -> tuple[Any, Any]:
    return torch.randn(4, 8), torch.randn(4, 1)


def sgd(*modules: Any, **options: Any) -> Any:
    return torch.optim.SGD([p for m in modules for p in m.parameters()], lr=0.01, **options)


@torch.no_grad()
def follow(average: nn.Module, model: nn.Module) -> None:
    """Move the average of the weights a tenth of the way to the model's."""
    for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
        slow.lerp_(fast, 0.1)


# -- one model, one optimizer -----------------------------------------------------------------


@loop
def plain(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = sgd(model)
    yield model, optimizer
    for _ in range(2):
        for x, y in batches():
            optimizer.zero_grad()
            LOSS(model(x), y).backward()
            optimizer.step()


@loop
def no_loader(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    yield model, optimizer
    for _ in range(STEPS):
        x, y = batch()
        LOSS(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


@loop
def zero_grad_in_place(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = sgd(model)
    yield model, optimizer
    for x, y in batches():
        optimizer.zero_grad(set_to_none=False)
        LOSS(model(x), y).backward()
        optimizer.step()


@loop
def fused(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    yield model, optimizer
    for x, y in batches():
        LOSS(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


@loop
def foreach_in_inference_mode(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)
    yield model, optimizer
    for _ in range(2):
        for x, y in batches():
            LOSS(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        with torch.inference_mode(), t.evaluation():
            for _ in range(3):
                model(batch()[0])
        model.train()


@loop
def accumulation(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = sgd(model)
    yield model, optimizer
    for i, (x, y) in enumerate(batches(4 * STEPS)):
        (LOSS(model(x), y) / 4).backward()
        if i % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


@loop
def clipping_and_schedule(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    yield model, optimizer
    for x, y in batches():
        LOSS(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()


@loop
def scaler(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
    yield model, optimizer
    for x, y in batches():
        scaler.scale(LOSS(model(x), y)).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


@loop
def scaler_skips(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
    yield model, optimizer
    for i, (x, y) in enumerate(batches()):
        scaler.scale(LOSS(model(x), y)).backward()
        if i == 3:
            model.head.bias.grad.fill_(float("inf"))
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


@loop
def skipped_losses(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = sgd(model)
    yield model, optimizer
    for i, (x, y) in enumerate(batches()):
        LOSS(model(x), y).backward()
        if i % 3 == 1:  # as if it were not finite
            optimizer.zero_grad()
            continue
        optimizer.step()
        optimizer.zero_grad()


@loop
def lbfgs(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    yield model, optimizer
    x, y = batch()

    def closure() -> Any:
        optimizer.zero_grad()
        loss = LOSS(model(x), y)
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)


@loop
def sharpness_aware(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = sgd(model)
    yield model, optimizer
    for x, y in batches():
        LOSS(model(x), y).backward()
        with torch.no_grad():
            moved = [(p, 0.01 * p.grad) for p in model.parameters()]
            for p, by in moved:
                p.add_(by)
        model.zero_grad()
        LOSS(model(x), y).backward()
        with torch.no_grad():
            for p, by in moved:
                p.sub_(by)
        optimizer.step()
        model.zero_grad()


@loop
def optimizer_in_backward(t: Truth) -> Iterator[Any]:
    model = Net()
    yield model, None
    t.without_gradients = "eval"
    optimizer = sgd(model)
    for x, y in batches():
        LOSS(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


@loop
def made_after_watching(t: Truth) -> Iterator[Any]:
    yield None, None
    wait(0.05)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    for x, y in batches():
        LOSS(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


# -- steps that no optimizer reports ----------------------------------------------------------


@loop
def written_by_hand(t: Truth) -> Iterator[Any]:
    model = Net()
    yield model, None
    for x, y in batches():
        model.zero_grad()
        LOSS(model(x), y).backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.01 * p.grad
        t.wrote()


@loop
def written_by_data(t: Truth) -> Iterator[Any]:
    model = Net()
    yield model, None
    for _ in range(STEPS):
        x, y = batch()
        model.zero_grad()
        LOSS(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-0.01)
        t.wrote()


@loop
def written_and_evaluated(t: Truth) -> Iterator[Any]:
    """As the language model of PyTorch's examples."""
    model = Net()
    yield model, None
    for _ in range(2):
        model.train()
        for _ in range(STEPS):
            x, y = batch()
            model.zero_grad()
            LOSS(model(x), y).backward()
            for p in model.parameters():
                p.data.add_(p.grad, alpha=-0.01)
            t.wrote()
        model.eval()
        with torch.no_grad(), t.evaluation():
            for _ in range(4):
                model(batch()[0])


@loop
def written_from_grad(t: Truth) -> Iterator[Any]:
    model = Smooth()
    yield model, None
    for _ in range(STEPS):
        x, y = batch()
        gradients = torch.autograd.grad(LOSS(model(x), y), list(model.parameters()))
        with torch.no_grad():
            for p, g in zip(model.parameters(), gradients, strict=True):
                p.sub_(0.01 * g)
        t.wrote()


@loop
def no_module(t: Truth) -> Iterator[Any]:
    weight = torch.randn(8, 1, requires_grad=True)
    yield None, None
    for _ in range(STEPS):
        x, y = batch()
        ((x @ weight - y) ** 2).mean().backward()
        with torch.no_grad():
            weight -= 0.01 * weight.grad
            weight.grad.zero_()
        t.wrote()
    yield  # the weight still lives when watching ends


# -- gradients for other ends -----------------------------------------------------------------


class Adjoint(torch.autograd.Function):
    """Calls a model, and once more for its gradients: nothing is kept between the two."""

    @staticmethod
    def forward(ctx: Any, model: Any, x: Any, *parameters: Any) -> Any:  # type: ignore[override]
        ctx.model, ctx.parameters = model, parameters
        ctx.save_for_backward(x)
        return model(x)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:  # type: ignore[override]
        with torch.enable_grad():
            y = ctx.model(*ctx.saved_tensors)
        return None, None, *torch.autograd.grad(y, ctx.parameters, gradient)


@loop
def adjoint(t: Truth) -> Iterator[Any]:
    """As a neural ODE is trained."""
    model = Net()
    optimizer = sgd(model)
    yield model, optimizer
    t.without_gradients = "train"
    for x, y in batches():
        LOSS(Adjoint.apply(model, x, *model.parameters()), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad(), t.evaluation():
        for x, _ in batches(2):
            Adjoint.apply(model, x, *model.parameters())


@loop
def gradient_penalty(t: Truth) -> Iterator[Any]:
    model = Smooth()
    optimizer = sgd(model)
    yield model, optimizer
    for x, _ in batches():
        optimizer.zero_grad()
        x.requires_grad_(True)
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        (model(x).mean() + slope.square().mean()).backward()
        optimizer.step()


@loop
def saliency_after_training(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = sgd(model)
    yield model, optimizer
    for x, y in batches():
        optimizer.zero_grad()
        LOSS(model(x), y).backward()
        optimizer.step()
    for _ in range(4):
        x = torch.randn(1, 8, requires_grad=True)
        model.zero_grad()
        model(x).sum().backward()


@loop
def meta_learning(t: Truth) -> Iterator[Any]:
    model = Smooth()
    optimizer = torch.optim.Adam(model.parameters())
    yield model, optimizer
    for _ in range(STEPS):
        optimizer.zero_grad()
        names = dict(model.named_parameters())
        for _ in range(2):
            x, y = batch()
            inner = LOSS(torch.func.functional_call(model, names, (x,)), y)
            gradients = torch.autograd.grad(inner, list(names.values()), create_graph=True)
            fast = {n: p - 0.01 * g for (n, p), g in zip(names.items(), gradients, strict=True)}
            LOSS(torch.func.functional_call(model, fast, (x,)), y).backward()
        optimizer.step()


@loop
def adversarial(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = sgd(model)
    yield model, optimizer
    for x, y in batches():
        x.requires_grad_(True)
        (slope,) = torch.autograd.grad(LOSS(model(x), y), x)
        attacked = (x + 0.1 * slope.sign()).detach()
        LOSS(model(attacked), y).backward()
        optimizer.step()
        optimizer.zero_grad()


# -- several models ---------------------------------------------------------------------------


@loop
def gan(t: Truth) -> Iterator[Any]:
    generator, judge = Net(8), Net()
    first, second = torch.optim.Adam(generator.parameters()), torch.optim.Adam(judge.parameters())
    yield [generator, judge], [first, second]
    for x, _ in batches():
        first.zero_grad()
        made = generator(torch.randn(4, 8))
        judge(made).mean().backward()
        first.step()
        second.zero_grad()
        (judge(made.detach()) - judge(x)).mean().backward()
        second.step()


@loop
def wgan_gp(t: Truth) -> Iterator[Any]:
    generator, judge = Net(8), Smooth()
    first, second = torch.optim.Adam(generator.parameters()), torch.optim.Adam(judge.parameters())
    yield [generator, judge], [first, second]
    for i, (x, _) in enumerate(batches(10)):
        second.zero_grad()
        made = generator(torch.randn(4, 8)).detach()
        mixed = (0.5 * (made + x)).requires_grad_(True)
        (slope,) = torch.autograd.grad(judge(mixed).sum(), mixed, create_graph=True)
        (judge(made).mean() - judge(x).mean() + slope.square().mean()).backward()
        second.step()
        if i % 5 == 4:
            first.zero_grad()
            judge(generator(torch.randn(4, 8))).mean().backward()
            first.step()


@loop
def encoder_decoder(t: Truth) -> Iterator[Any]:
    encoder, decoder = Part(8, 16), Part(16, 1)
    optimizer = sgd(encoder, decoder)
    yield [encoder, decoder], optimizer
    for x, y in batches():
        LOSS(decoder(encoder(x)), y).backward()
        optimizer.step()
        optimizer.zero_grad()


@loop
def two_optimizers(t: Truth) -> Iterator[Any]:
    encoder, decoder = Part(8, 16), Part(16, 1)
    first, second = sgd(encoder), torch.optim.Adam(decoder.parameters())
    yield [encoder, decoder], [first, second]
    for x, y in batches():
        LOSS(decoder(encoder(x)), y).backward()
        first.step()
        second.step()
        first.zero_grad()
        second.zero_grad()


@loop
def distillation(t: Truth) -> Iterator[Any]:
    t.without_gradients = "inference"
    teacher, student = Net().eval(), Net()
    optimizer = sgd(student)
    yield student, optimizer
    for x, _ in batches():
        with torch.no_grad():
            target = teacher(x)
        LOSS(student(x), target).backward()
        optimizer.step()
        optimizer.zero_grad()


@loop
def distillation_after(t: Truth) -> Iterator[Any]:
    t.without_gradients = "inference"
    teacher, student = Net().requires_grad_(False).eval(), Net()
    optimizer = sgd(student)
    yield student, optimizer
    for _ in range(STEPS):
        x, _y = batch()
        answer = student(x)
        with torch.no_grad():
            target = teacher(x)
        LOSS(answer, target).backward()
        optimizer.step()
        optimizer.zero_grad()


@loop
def moving_average(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = sgd(model)
    average = copy.deepcopy(model).requires_grad_(False).eval()
    yield model, optimizer
    for _ in range(3):
        for x, y in batches():
            LOSS(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
            follow(average, model)
        with torch.no_grad(), t.evaluation():
            for x, _ in batches(4):
                average(x)


@loop
def moving_average_sampled(t: Truth) -> Iterator[Any]:
    """The copy is first called after two dozen steps, without a loader."""
    model = Net()
    average = copy.deepcopy(model).requires_grad_(False).eval()
    optimizer = sgd(model)
    yield model, optimizer
    for _ in range(2):
        for x, y in batches(3 * STEPS):
            LOSS(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
            follow(average, model)
        with torch.no_grad(), t.evaluation():
            for _ in range(5):
                average(torch.randn(4, 8))


@loop
def folds(t: Truth) -> Iterator[Any]:
    yield None, None
    for _ in range(3):
        model = Net()
        optimizer = sgd(model)
        for x, y in batches():
            LOSS(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad(), t.evaluation():
            for x, _ in batches(3):
                model(x)


@loop
def ensemble(t: Truth) -> Iterator[Any]:
    models = [Net() for _ in range(3)]
    optimizers = [sgd(model) for model in models]
    yield models, optimizers
    for x, y in batches():
        for model, optimizer in zip(models, optimizers, strict=True):
            LOSS(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()


@loop
def training_step(t: Truth) -> Iterator[Any]:
    model = Wrapped()
    optimizer = sgd(model)
    yield model, optimizer
    for x, _ in batches():
        model.training_step(x).backward()
        optimizer.step()
        optimizer.zero_grad()


# -- evaluations ------------------------------------------------------------------------------


@loop
def evaluated_each_epoch(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = sgd(model)
    yield model, optimizer
    for _ in range(2):
        model.train()
        for x, y in batches():
            LOSS(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad(), t.evaluation():
            for x, _ in batches(4):
                model(x)


@loop
def evaluated_first(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    yield model, optimizer
    for i in range(STEPS):
        if i % 4 == 0:
            model.eval()
            with torch.no_grad(), t.evaluation():
                for _ in range(5):
                    model(batch()[0])
            model.train()
        x, y = batch()
        LOSS(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


@loop
def evaluated_in_training_mode(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = sgd(model)
    yield model, optimizer
    for _ in range(2):
        for x, y in batches():
            LOSS(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
        with torch.no_grad(), t.evaluation():
            for x, _ in batches(4):
                model(x)


@loop
def evaluated_with_gradients(t: Truth) -> Iterator[Any]:
    """In eval mode, but without ``torch.no_grad()``."""
    model = Net()
    optimizer = sgd(model)
    yield model, optimizer
    for _ in range(3):
        model.train()
        for x, y in batches():
            LOSS(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        with t.evaluation():
            for x, _ in batches(4):
                model(x)


@loop
def trained_in_eval_mode(t: Truth) -> Iterator[Any]:
    """As a network is tuned whose statistics stay as they are."""
    model = Net()
    optimizer = sgd(model)
    yield model, optimizer
    for _ in range(2):
        model.eval()
        for x, y in batches():
            (LOSS(model(x), y) + LOSS(model(-x), y)).backward()
            optimizer.step()
            optimizer.zero_grad()
        with torch.no_grad(), t.evaluation():
            for x, _ in batches(4):
                model(x)


@loop
def labels_in_eval_mode(t: Truth) -> Iterator[Any]:
    """The model itself makes the labels of every step."""
    t.without_gradients = "inference"
    model = Net()
    optimizer = sgd(model)
    yield model, optimizer
    for _ in range(2):
        for x, _ in batches():
            model.eval()
            with torch.no_grad():
                labels = model(x)
            model.train()
            LOSS(model(x + 0.1), labels).backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad(), t.evaluation():
            for x, _ in batches(4):
                model(x)


@loop
def left_early(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = sgd(model)
    yield model, optimizer
    for _ in range(2):
        for i, (x, y) in enumerate(batches(16)):
            if i == STEPS:
                break
            LOSS(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        with torch.inference_mode(), t.evaluation():
            for x, _ in batches(4):
                model(x)
        model.train()


# -- reinforcement learning -------------------------------------------------------------------


@loop
def policy_gradient(t: Truth) -> Iterator[Any]:
    policy = Net(2)
    optimizer = torch.optim.Adam(policy.parameters())
    yield policy, optimizer
    for _ in range(4):
        values = []
        for _ in range(10):
            values.append(policy(torch.randn(1, 8)).logsumexp(-1))
            wait(0.002)  # the environment
        torch.cat(values).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@loop
def proximal_policy(t: Truth) -> Iterator[Any]:
    t.without_gradients = "inference"
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters())
    yield agent, optimizer
    for _ in range(3):
        for _ in range(8):
            with torch.no_grad():
                agent.act(torch.randn(1, 8))
            wait()
        for _ in range(4):
            actions, values = agent.act(torch.randn(8, 8))
            (actions.square().mean() + values.square().mean()).backward()
            optimizer.step()
            optimizer.zero_grad()


@loop
def q_learning(t: Truth) -> Iterator[Any]:
    t.without_gradients = "inference"
    online = Net(2)
    target = copy.deepcopy(online)
    optimizer = torch.optim.Adam(online.parameters())
    yield online, optimizer
    for i in range(2 * STEPS):
        with torch.no_grad():
            online(torch.randn(1, 8))
        wait()
        x = torch.randn(4, 8)
        with torch.no_grad():
            wanted = target(x).max(-1).values
        LOSS(online(x).max(-1).values, wanted).backward()
        optimizer.step()
        optimizer.zero_grad()
        if i % 4 == 3:
            target.load_state_dict(online.state_dict())


# -- sequences, loaders, saves ----------------------------------------------------------------


@loop
def truncated_sequences(t: Truth) -> Iterator[Any]:
    model = Recurrent()
    optimizer = sgd(model)
    yield model, optimizer
    for _ in range(4):
        state, loss = torch.zeros(4, 16), torch.zeros(())
        for i, (x, y) in enumerate(batches(6)):
            out, state = model(x, state)
            loss = loss + LOSS(out, y)
            if i % 3 == 2:
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                state, loss = state.detach(), torch.zeros(())


@loop
def worker_processes(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = sgd(model)
    yield model, optimizer
    for x, y in batches(num_workers=1):
        LOSS(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


@loop
def fetched_ahead(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = sgd(model)
    yield model, optimizer
    iterator = iter(batches())
    ahead = next(iterator, None)
    while ahead is not None:
        (x, y), ahead = ahead, next(iterator, None)
        LOSS(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


@loop
def two_loaders(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = sgd(model)
    yield model, optimizer
    for (x, y), (z, _) in zip(batches(), batches(), strict=True):
        (LOSS(model(x), y) + model(z).square().mean()).backward()
        optimizer.step()
        optimizer.zero_grad()


@loop
def saving(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = sgd(model)
    yield model, optimizer
    for i, (x, y) in enumerate(batches()):
        LOSS(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        if i % 4 == 3:
            torch.save({"model": model.state_dict(), "more": torch.zeros(1 << 18)}, io.BytesIO())


@loop
def frozen_part(t: Truth) -> Iterator[Any]:
    body, head = Part(8, 16), Part(16, 1)
    body.requires_grad_(False)
    optimizer = sgd(head)
    t.without_gradients = "inference"
    yield head, optimizer
    for x, y in batches():
        with torch.no_grad():
            features = body(x)
        LOSS(head(features), y).backward()
        optimizer.step()
        optimizer.zero_grad()


@loop
def random_choice(t: Truth) -> Iterator[Any]:
    """Which of two models trains is drawn."""
    models = [Net(), Smooth()]
    optimizers = [sgd(model) for model in models]
    chance = random.Random(1)
    yield models, optimizers
    for x, y in batches(12):
        which = chance.randrange(2)
        LOSS(models[which](x), y).backward()
        optimizers[which].step()
        optimizers[which].zero_grad()


@loop
def in_a_thread(t: Truth) -> Iterator[Any]:
    model = Net()
    optimizer = sgd(model)
    yield model, optimizer

    def train() -> None:
        for x, y in batches():
            LOSS(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()


@loop
def several_trainings_in_turn(t: Truth) -> Iterator[Any]:
    """Threads one after the other, after a training of the main thread."""
    main = threading.current_thread()
    models = [Net() for _ in range(3)]
    yield models, None

    def train(model: Any) -> None:
        while threading.current_thread() is not main and not _waits(main):
            time.sleep(0.001)  # until the main thread has come to wait for this one
        optimizer = sgd(model)
        for x, y in batches():
            LOSS(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()

    train(models[0])
    for model in models[1:]:
        thread = threading.Thread(target=train, args=(model,))
        thread.start()
        thread.join()
