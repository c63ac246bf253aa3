"""A small decoder with random weights and a KV cache: eager prefill, decode as CUDA graphs.

It is no language model: what it says is noise. Its work has the shape of a real one: matrix
products over all tokens of a step, attention over the cache, one cache line per token.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as fn

PADDED = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Shape:
    """Sizes of the decoder and of its cache."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    slots: int
    longest: int


class Layer(nn.Module):
    """Grouped-query attention and a gated MLP."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        size = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
        self.into = nn.Linear(shape.width, size, bias=False)
        self.out = nn.Linear(shape.heads * shape.head_dim, shape.width, bias=False)
        self.up = nn.Linear(shape.width, 8 * shape.width, bias=False)
        self.down = nn.Linear(4 * shape.width, shape.width, bias=False)
        self.before = nn.RMSNorm(shape.width)
        self.between = nn.RMSNorm(shape.width)

    def split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, tokens first."""
        shape = self.shape
        made = self.into(self.before(x)).view(x.shape[0], -1, shape.head_dim)
        q, k, v = made.split([shape.heads, shape.kv_heads, shape.kv_heads], dim=1)
        return q, k, v

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Return the layer's output from what attention gave."""
        x = x + self.out(attended)
        gate, up = self.up(self.between(x)).chunk(2, dim=-1)
        return x + self.down(fn.silu(gate) * up)


class Decoder(nn.Module):
    """The layers and the cache. The last slot takes what padding writes."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width)
        room = (shape.layers, 2, shape.slots + 1, shape.longest, shape.kv_heads, shape.head_dim)
        self.register_buffer("cache", torch.zeros(room))

    def prefill(self, ids: Tensor, slot: int, start: int) -> Tensor:
        """Compute tokens of one request from position `start` on; return the next token."""
        end = start + ids.shape[0]
        x = self.embed(ids)
        mask = torch.ones(ids.shape[0], end, dtype=torch.bool, device=ids.device).tril(start)
        for number, layer in enumerate(self.layers):
            q, k, v = layer.split(x)
            kept = self.cache[number, :, slot]
            kept[0, start:end] = k
            kept[1, start:end] = v
            attended = fn.scaled_dot_product_attention(
                q.transpose(0, 1)[None],
                self._for_all_heads(kept[0, :end].transpose(0, 1)[None]),
                self._for_all_heads(kept[1, :end].transpose(0, 1)[None]),
                attn_mask=mask,
            )
            x = layer.finish(x, attended[0].transpose(0, 1).flatten(1))
        return self._next(x[-1:])

    def decode(self, ids: Tensor, slots: Tensor, at: Tensor) -> Tensor:
        """Compute one token of each request; return the next ones. Fixed shapes: can be a graph."""
        x = self.embed(ids)
        seen = torch.arange(self.shape.longest, device=ids.device)[None] <= at[:, None]
        for number, layer in enumerate(self.layers):
            q, k, v = layer.split(x)
            keys, values = self.cache[number, 0], self.cache[number, 1]
            keys[slots, at] = k
            values[slots, at] = v
            attended = fn.scaled_dot_product_attention(
                q[:, :, None],
                self._for_all_heads(keys[slots].transpose(1, 2)),
                self._for_all_heads(values[slots].transpose(1, 2)),
                attn_mask=seen[:, None, None],
            )
            x = layer.finish(x, attended.flatten(1))
        return self._next(x)

    def _for_all_heads(self, kept: Tensor) -> Tensor:
        return kept.repeat_interleave(self.shape.heads // self.shape.kv_heads, dim=1)

    def _next(self, x: Tensor) -> Tensor:
        return (self.norm(x) @ self.embed.weight.T).argmax(dim=-1)


class Runner:
    """Runs a decoder on a device; on CUDA, decode is replayed from graphs of padded sizes."""

    def __init__(self, shape: Shape, device: str, seed: int) -> None:
        torch.manual_seed(seed)
        kind = torch.bfloat16 if device == "cuda" else torch.float32
        self.device = device
        self.shape = shape
        usual = torch.get_default_dtype()
        torch.set_default_dtype(kind)
        try:
            with torch.device(device):  # made where it stays: it may be large
                self.model = Decoder(shape).eval()
        finally:
            torch.set_default_dtype(usual)
        self.graphs: dict[int, tuple[torch.cuda.CUDAGraph, Tensor, Tensor]] = {}
        if device == "cuda":
            for size in PADDED:
                if size <= shape.slots or size == 1:
                    self._capture(size)

    @torch.inference_mode()
    def _capture(self, size: int) -> None:
        given = torch.zeros(3, size, dtype=torch.long, device=self.device)
        given[1] = self.shape.slots
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.model.decode(*given)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made = self.model.decode(*given)
        self.graphs[size] = graph, given, made

    @torch.inference_mode()
    def prefill(self, ids: list[int], slot: int, start: int) -> Tensor:
        """Compute a piece of one request's tokens."""
        return self.model.prefill(torch.tensor(ids, device=self.device), slot, start)

    @torch.inference_mode()
    def decode(self, ids: list[int], slots: list[int], at: list[int]) -> Tensor:
        """Compute the next token of each request."""
        size = next((s for s in sorted(self.graphs) if s >= len(ids)), None)
        if size is None:
            return self.model.decode(*torch.tensor([ids, slots, at], device=self.device))
        spare = size - len(ids)
        rows = [ids + [0] * spare, slots + [self.shape.slots] * spare, at + [0] * spare]
        graph, given, made = self.graphs[size]
        given.copy_(torch.tensor(rows, pin_memory=True), non_blocking=True)
        graph.replay()
        return made[: len(ids)].clone()

    def wait(self) -> None:
        """Return when the device has done all that was asked of it."""
        if self.device == "cuda":
            torch.cuda.synchronize()
