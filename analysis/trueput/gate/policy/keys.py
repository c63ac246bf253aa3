"""Every key of a policy: where it stands, what it is without being set, what it does.

The reader, the reference page and `policy init` take the keys from here, and a test takes each
from here to show that it changes a verdict, an exit code or the printed text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trueput.gate.policy.model import VERSION, Policy
from trueput.slo import KEYS as SLO_KEYS
from trueput.slo import METRICS as SLO_TIMES

#: Choices of a key of [slo], the default first.
SLO_CHOICES: Final = {"from": ("sent", "scheduled"), "undefined": ("pass", "fail")}
ANY: Final = "*"
#: Tables of which a policy may hold several, each written in double brackets.
LISTED: Final = ("slo.class", "overrides")


@dataclass(frozen=True)
class Key:
    """One key: its table (empty at the top), its name (`*`: any of several), and its words."""

    table: str
    name: str
    default: str
    doc: str
    example: str
    stands_for: str = ""

    @property
    def shown(self) -> str:
        """The key as a reader writes it."""
        name = self.stands_for or self.name
        if not self.table:
            return name
        return f"[[{self.table}]] {name}" if self.table in LISTED else f"[{self.table}] {name}"


_DEFAULT = Policy()
_EXAMPLES = {"ttft": "500ms", "tpot": "50ms", "itl_p99": "200ms", "e2e": "30s"}


def _slo_key(name: str) -> Key:
    if name in SLO_TIMES:
        doc = f"Upper limit of {name}, inclusive, as text with a unit (ns, us, ms, s)."
        return Key("slo", name, "none", doc, f'"{_EXAMPLES[name]}"')
    return Key("slo", name, "none", "Fewer output tokens are `short_output`, a failure.", "1")


def _class_key(name: str) -> Key:
    doc = f"Upper limit of {name} for the class, in place of that of [slo]."
    return Key("slo.class", name, f"[slo] {name}", doc, f'"{_EXAMPLES[name]}"')


KEYS: Final[tuple[Key, ...]] = (
    Key("", "version", str(VERSION), "Version of the policy file.", str(VERSION)),
    Key(
        "", "min_effect", str(_DEFAULT.min_effect),
        "Least relative change that counts: `rose` needs a lower bound above 1 + min_effect, "
        "`fell` an upper bound below 1 - min_effect.", "0.05",
    ),
    Key(
        "", "margin", str(_DEFAULT.margin),
        "`did not rise` needs an upper bound below 1 + margin.", "0.05",
    ),
    Key(
        "", "floor_log_sd", str(_DEFAULT.noise.floor_log_sd),
        "Least run-to-run standard deviation (of the log) assumed with two or more runs a side; "
        "for shares of tokens or time, that part of the share.", "0.02",
    ),
    Key(
        "", "run_log_sd", str(_DEFAULT.noise.run_log_sd),
        "Run-to-run standard deviation (of the log) assumed for a side with one run. "
        "`trueput noise` measures it on repeats.", "0.10",
    ),
    Key(
        "", "repeats", str(_DEFAULT.repeats),
        "Runs required on each side; with fewer the verdict is inconclusive. Runs of one "
        "measurement count once.", "3",
    ),
    Key(
        "exit", "inconclusive", "3",
        "Exit code of an inconclusive verdict, from 0 to 99.", "3",
    ),
    Key(
        "exit", "not_comparable", "3",
        "Exit code of runs that are not comparable, from 0 to 99. Over several candidates the "
        "first code that is not 0 holds, in the order of the verdicts.", "3",
    ),
    *(_slo_key(name) for name in SLO_KEYS),
    Key(
        "slo", "from", "sent",
        "Where TTFT and E2E start: `sent` (the actual send) or `scheduled` (the planned one).",
        '"sent"',
    ),
    Key(
        "slo", "undefined", "pass",
        "`pass` or `fail`: what a limit on a metric means that is undefined for a request (TPOT of "
        "a one-token reply).", '"pass"',
    ),
    Key(
        "slo.class", "label", "none",
        "Requests with this label, as the column `label` of their record names it.", '"chat"',
    ),
    Key(
        "slo.class", "prompt_tokens", "none",
        "Requests whose prompt has at least FROM and fewer than TO tokens; either may be left out. "
        "No request may be of two classes.", '"0..1000"',
    ),
    *(_class_key(name) for name in SLO_TIMES),
    Key(
        "metrics.METRIC", "min_effect", "min_effect",
        "Least relative change of this metric that counts, in place of the general one.", "0.03",
    ),
    Key(
        "metrics.METRIC", "floor", "0",
        "Least absolute change of this metric that counts, in its unit; spans as text, as in "
        '`"20ms"`. A smaller change is neither a rise nor a fall, whatever its ratio.', "0.1",
    ),
    Key(
        "must_match", ANY, "none",
        "`true`: a difference in this aspect blocks, down to the last digit.", "true", "ASPECT",
    ),
    Key(
        "under_test", ANY, "none",
        "`true`: a difference in this aspect never blocks.", "true", "ASPECT",
    ),
    Key(
        "rules", ANY, "see [rules](rules.md)",
        "`blocking` or `informing`, in place of the rule's default.", '"blocking"', "RULE",
    ),
    Key("overrides", "rule", "none", "The rule that an override changes; or `aspect`.",
        '"recompute-growth"'),
    Key("overrides", "severity", "required with rule", "`blocking` or `informing`, above [rules].",
        '"informing"'),
    Key("overrides", "aspect", "none", "The aspect that an override changes; or `rule`.",
        '"hardware"'),
    Key("overrides", "blocks", "required with aspect",
        "Whether a difference in the aspect blocks, above [must_match] and [under_test].", "true"),
    Key("overrides", "owner", "required", "Who answers for the override; printed.",
        '"serving-team"'),
    Key("overrides", "reason", "required", "Why it is there; printed.",
        '"a known cost of the new scheduler"'),
    Key("overrides", "expires", "required",
        "Last day on which it holds (UTC), as a TOML date. Afterwards it is not applied and every "
        "output says so.", "2027-01-31"),
)  # fmt: skip


def names(table: str) -> tuple[str, ...]:
    """Return the names of the keys of one table."""
    return tuple(key.name for key in KEYS if key.table == table)


def tables() -> tuple[str, ...]:
    """Return the names of the tables that stand at the top of a policy."""
    return tuple(dict.fromkeys(key.table.split(".")[0] for key in KEYS if key.table))
