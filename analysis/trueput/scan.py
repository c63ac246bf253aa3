"""Files as bounded streams: plain, .gz, .zst and .zip bytes, text blocks, JSON texts to columns.

A damaged compressed file gives what could be decompressed and then says where it broke
(`Damage`), so that a source can report a problem and keep the rows before it.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")
"""How compressed files begin."""
SUFFIXES = (".gz", ".zst", ".zip")
MAX_LINE_BYTES = 16 << 20
"""A longer line is cut into pieces, so that one line cannot fill the memory."""


@dataclass(frozen=True)
class Damage:
    """Decompression or reading stopped here; what came before is good."""

    text: str


@dataclass(frozen=True)
class Block:
    """Whole lines (the last one perhaps without a newline): bytes, and the 1-based first line."""

    data: bytes
    first_line: int


def plain_name(name: str) -> str:
    """Return the file name without a compression suffix."""
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return name[: -len(suffix)]
    return name


def open_bytes(path: Path) -> IO[bytes]:
    """Open `path` for reading decompressed bytes; the kind is told by its first bytes."""
    raw = path.open("rb")
    magic = raw.read(4)
    raw.seek(0)
    if magic[:2] == b"\x1f\x8b":
        raw.close()  # a GzipFile leaves a file that it was given open
        return gzip.GzipFile(path, "rb")  # type: ignore[return-value]  # GzipFile is an IO[bytes]
    if magic == b"\x28\xb5\x2f\xfd":
        import zstandard

        reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
        return io.BufferedReader(reader)
    if magic == b"PK\x03\x04":
        raw.close()
        return _open_zip(path)
    return raw


def _open_zip(path: Path) -> IO[bytes]:
    """Open the only file of a zip archive. Raises OSError where there is not exactly one."""
    import zipfile

    try:
        archive = zipfile.ZipFile(path)
        names = [item for item in archive.infolist() if not item.is_dir()]
        if len(names) == 1:
            return archive.open(names[0])
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError) as error:
        raise OSError(f"{type(error).__name__}: {error}"[:200]) from error
    archive.close()
    raise OSError(f"the archive holds {len(names)} files; unpack it")


def _stream_errors() -> tuple[type[BaseException], ...]:
    import zipfile

    import zstandard

    return (OSError, EOFError, zlib.error, zstandard.ZstdError, zipfile.BadZipFile)


def read_head(path: Path, size: int) -> bytes:
    """Return up to `size` decompressed bytes from the start; b"" where nothing can be read."""
    try:
        with open_bytes(path) as stream:
            return stream.read(size)
    except _stream_errors():
        return _salvage(path, size)


def _salvage(path: Path, size: int) -> bytes:
    out = bytearray()
    for piece in byte_chunks(path, 4096):
        if isinstance(piece, Damage):
            break
        out += piece
        if len(out) >= size:
            break
    return bytes(out[:size])


def byte_chunks(path: Path, size: int = 8 << 20) -> Iterator[bytes | Damage]:
    """Yield decompressed bytes in chunks of at most `size`; a last `Damage` where it breaks."""
    errors = _stream_errors()
    try:
        stream = open_bytes(path)
    except errors as error:
        words = "" if isinstance(error, EOFError) or not str(error) else f": {error}"
        yield Damage(f"cannot be opened: {type(error).__name__}{words}"[:200])
        return
    given = 0
    with stream:
        while True:
            try:
                chunk = stream.read(size)
            except errors as error:
                if size > 1024:
                    # Read the rest in small steps up to the damage: a big read loses what it had.
                    yield from _rest_until_damage(path, given, size, errors)
                else:
                    yield Damage(f"{type(error).__name__}: {error}"[:200])
                return
            if not chunk:
                return
            given += len(chunk)
            yield chunk


class Filler:
    """The decompressed bytes of a file, put where the caller wants them; `size` at once at most."""

    def __init__(self, path: Path, size: int) -> None:
        self._chunks = byte_chunks(path, size)
        self._size = size
        self._plain: io.FileIO | None = None
        with contextlib.suppress(OSError):
            raw = path.open("rb", buffering=0)
            if raw.read(4).startswith(PACKED):
                raw.close()
            else:
                raw.seek(0)
                self._plain = raw

    def into(self, room: bytearray, at: int) -> int | Damage:
        """Put the next bytes at a place of the room; return how many, 0 at the end, or what broke.

        The room must have place for `size` bytes there.
        """
        if self._plain is not None:
            with memoryview(room) as view:
                try:
                    return self._plain.readinto(view[at : at + self._size]) or 0
                except OSError as error:
                    return Damage(f"{type(error).__name__}: {error}"[:200])
        chunk = next(self._chunks, b"")
        if isinstance(chunk, Damage):
            return chunk
        room[at : at + len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        """Close the file."""
        self._chunks.close()  # type: ignore[attr-defined]  # a generator
        if self._plain is not None:
            self._plain.close()


def _rest_until_damage(
    path: Path, done: int, size: int, errors: tuple[type[BaseException], ...]
) -> Iterator[bytes | Damage]:
    """Yield what comes after the first `done` bytes, `size` at once at most, and the damage."""
    good = 0
    held = bytearray()
    damage: Damage | None = None
    with open_bytes(path) as stream:
        try:
            while good < done:
                got = stream.read(min(1 << 20, done - good))
                if not got:
                    break
                good += len(got)
            while piece := stream.read(512):
                held += piece
                if len(held) > size - 512:
                    yield bytes(held)
                    held.clear()
        except errors as error:
            damage = Damage(f"{type(error).__name__}: {error}"[:200])
    if held:
        yield bytes(held)
    if damage is not None:
        yield damage


def text_blocks(path: Path, size: int = 8 << 20) -> Iterator[Block | Damage]:
    """Yield the file as blocks of whole lines of about `size` bytes, then `Damage` if it broke.

    A single line longer than MAX_LINE_BYTES is cut; the pieces count as separate blocks of the
    same line number.
    """
    rest = b""
    line = 1
    damage: Damage | None = None
    for chunk in byte_chunks(path, size):
        if isinstance(chunk, Damage):
            damage = chunk
            break
        cut = chunk.rfind(b"\n")
        if cut < 0:
            rest += chunk
            if len(rest) > MAX_LINE_BYTES:
                yield Block(rest, line)
                rest = b""
            continue
        data = rest + chunk[: cut + 1]
        yield Block(data, line)
        line += data.count(b"\n")
        rest = chunk[cut + 1 :]
    if rest:
        yield Block(rest, line)
    if damage is not None:
        yield damage


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[tuple[Path, Damage | None]]:
    """Give a plain file with the bytes of `path`, for readers that must seek; and its damage.

    A compressed file is written out to a temporary one, which is removed afterwards.
    """
    with path.open("rb") as raw:
        magic = raw.read(4)
    if magic[:2] != b"\x1f\x8b" and magic != b"\x28\xb5\x2f\xfd":
        yield path, None
        return
    damage: Damage | None = None
    with tempfile.TemporaryDirectory(prefix="trueput-") as folder:
        plain = Path(folder) / "whole"
        with plain.open("wb") as out:
            for chunk in byte_chunks(path):
                if isinstance(chunk, Damage):
                    damage = chunk
                else:
                    out.write(chunk)
        yield plain, damage


def sqlite_uri(path: Path) -> str:
    """Return the URI that opens a SQLite file for reading and touches nothing beside it."""
    return f"{path.resolve().as_uri()}?mode=ro&immutable=1"


class JsonTexts:
    """Columns out of many small JSON texts, by DuckDB's `from_json`, row by row.

    `structure` is DuckDB's description of the fields wanted: each becomes a column, NULL where a
    text lacks it or holds another type. Decimal fields are read from the text, not through a float.
    """

    def __init__(self, structure: str) -> None:
        import duckdb

        self._failure = duckdb.Error
        self._connection = duckdb.connect(config={"threads": 1, "memory_limit": "1GB"})
        self._sql = f"SELECT unnest(from_json(text, '{structure}')) FROM texts"

    def read(self, texts: Any) -> pa.Table | None:
        """Return the rows of an Arrow array of texts, in order; None where one is no JSON."""
        import pyarrow as pa

        with self._lent(pa.table({"text": texts})):
            try:
                rows: pa.Table = self._connection.sql(self._sql).to_arrow_table()
            except self._failure:
                return None
        return rows

    def stream(self, texts: Iterator[Any], rows: int) -> Iterator[pa.Table]:
        """Yield a row for each text of string_view arrays, in order, `rows` at a time.

        Arrays are taken ahead of the rows. Ends without a word where a text is no JSON: the caller
        counts. An error that `texts` itself raises goes through.
        """
        import pyarrow as pa

        schema = pa.schema([("text", pa.string_view())])
        raised: list[Exception] = []

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                for array in texts:
                    yield pa.record_batch([array], schema=schema)
            except Exception as error:
                raised.append(error)
                raise

        with self._lent(pa.RecordBatchReader.from_batches(schema, batches())):
            try:
                for batch in self._connection.sql(self._sql).to_arrow_reader(rows):
                    yield pa.Table.from_batches([batch])
            except (self._failure, pa.ArrowException, OSError):
                if raised:
                    raise raised[0] from None

    def valid(self, texts: Any) -> list[bool]:
        """Return for each text whether it is JSON."""
        import pyarrow as pa

        with self._lent(pa.table({"text": texts})):
            found = self._connection.sql("SELECT json_valid(text) FROM texts").fetchall()
        return [bool(row[0]) for row in found]

    def close(self) -> None:
        """Give back what the reading held."""
        self._connection.close()

    @contextlib.contextmanager
    def _lent(self, texts: pa.Table | pa.RecordBatchReader) -> Iterator[None]:
        self._connection.register("texts", texts)
        try:
            yield
        finally:
            self._connection.unregister("texts")
