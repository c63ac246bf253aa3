"""policy: writes a commented policy, and says what a policy holds a candidate to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from trueput.errors import UsageError
from trueput.gate.policy import Note, Policy, load_policy
from trueput.gate.policy.template import template

DEFAULT_NAME = "gate.toml"


@dataclass(frozen=True)
class Checked:
    """A sound policy, what it sets, and what its overrides do today."""

    path: Path
    policy: Policy
    settings: tuple[tuple[str, str], ...]
    notes: tuple[Note, ...]


def init(path: Path | None = None, force: bool = False) -> Path:
    """Write a commented policy that sets nothing; return its path.

    Raises UsageError where the file exists and `force` is not given, or cannot be written.
    """
    target = path or Path(DEFAULT_NAME)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("w" if force else "x", encoding="utf-8") as stream:
            stream.write(template())
    except FileExistsError as error:
        raise UsageError(
            f"`{target}` exists and was not overwritten", "give --force, or another path"
        ) from error
    except OSError as error:
        raise UsageError(f"`{target}` cannot be written ({error.strerror})") from error
    return target


def check(path: Path, today: date | None = None) -> Checked:
    """Read a policy; raises UsageError with the place and the nearest known key."""
    policy = load_policy(path)
    _, notes = policy.on(today or datetime.now(UTC).date())
    return Checked(path, policy, _settings(policy), notes)


def _settings(policy: Policy) -> tuple[tuple[str, str], ...]:
    """Return what the policy holds a candidate to, in the words of its keys."""
    codes = [f"{v} {policy.exit_code(v)}" for v in ("inconclusive", "not_comparable")]
    judged = "pass" if policy.slo.undefined_passes else "fail"
    pairs = [
        ("objective", policy.slo_text or "none: of --slo, run.toml or the client's command"),
        ("measured from", policy.slo.measured_from),
        ("undefined metrics", judged),
        ("min_effect", f"{policy.min_effect:g}"),
        ("margin", f"{policy.margin:g}"),
        ("floor_log_sd", f"{policy.noise.floor_log_sd:g}"),
        ("run_log_sd", f"{policy.noise.run_log_sd:g}"),
        ("repeats", f"{policy.repeats}"),
        ("exit codes", ", ".join(codes)),
    ]
    for metric, own in policy.metrics.items():
        effect = "as above" if own.min_effect is None else f"{own.min_effect:g}"
        pairs.append((metric, f"min_effect {effect}, floor {own.floor:g}"))
    pairs += [("must match", a) for a in sorted(policy.must_match)]
    pairs += [("under test", a) for a in sorted(policy.under_test)]
    pairs += [(rule, severity) for rule, severity in policy.rules.items()]
    return tuple(pairs)
