"""The SLO grammar and the policy file: what is read, and what every error says."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trueput.errors import UsageError
from trueput.gate.policy import load_policy, parse_policy
from trueput.slo import Slo, parse_slo


def test_units_become_nanoseconds() -> None:
    slo = parse_slo("ttft=500ms, tpot=12.5ms,e2e=10s,itl_p99=7us,min_output_tokens=1")
    assert slo == Slo(
        ttft=500_000_000,
        tpot=12_500_000,
        e2e=10_000_000_000,
        itl_p99=7_000,
        min_output_tokens=1,
    )


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["ttft", "tpot", "itl_p99", "e2e", "min_output_tokens"]),
        st.integers(1, 10**13),
        min_size=1,
    )
)
def test_what_is_written_is_read_back(limits: dict[str, int]) -> None:
    assert parse_slo(Slo(**limits).text()) == Slo(**limits)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected at least one limit"),
        ("ttft", "has no `=`"),
        ("ttft=500", "has no unit"),
        ("ttft=1h", "has no unit that is known: ns, us, ms or s"),
        ("tpot=2m", "has no unit that is known: ns, us, ms or s"),
        ("ttft=-5ms", "expected a time above 0"),
        ("ttft=0ms", "expected a time above 0"),
        ("ttft=nans", "expected a time above 0"),
        ("ttft=1e9999s", "expected a time above 0"),
        ("ttft=99999999999s", "expected a time above 0"),
        ("ttft=0.5ns", "finer than 1 ns"),
        ("ttft=1s,ttft=2s", "given twice"),
        ("tfft=1s", "unknown limit `tfft`"),
        ("min_output_tokens=1.5", "expected a whole number"),
        ("ttft=1s,", "has no `=`"),
    ],
)
def test_a_wrong_objective_says_what_and_how(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_slo(text, where="--slo")
    assert "--slo" in str(caught.value)
    assert message in str(caught.value)
    assert caught.value.hint


def test_every_key_is_read(tmp_path: Path) -> None:
    path = tmp_path / "gate.toml"
    path.write_text(
        """
        version = 1
        min_effect = 0.03
        margin = 0.04
        floor_log_sd = 0.01
        run_log_sd = 0.2
        [slo]
        ttft = "5000ms"
        min_output_tokens = 2
        from = "scheduled"
        undefined = "fail"
        [must_match]
        engine_version = true
        config.block_size = true
        model = false
        [under_test]
        vantage = true
        [rules]
        goodput-drop = "informing"
        """
    )
    policy = load_policy(path)
    assert policy.slo_text == "ttft=5000ms,min_output_tokens=2"
    assert (policy.slo.measured_from, policy.slo.undefined_passes) == ("scheduled", False)
    assert (policy.min_effect, policy.margin) == (0.03, 0.04)
    assert (policy.noise.floor_log_sd, policy.noise.run_log_sd) == (0.01, 0.2)
    assert policy.must_match == {"engine_version", "config.block_size"}
    assert policy.under_test == {"vantage"}
    assert policy.rules == {"goodput-drop": "informing"}


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("min_efect = 0.1", "unknown key `min_efect`", "`min_effect`"),
        ("[slo]\nttf = '1s'", "[slo]: unknown key `ttf`", "`ttft`"),
        ("[slo]\nttft = 500", "has no unit", "ttft=500ms"),
        ("[slo]\nfrom = 'send'", "expected one of sent, scheduled", "sent"),
        ("[rules]\ngoodput-dorp = 'blocking'", "unknown key `goodput-dorp`", "`goodput-drop`"),
        ("[rules]\ngoodput-drop = 'off'", "expected blocking or informing", "blocking"),
        ("[must_match]\nmodle = true", "unknown key `modle`", "`model`"),
        ("[must_match]\nmodel = 'x'", "expected true or false", "model = true"),
        ("[must_match]\nmodel = true\n[under_test]\nmodel = true", "both", "keep one"),
        ("margin = true", "expected a number", "0.05"),
        ("margin = 5", "expected a number", "0.05"),
        ("margin = nan", "expected a number", "0.05"),
        ("version = 2", "version 2 is not known", "version = 1"),
        ("slo = 'ttft=1s'", "expected a table", "[slo]"),
        ("min_effect = ", "not TOML", "policy.md"),
    ],
)
def test_a_wrong_policy_says_where_and_what_to_do(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_policy(text, where="gate.toml")
    assert "gate.toml" in caught.value.message
    assert message in caught.value.message
    assert hint in str(caught.value.hint)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_policy(tmp_path / "absent.toml")
