"""Preemption: who was preempted, for how long, and what computing their state again cost.

`engines` replays each engine process with its requests (`processes`). Of what the best story tells,
`claims` are the victims' own, `confidence` says how sure they are, `served` whom the iterations
served, and `sightings` date them. From all engines together `steps` divides the time of iterations,
`replay_tokens` and `recompute_time` give the run's totals, and `victims` what each request paid.
"""

from __future__ import annotations

from trueput.attribution.preemption.one_run import Attribution, attribute

__all__ = ["Attribution", "attribute"]
