"""Attention whose heads can grow: torch's own holds their number and the network's width in one number."""

from __future__ import annotations

from collections.abc import Container

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention


class OpenAttention(nn.Module):
    """What ``nn.MultiheadAttention`` computes, with queries, keys, values and outputs as layers of their own.

    The heads together need not be as wide as the network, so that heads can be added. It is called as torch's module
    is, also by ``nn.TransformerEncoderLayer``, and gives the same outputs up to rounding.

    Args:
        module: what it takes the place of; its weights are copied.
    """

    _qkv_same_embed_dim = False  # torch's layers then call the module instead of reading its weights
    in_proj_bias = None

    def __init__(self, module: nn.MultiheadAttention) -> None:
        super().__init__()
        self.num_heads, self.head_width = module.num_heads, module.head_dim
        self.dropout, self.batch_first = module.dropout, module.batch_first
        packed: Tensor | None = module.in_proj_weight  # torch's annotation does not know that it may be none
        weights = (
            (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight) if packed is None else packed.chunk(3)
        )
        biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
        self.queries, self.keys, self.values = (
            _linear(weight, bias) for weight, bias in zip(weights, biases, strict=True)
        )
        self.out_proj = _linear(module.out_proj.weight, module.out_proj.bias)
        self.train(module.training)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """As ``nn.MultiheadAttention`` has it; [length, width] without a batch, too."""
        single = query.dim() == 2
        if single:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        q, k, v = self._heads(self.queries(query)), self._heads(self.keys(key)), self._heads(self.values(value))
        mask = self._mask(q, key_padding_mask, attn_mask)
        dropout = self.dropout if self.training else 0.0
        weights: Tensor | None = None
        if need_weights:
            scores = q @ k.transpose(-2, -1) / self.head_width**0.5
            shares = (scores if mask is None else scores + mask).softmax(-1)
            weights = shares.mean(1) if average_attn_weights else shares
            mixed = nn.functional.dropout(shares, dropout) @ v
        else:
            mixed = scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
        # [batch, heads, length, head width] becomes [batch, length, all heads]
        found = self.out_proj(mixed.transpose(1, 2).flatten(2))
        if single:
            return found[0], None if weights is None else weights[0]
        return found if self.batch_first else found.transpose(0, 1), weights

    def _heads(self, x: Tensor) -> Tensor:
        """From [batch, length, all heads] to [batch, heads, length, head width]."""
        return x.view(x.shape[0], x.shape[1], self.num_heads, self.head_width).transpose(1, 2)

    def _mask(self, q: Tensor, padding: Tensor | None, mask: Tensor | None) -> Tensor | None:
        """What is added to the scores, [batch or 1, heads or 1, length or 1, keys]."""
        parts = []
        if mask is not None:
            mask = _added(mask, q)
            parts.append(mask.view(-1, self.num_heads, *mask.shape[1:]) if mask.dim() == 3 else mask)
        if padding is not None:
            parts.append(_added(padding, q)[:, None, None, :])
        return None if not parts else parts[0] if len(parts) == 1 else parts[0] + parts[1]


def open_attention(network: nn.Module, kept: Container[str] = ()) -> nn.Module:
    """Put ``OpenAttention`` in the place of every ``nn.MultiheadAttention`` within a network, which is given back.

    Modules with learned keys beside the input's (``bias_k``) or a zero key (``add_zero_attn``), and subclasses, stay as
    they are; so do those whose names are ``kept``.
    """
    for name, module in list(network.named_modules()):
        for child_name, child in list(module.named_children()):
            whole = f"{name}.{child_name}".lstrip(".")
            plain = type(child) is nn.MultiheadAttention and child.bias_k is None and not child.add_zero_attn
            if plain and whole not in kept:
                setattr(module, child_name, OpenAttention(child))
    return network


def _added(mask: Tensor, like: Tensor) -> Tensor:
    """A mask that says which keys are left out, as what is added to scores; one that is added already, as it is."""
    if mask.dtype != torch.bool:
        return mask.to(like.dtype)
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill(mask, float("-inf"))


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """A layer with a copy of weights, which are trained where these are."""
    made = nn.Linear(weight.shape[1], weight.shape[0], bias is not None, device=weight.device, dtype=weight.dtype)
    with torch.no_grad():
        made.weight.copy_(weight)
        if bias is not None:
            made.bias.copy_(bias)
    made.requires_grad_(weight.requires_grad)
    return made
