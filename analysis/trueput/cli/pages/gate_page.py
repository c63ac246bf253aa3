"""A gate's result on a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from trueput.cli.output import Grid, printable
from trueput.cli.output import to_csv as grid_csv
from trueput.cli.pages.differences import draw_differences
from trueput.cli.pages.layout import heading, say, table
from trueput.gate.classes import counts_text
from trueput.gate.policy import BLOCKING
from trueput.gate.render.amounts import MEANS_TEXT, amount, not_applicable, unit_after
from trueput.gate.rule_api import Finding, Outcome
from trueput.gate.verdict import CandidateResult, GateResult, Verdict

if TYPE_CHECKING:
    from rich.console import Console

STYLES = {
    Verdict.PASS: "bold green",
    Verdict.FLAGGED: "bold red",
    Verdict.UNUSABLE: "bold red",
    Verdict.NOT_COMPARABLE: "bold yellow",
    Verdict.INCONCLUSIVE: "bold yellow",
}
_NAMES = ("config", "verdict", *Finding.__dataclass_fields__)
_OUTCOME_STYLES = {
    Outcome.FLAGGED: "red",
    Outcome.PASS: "green",
    Outcome.INCONCLUSIVE: "yellow",
    Outcome.NOT_APPLICABLE: "dim",
}


def draw(console: Console, result: GateResult) -> None:
    """Print the verdicts, each with its findings, reasons and scope."""
    from rich.text import Text

    for note in result.notes:
        style = "bold yellow" if note.level == "warning" else "dim"
        say(console, f"{note.level}: {note.text}", style, 0)
    for candidate in result.candidates:
        line = Text(
            "\n" + candidate.verdict.value.replace("_", " ").upper(), STYLES[candidate.verdict]
        )
        line.append(f"  {printable(candidate.config)}", "bold")
        line.append(f"  against {printable(result.baseline_config)}", "not bold")
        console.print(line)
        _draw_candidate(console, candidate, result)


def _draw_candidate(console: Console, candidate: CandidateResult, result: GateResult) -> None:
    sides = f"{len(result.baseline_runs)} baseline and {len(candidate.runs)} candidate runs"
    if len(candidate.runs) == 1:
        sides = sides.removesuffix("s")
    differ = any(d.aspect == "slo" for d in candidate.comparability)
    slo = (candidate.slo if result.several_slos else result.slo) or "none"
    slo += " (not the same on both sides)" if differ else ""
    say(console, f"objective {slo}; window `{result.window_rule}`; {sides}")
    if candidate.verdict in {Verdict.NOT_COMPARABLE, Verdict.UNUSABLE}:
        say(console, f"because {candidate.reason}")
    else:
        rules = any(candidate.reason.startswith(f.rule) for f in candidate.findings)
        say(console, f"because of {candidate.reason}" if rules else candidate.reason)
    unlike = candidate.verdict is Verdict.NOT_COMPARABLE
    if unlike:
        draw_differences(console, candidate.comparability)
    if candidate.findings:
        note = "ratio candidate / baseline, one-sided 95 % bounds"
        note += "; not decisive" if unlike else ""
        heading(console, "Findings", note)
        if max(len(result.baseline_runs), len(candidate.runs)) > 1:
            say(console, MEANS_TEXT, "dim")
        _findings(console, candidate)
    if not unlike:
        draw_differences(console, candidate.comparability)
    if candidate.classes:
        heading(console, "Requests of each class of the objective", "a count for each run")
        rows = [
            [tally.name, counts_text(tally.baseline), counts_text(tally.candidate)]
            for tally in candidate.classes
        ]
        table(console, ("class", "baseline", "candidate"), rows)


def _findings(console: Console, candidate: CandidateResult) -> None:
    """Print each rule with its figures and its sentence, then what all of it covers."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    shown = _by_severity(candidate.findings)
    headed: tuple[str, str] | None = None
    for finding in shown:
        if (finding.rule, finding.severity) != headed:
            headed = finding.rule, finding.severity
            line = Text("  " + finding.rule, "bold")
            line.append(_weight(finding, shown), "not bold dim")
            console.print(line)
        mark = finding.outcome.value.replace("_", " ")
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(width=13)
        grid.add_column(overflow="fold")
        figures = Text(f"{finding.metric}  {_figures(finding)}\n")
        figures.append(printable(finding.conclusion), "dim")
        grid.add_row(Text(mark, _OUTCOME_STYLES[finding.outcome]), figures)
        console.print(Padding(grid, (0, 0, 0, 4)))
    unseen = not_applicable(candidate.findings)
    if unseen:
        say(console, "not applicable: " + ", ".join(unseen), "dim")
    heading(console, "What this covers")
    sentences = [x.strip(" .") for f in shown for x in f.scope.split(". ")]
    for sentence in dict.fromkeys(sentences):
        say(console, f"{sentence}.", "dim")


def _by_severity(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings that apply, rule by rule, of each those that may decide first."""
    applied = [f for f in findings if f.outcome is not Outcome.NOT_APPLICABLE]
    rules = list(dict.fromkeys(f.rule for f in applied))
    return sorted(applied, key=lambda f: (rules.index(f.rule), f.severity != BLOCKING))


def _weight(finding: Finding, shown: Sequence[Finding]) -> str:
    """Return what a heading says of the severity of its findings; blocking goes without saying
    unless the rule has others that only inform."""
    others = any(f.rule == finding.rule and f.severity != BLOCKING for f in shown)
    return f"  {finding.severity}" if others else ""


def _figures(finding: Finding) -> str:
    """`baseline -> candidate unit, ratio (bounds)`, as far as known."""
    base, cand = (amount(value, finding.unit) for value in (finding.baseline, finding.candidate))
    text = f"{base} -> {cand}{unit_after(finding.unit)}"
    if finding.ratio is not None and math.isfinite(finding.ratio):
        text += f"  {finding.ratio:.3f}x"
    if finding.ratio_low is not None and finding.ratio_high is not None:
        text += f" ({finding.ratio_low:.3f} to {finding.ratio_high:.3f})"
    return text


def _field(value: object) -> object:
    """Return a CSV field, numbers with ten digits as in the JSON."""
    if isinstance(value, Outcome):
        return value.value
    return float(f"{value:.10g}") if isinstance(value, float) else value


def to_csv(result: GateResult) -> str:
    """Return one line per finding."""
    rows = [
        [
            c.config,
            c.verdict.value,
            *(_field(v) for v in asdict(f).values()),
        ]
        for c in result.candidates
        for f in c.findings
    ]
    return grid_csv(Grid(_NAMES, rows))


def empty_csv() -> str:
    """Return the head alone: nothing was judged."""
    return grid_csv(Grid(_NAMES, []))
