"""How an iteration's printed tokens are divided among the requests that it served.

Who decodes takes one token, and who computes a known rest takes that. Of a request that found an
unknown part of its tokens in the prefix cache only the printed sum tells how many were left: alone
it took what the others left over; several share it as the cache likely served them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trueput.attribution.replay.block_pool import BlockPool
from trueput.attribution.replay.nats import HIT_DIFFERS, MOST_HIT_DIFFERS
from trueput.attribution.replay.shapes import Open, Shape, agrees, divisions
from trueput.attribution.replay.stories import Live, Story


class Division:
    """Divides tokens; whole blocks of the pool are found in the cache."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self._unit = pool.unit
        self.is_told = False
        """Whether the last division of several open shares was the only one that fits."""

    def divide(
        self,
        story: Story,
        group: list[Live],
        printed: int,
        last: Live | None,
        given: dict[int, int],
        shape: Shape | None = None,
    ) -> bool:
        """Put the tokens of each request of `group` into `given`, by id(); False where the
        `printed` sum does not fit, or not to what `shape` tells.

        `last` is the one that took what the token budget had left; None where all got their due.
        """
        self.is_told = False
        rest = printed
        free: list[Live] = []
        for live in group:
            if live.flexible:
                free.append(live)
            else:
                given[id(live)] = live.rest
                rest -= live.rest
        if free:
            fits = self._share(story, group, free, rest, last, given, shape)
        elif rest < 0 and last in group and last is not None and last.rest + rest > 0:
            given[id(last)] = last.rest + rest
            fits = True
        else:
            fits = rest == 0
        if not fits or shape is None or not group:
            return fits
        if not _agrees(shape, group, last, given):
            return False
        if last is not None and last in free and shape.lengths is not None:
            self._learn_found(group, last, given, shape.lengths)
        return True

    def _learn_found(
        self, group: Sequence[Live], last: Live, given: Mapping[int, int], lengths: int
    ) -> None:
        """Takes over what the one that was cut short found, as its length is what others leave."""
        others = [_length(live, last, given) for live in group if live is not last]
        if all(live.prompt is not None for live in group):
            length = lengths - sum(n for n in others if n is not None)
            found = length - last.begun - given[id(last)]
            last.found = found if found >= 0 and found % self._unit == 0 else None

    def _share(
        self,
        story: Story,
        group: list[Live],
        free: list[Live],
        rest: int,
        last: Live | None,
        given: dict[int, int],
        shape: Shape | None,
    ) -> bool:
        """Share `rest` among the requests of `free`; False where they cannot have it."""
        if len(free) == 1:
            guesses = [rest]
            self._learn(story, free[0], rest, partial=free[0] is last)
        elif shares := self._told(group, free, rest, last, given, shape):
            guesses, self.is_told = list(shares), True
        else:
            guesses = self._guesses(story, free, rest, last)
            self._leave_open(story, free, rest, last)
        fits = sum(guesses) == rest
        for live, guess in zip(free, guesses, strict=True):
            given[id(live)] = max(guess, 1)
            fits = fits and self._is_plausible(story, live, guess, partial=live is last)
            live.is_loose = live.is_loose or (live is last and len(free) > 1 and not self.is_told)
        return fits

    def _told(
        self,
        group: list[Live],
        free: list[Live],
        rest: int,
        last: Live | None,
        given: Mapping[int, int],
        shape: Shape | None,
    ) -> tuple[int, ...] | None:
        """The tokens of several requests where only one division of `rest` comes to the sums."""
        if shape is None or any(live.prompt is None for live in free):
            return None
        for live in group:
            if not live.flexible:
                shape = shape.less(given[id(live)], live.computed + given[id(live)])
        parts = []
        for live in free:
            least, most = self._bounds(live)
            is_whole = live is not last and not live.is_loose
            parts.append(
                Open(
                    least if is_whole else 1,
                    most,
                    self._unit if is_whole else 1,
                    None if live is last else live.target,
                    live.begun,
                )
            )
        found = divisions(parts, rest, shape)
        return found[0] if found is not None and len(found) == 1 else None

    def _learn(self, story: Story, live: Live, tokens: int, *, partial: bool) -> None:
        """Takes over what a new request found in the cache, where nobody else's share is open."""
        if live.prompt is None or live.preempted_step >= 0 or live.is_loose or partial:
            return
        found = (live.target - tokens - live.begun) // self._unit
        story.usual = found if found > 0 else story.usual

    def _guesses(self, story: Story, free: list[Live], rest: int, last: Live | None) -> list[int]:
        """Tokens of several requests whose shares are open, that sum to `rest` where they can.

        Shares of most change by whole blocks. Any share can be that of the one the budget cuts, and
        of one that it cut before, beside others: these make up the sum, before and after.
        """
        guesses = [self._guess(story, live) for live in free]
        spare = rest - sum(guesses)
        makeweights = [k for k, live in enumerate(free) if live is last or live.is_loose]
        is_again = any(live.preempted_step >= 0 for live in free)
        story.is_open = story.is_open or (bool(makeweights) and is_again)
        # least certain are those without a prefix others keep alive; the later finds more
        later = -1 if spare < 0 else 1
        order = sorted(range(len(free)), key=lambda k: (free[k].shared, later * k))
        for k in [*makeweights, *(k for k in order if k not in makeweights), *makeweights]:
            live = free[k]
            if live.prompt is None:
                change = spare
            elif k in makeweights:
                whole = live.target - live.begun
                change = max(1, min(whole, guesses[k] + spare)) - guesses[k]
            else:
                change = self._nearest_change(live, guesses[k], spare, beyond=bool(makeweights))
            guesses[k] += change
            spare -= change
        return guesses

    def _leave_open(self, story: Story, free: list[Live], rest: int, last: Live | None) -> None:
        """Mark the victims of whom the printed sum leaves open how many tokens they took."""
        bounds = [self._bounds(live) for live in free]
        least, most = (sum(bound) for bound in zip(*bounds, strict=True))
        is_whole = not any(live is last or live.is_loose or live.prompt is None for live in free)
        if is_whole and rest == sum(self._guess(story, live) for live in free):
            # what the free blocks had left of each comes to just what was printed
            return
        for live, (low, high) in zip(free, bounds, strict=True):
            # what the others must have taken, and can have
            room = min(high, rest - least + low) - max(low, rest - most + high)
            if live.preempted_step >= 0 and room >= (self._unit if is_whole else 1):
                story.leave_open(live.job.index)

    def _bounds(self, live: Live) -> tuple[int, int]:
        """The least and the most tokens that a request can take, with the cache or without."""
        most = max(1, live.target - live.begun)
        # of what it made itself no more can be found than there ever was
        ever = live.high if live.out else live.target
        found = min(live.target - 1, ever) // self._unit * self._unit
        return max(1, most - found), most

    def _guess(self, story: Story, live: Live) -> int:
        """Tokens of a request if it finds in the cache what one finds now."""
        if live.prompt is None:
            return 1
        left = live.target - live.begun
        if live.preempted_step >= 0:
            found = self._pool.found_again(story.free_queue, live)
        else:
            most = (left - 1) // self._unit
            # a common prefix was there when it was admitted, or was not
            found = (story.usual if story.usual <= most or not live.chunks else 0) * self._unit
            found = min(found, most * self._unit)
        return max(1, left - found)

    def _nearest_change(self, live: Live, guess: int, spare: int, *, beyond: bool) -> int:
        """Whole blocks towards `spare`, or just beyond it, as far as this request can take them."""
        unit = self._unit
        blocks = abs(spare) // unit
        if beyond and abs(spare) % unit:
            blocks += 1
        blocks = blocks if spare >= 0 else -blocks
        most = (live.target - live.begun - guess) // unit
        least = -((guess - 1) // unit)
        return unit * max(least, min(most, blocks))

    def _is_plausible(self, story: Story, live: Live, tokens: int, *, partial: bool) -> bool:
        """Whether a request can be given so many tokens; off the predicted cache hit costs."""
        if tokens < 1:
            return False
        if live.prompt is None:
            return True
        unit = self._unit
        hit = live.target - tokens - live.begun
        if partial or live.is_loose:
            return hit >= 0
        if hit < 0 or hit % unit or hit >= live.target:
            return False
        if live.preempted_step >= 0:
            expected = self._pool.found_again(story.free_queue, live)
            story.cost += min(MOST_HIT_DIFFERS, HIT_DIFFERS * abs(hit // unit - expected // unit))
        return True


def _agrees(
    shape: Shape, group: Sequence[Live], last: Live | None, given: Mapping[int, int]
) -> bool:
    """Return whether what the requests were given, and their lengths, come to the sums."""
    if any(live.prompt is None for live in group):
        shape = Shape(shape.squares, None, None)  # whose prompt is not known may have any length
    return agrees(shape, [(given[id(live)], _length(live, last, given)) for live in group])


def _length(live: Live, last: Live | None, given: Mapping[int, int]) -> int | None:
    """What a request has after the iteration; None where nothing says how much it had before."""
    if not live.flexible:
        return live.computed + given[id(live)]
    return None if live is last else live.target
