"""A Perfetto trace as its packets, one after the other, without holding the file."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trueput.scan import Damage, byte_chunks

_PACKET_TAG: Final = 0x0A
_MAX_PACKET: Final = 64 << 20
_MAX_UNPACKED: Final = 256 << 20
_LENGTH_OF_WIRE: Final = {1: 8, 5: 4}


class BrokenError(Exception):
    """The file ends or breaks here."""


class _Bytes:
    """The bytes of a file, taken from the front."""

    def __init__(self, chunks: Iterator[bytes | Damage]) -> None:
        self._chunks = chunks
        self._held = b""
        self._at = 0

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes. Raises BrokenError where there are fewer."""
        if size > _MAX_PACKET:
            raise BrokenError("a packet is too large")
        while len(self._held) - self._at < size:
            chunk = next(self._chunks, b"")
            if isinstance(chunk, Damage):
                raise BrokenError(chunk.text)
            if not chunk:
                raise BrokenError("the file ends within a packet")
            self._held = self._held[self._at :] + chunk
            self._at = 0
        self._at += size
        return self._held[self._at - size : self._at]

    def at_end(self) -> bool:
        """Whether no byte is left."""
        while self._at == len(self._held):
            chunk = next(self._chunks, b"")
            if isinstance(chunk, Damage):
                raise BrokenError(chunk.text)
            if not chunk:
                return True
            self._held, self._at = chunk, 0
        return False

    def number(self) -> int:
        """Return the next varint."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise BrokenError("a number does not end")


def packets(path: Path) -> Iterator[bytes]:
    """Yield the packets of a trace file. Raises BrokenError where it breaks."""
    yield from _packets(_Bytes(byte_chunks(path)))


def unpacked(data: bytes) -> Iterator[bytes]:
    """Yield the packets of a compressed bundle. Raises BrokenError where it breaks."""
    engine = zlib.decompressobj()
    try:
        plain = engine.decompress(data, _MAX_UNPACKED)
    except zlib.error as error:
        raise BrokenError(f"{error}"[:100]) from error
    yield from _packets(_Bytes(iter([plain])))


def _packets(source: _Bytes) -> Iterator[bytes]:
    while not source.at_end():
        tag = source.number()
        wire = tag & 7
        if tag == _PACKET_TAG:
            yield source.take(source.number())
        elif wire == 2:
            source.take(source.number())
        elif wire == 0:
            source.number()
        elif wire in _LENGTH_OF_WIRE:
            source.take(_LENGTH_OF_WIRE[wire])
        else:
            raise BrokenError("no Perfetto packet")
