"""How a client counts prompt tokens beside the engine that got them.

The engine's counts are compared. A client that counts otherwise (no template, another tokeniser)
does so on both sides; where it does on one of them, its prompts are not what it says.
"""

from __future__ import annotations

from trueput.gate.figures import RunFigures
from trueput.gate.loads import LENGTH_DRIFT, Difference, Gap

ASPECT = "prompt_counts"


def counts_gap(b: RunFigures, c: RunFigures) -> Gap | None:
    """Compare the client's total over the engine's; where they agree on both sides, no gap."""
    ratios = [_ratio(run) for run in (b, c)]
    known = [ratio for ratio in ratios if ratio is not None]
    far = max((abs(ratio - 1) for ratio in known), default=0.0)
    if far <= LENGTH_DRIFT:
        return None
    texts = (_text(b), _text(c))
    if ratios[0] is None or ratios[1] is None:
        return 0.0, Difference(ASPECT, *texts, "known on one side only", False)
    moved = ratios[1] / ratios[0] - 1 if ratios[0] else float("inf")
    blocks = abs(moved) > LENGTH_DRIFT
    size = f"the client's count over the engine's moved by {moved:+.1%}"
    if not blocks:
        size = f"client and engine disagree on both sides alike, by {ratios[1] - 1:+.1%}"
    return abs(moved), Difference(ASPECT, *texts, size, blocks)


def _ratio(run: RunFigures) -> float | None:
    """Return client's over engine's tokens, over the requests that both counted."""
    import numpy as np

    client = run.requests.column("client_prompt_tokens")
    engine = run.requests.column("prompt_tokens")
    both = ~np.isnan(client) & ~np.isnan(engine)
    total = float(engine[both].sum())
    return float(client[both].sum()) / total if total > 0 else None


def _text(run: RunFigures) -> str:
    """Return the mean counts of both, and the median of their ratio."""
    import numpy as np

    client = run.requests.column("client_prompt_tokens")
    engine = run.requests.column("prompt_tokens")
    both = ~np.isnan(client) & (engine > 0)
    if not both.any():
        return "unknown"
    middle = float(np.median(client[both] / engine[both]))
    return (
        f"client {float(client[both].mean()):.1f}, engine {float(engine[both].mean()):.1f} tokens "
        f"on the mean, median ratio {middle:.3f}"
    )
