"""What each explanation costs a story, in nats: together, for they are weighed by one another."""

from __future__ import annotations

WRONG = 6.0
"""A printed count that the replay does not reproduce."""
ANONYMOUS = 8.0
"""A request that no record names; dear, or it would explain everything."""
UNDATED = 2.0
"""A request of unknown arrival is admitted."""
OUT_OF_ORDER = 1.5
"""A request is admitted before one that arrived earlier; more with the time between them."""
UNSEEN = 1.5
"""A change of the running set in an iteration whose line is lost."""
LOST_LINES = 1.0
"""Iterations whose lines are lost, however many in a row."""
GHOST = 0.5
"""A request that had ended is given a token once more: the engine schedules ahead of outputs."""
LEFT = 1.0
"""A request left when its records say it may have."""
LEFT_WAITING = 0.1
"""On top, for one that waited after a preemption: it might as well have left instead. A trifle: the
instant at which its client gave up tells the two apart, where that tells anything."""
LEFT_UNKNOWN = 3.0
"""A request left, and nothing says when."""
UNENDED = 6.0
"""A request that has ended by its records, and not in the iterations."""
RESTARTED = 2 * WRONG
"""Everything that the story held had gone."""
USAGE_DIFFERS = 3.0
"""At most, for a printed KV usage that differs from the story's."""
UNNEEDED = 3.0
"""A preemption although the blocks would have sufficed."""
GAP_DENIES = 2.5
"""A client that did not wait while its request is said to have been preempted."""
HIT_DIFFERS = 0.1
"""Each block by which a prefix found again differs from what the free queue had left of it."""
MOST_HIT_DIFFERS = 1.0
"""The most of that for one request in one iteration."""
DOUBT = 0.5
"""An iteration that costs a story more than this is looked at again for other explanations."""
LEAST_DOUBT = 4.0
"""A story that is dearer than another by more than this casts no doubt on it: 2 % at most."""
