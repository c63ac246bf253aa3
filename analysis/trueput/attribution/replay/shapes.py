"""Sums that tell how requests share an iteration's tokens, where step annotations write them.

A log prints one number of tokens for all requests of a kind. The squares of the requests' shares,
and the shares times the requests' lengths, leave open at most who of several equal ones took what.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MOST_LOOKED_AT = 4096
"""Divisions that are tried before their sums are taken to leave the shares open."""


@dataclass(frozen=True)
class Shape:
    """What an annotation tells of the requests of one kind in one iteration."""

    squares: int
    """Of the tokens that each is given, together."""
    lengths: int | None
    """Tokens that each has with those, together."""
    products: int | None
    """Tokens that each is given times its length, together."""

    def less(self, tokens: int, length: int) -> Shape:
        """Return what is left for the others, of one request being known."""
        return Shape(
            self.squares - tokens * tokens,
            None if self.lengths is None else self.lengths - length,
            None if self.products is None else self.products - tokens * length,
        )


@dataclass(frozen=True)
class Open:
    """A request of which it is not known how many tokens it is given."""

    least: int
    most: int
    """What it takes if nothing of it is found in the prefix cache."""
    unit: int
    """Its share is `most` less a multiple of this."""
    length: int | None
    """What it has afterwards, where that is known."""
    begun: int
    """What it was given before, since it was scheduled."""


def agrees(shape: Shape, given: Sequence[tuple[int, int | None]]) -> bool:
    """Return whether tokens and lengths (None: not known) of all requests come to the sums."""
    if sum(tokens * tokens for tokens, _ in given) != shape.squares:
        return False
    known = [(tokens, length) for tokens, length in given if length is not None]
    unknown = [tokens for tokens, length in given if length is None]
    if shape.lengths is None or shape.products is None or len(unknown) > 1:
        return True
    left = shape.lengths - sum(length for _, length in known)
    products = shape.products - sum(tokens * length for tokens, length in known)
    if not unknown:
        return left == products == 0
    return left >= unknown[0] and products == unknown[0] * left


def divisions(parts: Sequence[Open], whole: int, shape: Shape) -> list[tuple[int, ...]] | None:
    """Return all shares of `parts` that come to `whole` tokens and to the sums of `shape`.

    None where there are too many to look at.
    """
    widest = max(range(len(parts)), key=lambda k: (parts[k].most - parts[k].least) // parts[k].unit)
    others = [k for k in range(len(parts)) if k != widest]
    choices = 1
    for k in others:
        choices *= (parts[k].most - parts[k].least) // parts[k].unit + 1
    if choices > MOST_LOOKED_AT:
        return None
    found = []
    for shares in _choices([parts[k] for k in others], whole):
        rest = whole - sum(shares)
        if not _can_take(parts[widest], rest):
            continue
        all_shares = list(shares)
        all_shares.insert(widest, rest)
        if _fit(parts, all_shares, shape):
            found.append(tuple(all_shares))
    return found


def _choices(parts: Sequence[Open], whole: int) -> Iterator[tuple[int, ...]]:
    """Shares of each part that leave at least one token of `whole`."""
    if not parts:
        yield ()
        return
    first, *others = parts
    for share in range(first.most, first.least - 1, -first.unit):
        if share < whole:
            yield from ((share, *rest) for rest in _choices(others, whole - share))


def _can_take(part: Open, share: int) -> bool:
    return part.least <= share <= part.most and (part.most - share) % part.unit == 0


def _fit(parts: Sequence[Open], shares: Sequence[int], shape: Shape) -> bool:
    given = [(share, part.length) for share, part in zip(shares, parts, strict=True)]
    if not agrees(shape, given):
        return False
    unknown = [k for k, part in enumerate(parts) if part.length is None]
    if len(unknown) != 1 or shape.lengths is None:
        return True
    # the one that is cut short has what it was given, and what was found, if that is any
    found = shape.lengths - sum(part.length or 0 for part in parts)
    return found - parts[unknown[0]].begun - shares[unknown[0]] >= 0
