"""What is not sent of a gradient is kept, and added to the next one (Seide et al. 2014).

Without it, a compression whose error does not average out does not converge (Karimireddy et al.
2019). DDP puts parameters into other buckets after the first step, so nothing is kept by bucket.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
import torch.distributed as dist
from torch import nn

from .comm_bytes import Wire
from .communication import Bucket, InRounds, Rounds, State, flat_gradients


class ErrorFeedback(InRounds):
    """Compressed gradients, after ``start`` steps of exact averaging."""

    def __init__(self, model: nn.Module, wire: Wire, start: int = 0):
        super().__init__(wire)
        self._start = start
        self._place = {id(p): i for i, p in enumerate(model.parameters())}
        self.unsent: dict[int, torch.Tensor] = {}  # by the parameter's place in the model; fp32

    @abstractmethod
    def compressed(self, bucket: Bucket) -> Rounds:
        """Average a bucket in place, approximately."""

    def rounds(self, bucket: Bucket) -> Rounds:
        if self.step >= self._start:
            yield from self.compressed(bucket)
        else:
            yield self.wire.all_reduce(bucket.buffer().div_(dist.get_world_size()))

    def place(self, parameter: nn.Parameter) -> int:
        """Where the parameter is in the model."""
        return self._place[id(parameter)]

    def accumulate(self, place: int, gradient: torch.Tensor) -> torch.Tensor:
        """Add a flat gradient to what was not sent of those before.

        Returns:
            The sum, fp32: the tensor in which what is not sent now must be left.
        """
        if place not in self.unsent:
            self.unsent[place] = torch.zeros_like(gradient, dtype=torch.float32)
        return self.unsent[place].add_(gradient)

    def snapshot(self) -> State:
        return {**super().snapshot(), "unsent": dict(self.unsent)}

    def restore(self, saved: State) -> None:
        super().restore(saved)
        self.unsent = dict(saved["unsent"])


class Codec(ABC):
    """Numbers of one parameter as a message, and back. Its length depends on how many they are."""

    @abstractmethod
    def length(self, count: int) -> int:
        """Bytes of a message of ``count`` numbers."""

    @abstractmethod
    def encode(self, numbers: torch.Tensor) -> torch.Tensor:
        """Flat fp32 numbers as uint8."""

    @abstractmethod
    def add(self, message: torch.Tensor, to: torch.Tensor, factor: float) -> None:
        """Add ``factor`` times what the message says to flat fp32 numbers, in place."""


class Gathered(ErrorFeedback):
    """Every rank gets the messages of all ranks and sums them up itself, in the order of ranks."""

    def __init__(self, model: nn.Module, wire: Wire, codec: Codec, start: int = 0):
        super().__init__(model, wire, start)
        self.codec = codec

    def prepare(self, bucket: Bucket) -> Rounds:
        """Rounds before the messages."""
        yield from ()

    def encoded(self, place: int, message: torch.Tensor) -> None:
        """A message was made of the parameter at ``place``."""

    def compressed(self, bucket: Bucket) -> Rounds:
        yield from self.prepare(bucket)
        codec, parts = self.codec, []
        for parameter, gradient in flat_gradients(bucket):
            place = self.place(parameter)
            numbers = self.accumulate(place, gradient)
            message = codec.encode(numbers)
            codec.add(message, numbers, -1.0)
            self.encoded(place, message)
            parts.append(message)
        messages, work = self.wire.all_gather(torch.cat(parts))
        yield work
        begin = 0
        for _, gradient in flat_gradients(bucket):
            end = begin + codec.length(gradient.numel())
            total = torch.zeros_like(gradient, dtype=torch.float32)
            for message in messages:  # a copy, so that its numbers are aligned in memory
                codec.add(message[begin:end].clone(), total, 1 / len(messages))
            gradient.copy_(total)
            begin = end


def in_blocks(numbers: torch.Tensor, width: int) -> torch.Tensor:
    """Flat numbers as rows of ``width``, the last one filled up with zeros."""
    return nn.functional.pad(numbers, (0, -len(numbers) % width)).view(-1, width)


def split_scales(
    message: torch.Tensor, count: int, width: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """A message that begins with one fp32 scale per block: the scales as a column, and the rest."""
    bytes_of_scales = 4 * -(-count // width)
    scales = message[:bytes_of_scales].view(torch.float32)
    return scales.unsqueeze(1), message[bytes_of_scales:]
