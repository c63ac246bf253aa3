"""Names of step annotations -> what they say of the step."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trueput.step_annotation import StepComposition, parse_step

STEPS = {
    "execute_context_2(14721)_generation_0(0)": ("vllm", 2, 14721, 0, 0),
    "execute_context_0(0)_generation_64(64)": ("vllm", 0, 0, 64, 64),
    "execute_context_0(0)_generation_32(128)": ("vllm", 0, 0, 32, 128),
    "execute_context_2(6144)_generation_3(3)": ("vllm", 2, 6144, 3, 3),
    "execute_31_context_0(0)_generation_31(31)": ("vllm", 0, 0, 31, 31),
    "execute_context_1(888_788544)_generation_0(0)": ("vllm_squares", 1, 888, 0, 0),
    "execute_context_1(888_788544)_generation_2(2_2)": ("vllm_squares", 1, 888, 2, 2),
    "execute_381_context_1(sq186sk186sqsq34596sqsk34596)"
    "_generation_3(sq195sk1069sqsq37251sqsk56557)": ("vllm_detailed", 1, 186, 3, 195),
    "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)": (
        "vllm_detailed", 0, 0, 32, 32,
    ),
    "step[EXTEND bs=15 toks=15360]": ("sglang", 15, 15360, 0, 0),
    "step[EXTEND bs=2 toks=12 c_sq=12 c_sqsq=80 c_sqsk=120 c_sk=20]": ("sglang", 2, 12, 0, 0),
    "step[DECODE bs=32]": ("sglang", 0, 0, 32, 32),
    "step[DECODE bs=64 g_sq=128 g_sqsq=256 g_sqsk=9 g_sk=7]": ("sglang", 0, 0, 64, 128),
    "step[DECODE bs=64 forward_id=17]": ("sglang", 0, 0, 64, 64),
    "step[TARGET_VERIFY bs=8]": ("sglang", 0, 0, 8, None),
    "step[VERIFY bs=2 g_sq=6]": ("sglang", 0, 0, 2, 6),
    "step[IDLE bs=0]": ("sglang", 0, 0, 0, 0),
    "step[MIXED bs=2]": ("sglang", None, None, None, None),
    "step[MIXED bs=5 c=2 g=3 c_sq=6144 c_sk=7144 g_sq=3 g_sk=6]": ("sglang", 2, 6144, 3, 3),
    "prefill[bs=2 tok=14721 ctx=[7803, 6918]]": ("atom", 2, 14721, 0, 0),
    "prefill[bs=6 tok=17408 ctx=[4096, 4096]...+4 sqsq=9 sqsk=9 sk=8 tbo=1]": (
        "atom", 6, 17408, 0, 0,
    ),
    "decode[bs=117/128 tok=117 d=117]": ("atom", 0, 0, 117, 117),
    "decode[bs=32 tok=128 d=32 spec=3]": ("atom", 0, 0, 32, 128),
    "decode[bs=128 tok=384 p=2 d=126]": ("atom", 2, None, 126, None),
    "decode[bs=4 tok=16 p=0 d=4 spec=3]": ("atom", 0, 0, 4, 16),
    "decode[bs=32]": ("atom", 0, 0, 32, None),
    "eager_decode[bs=32 tok=32 d=32]": ("atom", 0, 0, 32, 32),
}  # fmt: skip


@pytest.mark.parametrize("text", STEPS)
def test_step(text: str) -> None:
    step = parse_step(text)
    assert step is not None
    assert (
        step.dialect,
        step.context_requests,
        step.context_tokens,
        step.generation_requests,
        step.generation_tokens,
    ) == STEPS[text]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ProfilerStep#12",
        "capture_32_FULL",
        "execute_diffusion_2",
        "execute_new_3_cached_17",
        "execute_context_1(888)",
        "execute_context_1(888)_generation_0(0) ",
        "execute_context_1(x)_generation_0(0)",
        "execute_context_1(99999999999999999999)_generation_0(0)",
        "draft step[DECODE bs=8]",
        "step[DRAFT bs=8]",
        "step[DRAFT_EXTEND_V2 bs=2 c_sq=5]",
        "step[extend bs=1]",
        "step[EXTEND bs=1",
        "decode[]",
        "prefill[warmup]",
        "eager_mode",
    ],
)
def test_no_step(text: str) -> None:
    assert parse_step(text) is None


def test_sums_of_the_detailed_dialect() -> None:
    text = "execute_5_context_1(sq4sk6sqsq16sqsk24)_generation_1(sq1sk9sqsq1sqsk9)"
    assert parse_step(text) == StepComposition(
        "vllm_detailed", 1, 4, 1, 1, 6, 9, 16, 1, 24, 9
    )  # fmt: skip


_WORDS = st.sampled_from(
    ["execute_", "context_", "_generation_", "step[", "DECODE", "prefill[", "decode[", "bs=",
     "tok=", "toks=", "]", "(", ")", "sq", "sk", "sqsq", "sqsk", "_", " ", "/", "[", "٣", "-1",
     "0", "7", "18446744073709551616"]
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(_WORDS).map("".join)))
@example("step[DECODE bs=]")
def test_never_raises_and_stays_an_int64(text: str) -> None:
    step = parse_step(text)
    if step is not None:
        numbers = [n for n in vars(step).values() if isinstance(n, int)]
        assert all(0 <= n < 2**63 for n in numbers)


@pytest.mark.parametrize("number", ["9" * 25, "-5", str(10**18)])
def test_a_length_that_cannot_be_is_not_told_and_the_counts_stand(number: str) -> None:
    text = f"execute_5_context_1(sq4sk{number}sqsq16sqsk16)_generation_1(sq1sk9sqsq1sqsk9)"
    step = parse_step(text)
    assert step is not None
    assert (step.context_requests, step.context_tokens, step.generation_tokens) == (1, 4, 1)
    assert (step.context_kv_tokens, step.context_squares, step.generation_kv_tokens) == (
        None,
        16,
        9,
    )
