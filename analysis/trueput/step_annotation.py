"""What the name of an engine's step annotation says of the step: how many requests and tokens.

Serving engines wrap each forward pass in a named range (a record_function scope or an NVTX range)
whose name holds the composition of the batch. `parse_step` reads all grammars in the wild:

| dialect | form |
|---|---|
| vllm | `execute_context_2(14721)_generation_3(3)` |
| vllm_squares | `execute_context_1(888_788544)_generation_0(0)`: tokens, sum of squares |
| vllm_detailed | `execute_5_context_1(sq4sk4sqsq16sqsk16)_generation_1(sq1sk9sqsq1sqsk9)` |
| sglang | `step[EXTEND bs=15 toks=15360]`, `step[DECODE bs=32 g_sk=900]`, `step[MIXED ...]` |
| atom | `prefill[bs=2 tok=14721 ctx=[7803, 6918]]`, `decode[bs=117/128 tok=117 d=117]` |

The forward passes of a draft model (`draft step[...]`, `step[DRAFT_EXTEND ...]`) carry the same
requests once more and are no steps: they give None, as does everything that is no step annotation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Final

_N = r"([0-9]{1,18})"
_LENGTH = r"(-?[0-9]{1,64})"
"""Of lengths and squares one that cannot be tells nothing; the counts beside it stand."""
_GROUP = rf"{_N}\((?:{_N}(?:_{_LENGTH})?|sq{_N}sk{_LENGTH}sqsq{_LENGTH}sqsk{_LENGTH})\)"
_VLLM = re.compile(rf"execute_(?:[0-9]{{1,18}}_)?context_{_GROUP}_generation_{_GROUP}")
_SGLANG = re.compile(r"step\[([A-Z][A-Z_0-9]*)((?: [a-z_]+=[^\s\]]*)*)\]")
_ATOM = re.compile(r"(?:eager_)?(prefill|decode)\[(.*)\]", re.DOTALL)
_PAIR = re.compile(rf"(?:^|(?<=\s))([a-z_]+)={_N}(?=[\s/\]]|$)")

_CONTEXT_MODES = frozenset({"EXTEND", "PREFILL", "SPLIT_PREFILL"})
_GENERATION_MODES = frozenset({"DECODE", "VERIFY", "TARGET_VERIFY"})


@dataclass(frozen=True)
class StepComposition:
    """The batch of one step, as its annotation tells it. None means that it does not tell.

    `context_*` counts requests without an output token yet, `generation_*` those that have one.
    Tokens are those scheduled in the step. `*_kv_tokens` sums the lengths attended to, `*_squares`
    the squares of the scheduled tokens per request, `*_products` scheduled tokens x length.
    """

    dialect: str
    context_requests: int | None = None
    context_tokens: int | None = None
    generation_requests: int | None = None
    generation_tokens: int | None = None
    context_kv_tokens: int | None = None
    generation_kv_tokens: int | None = None
    context_squares: int | None = None
    generation_squares: int | None = None
    context_products: int | None = None
    generation_products: int | None = None


STEP_NUMBERS: Final = tuple(f.name for f in fields(StepComposition) if f.name != "dialect")
"""Names of what an annotation may tell in numbers, and of the columns that hold it."""


def parse_step(text: str) -> StepComposition | None:
    """Return the composition that an annotation's name tells, None where it is no step of a model.

    Pure; never raises, whatever the text.
    """
    if text.startswith("execute_"):
        return _vllm(text)
    if text.startswith("step["):
        return _sglang(text)
    if text.startswith(("prefill[", "decode[", "eager_")):
        return _atom(text)
    return None


def _vllm(text: str) -> StepComposition | None:
    match = _VLLM.fullmatch(text)
    if match is None:
        return None
    numbers = [None if n is None else _possible(n) for n in match.groups()]
    context, generation = numbers[:7], numbers[7:]
    detailed = context[3] is not None or generation[3] is not None
    squares = context[2] is not None or generation[2] is not None
    return StepComposition(
        dialect="vllm_detailed" if detailed else "vllm_squares" if squares else "vllm",
        context_requests=context[0],
        context_tokens=_first(context[1], context[3]),
        generation_requests=generation[0],
        generation_tokens=_first(generation[1], generation[3]),
        context_kv_tokens=context[4],
        generation_kv_tokens=generation[4],
        context_squares=_first(context[2], context[5]),
        generation_squares=_first(generation[2], generation[5]),
        context_products=context[6],
        generation_products=generation[6],
    )


def _possible(digits: str) -> int | None:
    number = int(digits)
    return number if 0 <= number < 10**18 else None


def _first(*numbers: int | None) -> int | None:
    return next((n for n in numbers if n is not None), None)


def _pairs(text: str) -> dict[str, int]:
    return {key: int(number) for key, number in _PAIR.findall(text)}


def _sglang(text: str) -> StepComposition | None:
    match = _SGLANG.fullmatch(text)
    if match is None:
        return None
    mode, told = match[1], _pairs(match[2])
    batch = told.get("bs")
    context_requests, generation_requests = told.get("c"), told.get("g")
    context_tokens, generation_tokens = told.get("c_sq"), told.get("g_sq")
    if mode == "IDLE":
        context_requests = context_tokens = generation_requests = generation_tokens = 0
    elif mode in _CONTEXT_MODES:
        context_requests, generation_requests, generation_tokens = batch, 0, 0
        context_tokens = _first(told.get("toks"), context_tokens)
    elif mode in _GENERATION_MODES:
        context_requests, context_tokens, generation_requests = 0, 0, batch
        if generation_tokens is None and mode == "DECODE":
            generation_tokens = batch  # a verifying step schedules more, and does not say how many
    elif mode != "MIXED":
        return None
    return StepComposition(
        dialect="sglang",
        context_requests=context_requests,
        context_tokens=context_tokens,
        generation_requests=generation_requests,
        generation_tokens=generation_tokens,
        context_kv_tokens=told.get("c_sk"),
        generation_kv_tokens=told.get("g_sk"),
        context_squares=told.get("c_sqsq"),
        generation_squares=told.get("g_sqsq"),
        context_products=told.get("c_sqsk"),
        generation_products=told.get("g_sqsk"),
    )


def _atom(text: str) -> StepComposition | None:
    match = _ATOM.fullmatch(text)
    if match is None:
        return None
    told = _pairs(re.sub(r"\[[^\]]*\](?:\.\.\.\+\d+)?", "", match[2]))
    batch, tokens = told.get("bs"), told.get("tok")
    if batch is None and tokens is None:
        return None
    if match[1] == "prefill":
        return StepComposition(
            "atom",
            context_requests=batch,
            context_tokens=tokens,
            generation_requests=0,
            generation_tokens=0,
            context_kv_tokens=told.get("sk"),
            context_squares=told.get("sqsq"),
            context_products=told.get("sqsk"),
        )
    prefills = told.get("p", 0)
    if prefills:  # prefills ride on a decode: how the tokens fall to the two is not told
        decodes = told.get("d")
        return StepComposition("atom", context_requests=prefills, generation_requests=decodes)
    return StepComposition(
        "atom",
        context_requests=0,
        context_tokens=0,
        generation_requests=_first(told.get("d"), batch),
        generation_tokens=tokens,
        generation_kv_tokens=told.get("sk"),
        generation_squares=told.get("sqsq"),
        generation_products=told.get("sqsk"),
    )
