"""Bytes of a damaged compressed file: all that can be had, in pieces of the size asked for."""

from __future__ import annotations

import gzip
import random
import zlib
from pathlib import Path

import pytest

from trueput.scan import Damage, byte_chunks


@pytest.mark.parametrize("size", [4096, 60_000, 1 << 20])
def test_what_comes_before_a_damage_is_given_in_whole_pieces(size: int, tmp_path: Path) -> None:
    text = random.Random(3).randbytes(150_000).hex().encode()
    packed = gzip.compress(text)
    cut = len(packed) * 2 // 3
    path = tmp_path / "log.gz"
    path.write_bytes(packed[:cut])
    *pieces, last = byte_chunks(path, size)
    assert isinstance(last, Damage)
    sizes = [len(piece) for piece in pieces if isinstance(piece, bytes)]
    assert len(sizes) == len(pieces)
    assert max(sizes) <= size
    # a reader pays for each piece: not many more than the bytes need
    assert len(sizes) <= sum(sizes) // (size - 512) + 2
    whole = zlib.decompressobj(wbits=31).decompress(packed[:cut])
    given = b"".join(piece for piece in pieces if isinstance(piece, bytes))
    assert whole.startswith(given)
    assert len(whole) - len(given) < 16 << 10
