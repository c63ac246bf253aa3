"""The state that layers without attention keep, where the config gives all its sizes."""

from __future__ import annotations

from trueput.kv_cache.fields import Fields
from trueput.kv_cache.model import State


def read_state(fields: Fields) -> State | None:
    """Return the entries of one layer's state, None where this config does not tell them."""
    found = _delta_net(fields) or _mamba2(fields) or _mamba1(fields) or _short_convolution(fields)
    if found is None:
        fields.assume("the size of the state of layers without attention is unknown, not counted")
    else:
        fields.assume(
            "a layer without attention keeps, per sequence, kernel - 1 inputs of its convolution "
            "and the state of its recurrence"
        )
    return found


def _recurrent_dtype(fields: Fields) -> str | None:
    return fields.text("mamba_ssm_dtype", "mamba_ssm_cache_dtype")


def _delta_net(fields: Fields) -> State | None:
    values = fields.count("linear_num_value_heads")
    if values is None:
        return None
    keys = fields.need("linear_num_key_heads")
    key_size = fields.need("linear_key_head_dim")
    value_size = fields.need("linear_value_head_dim")
    kernel = fields.need("linear_conv_kernel_dim")
    width = 2 * keys * key_size + values * value_size
    return State(
        width * (kernel - 1), values * key_size * value_size, (keys, values),
        _recurrent_dtype(fields),
    )  # fmt: skip


def _mamba2(fields: Fields) -> State | None:
    heads = fields.count("mamba_num_heads", "mamba_n_heads")
    if heads is None:
        return None
    size = fields.count("mamba_head_dim") if fields.given("mamba_head_dim") else None
    if size is None and fields.text("mamba_d_head") is None:
        size = fields.count("mamba_d_head")
    if size is None:  # "auto"
        width = fields.need("mamba_expand") * fields.need("hidden_size")
        size = width // heads
    groups = fields.need("mamba_n_groups", "n_groups")
    states = fields.need("mamba_d_state", "ssm_state_size")
    kernel = fields.need("mamba_d_conv", "conv_kernel")
    width = heads * size + 2 * groups * states
    return State(
        width * (kernel - 1), heads * size * states, (heads, groups), _recurrent_dtype(fields)
    )


def _mamba1(fields: Fields) -> State | None:
    states = fields.count("mamba_d_state")
    if states is None:
        return None
    width = fields.need("mamba_expand") * fields.need("hidden_size")
    kernel = fields.need("mamba_d_conv")
    return State(width * (kernel - 1), width * states, (width,), _recurrent_dtype(fields))


def _short_convolution(fields: Fields) -> State | None:
    kernel = fields.count("conv_L_cache")
    if kernel is None:
        return None
    width = fields.need("conv_dim", "hidden_size")
    return State(width * (kernel - 1), 0, (width,))
