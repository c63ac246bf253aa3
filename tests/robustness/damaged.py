"""Ways in which a file is damaged, chosen by a seeded generator; shared by the long fuzz run."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path

LARGEST = 200_000
"""Bytes of a file that are used: enough for any format to be recognised, little to read."""

Damage = Callable[[bytes, bytes, random.Random], bytes]


def noise(data: bytes, other: bytes, rnd: random.Random) -> bytes:
    """Random bytes in the place of the file."""
    return rnd.randbytes(rnd.choice([0, 1, 7, 512, 4096]))


def cut(data: bytes, other: bytes, rnd: random.Random) -> bytes:
    """The file up to anywhere."""
    return data[: rnd.randrange(len(data) + 1)]


def beheaded(data: bytes, other: bytes, rnd: random.Random) -> bytes:
    """The file from anywhere on."""
    return data[rnd.randrange(len(data) + 1) :]


def flipped(data: bytes, other: bytes, rnd: random.Random) -> bytes:
    """Some bits turned."""
    changed = bytearray(data)
    for _ in range(rnd.choice([1, 3, 30, 300])):
        if changed:
            changed[rnd.randrange(len(changed))] ^= 1 << rnd.randrange(8)
    return bytes(changed)


def spliced(data: bytes, other: bytes, rnd: random.Random) -> bytes:
    """The beginning of one file and the end of another."""
    return cut(data, other, rnd) + beheaded(other, data, rnd)


def repeated(data: bytes, other: bytes, rnd: random.Random) -> bytes:
    """A block that stands twice or more."""
    start = rnd.randrange(len(data) + 1)
    block = data[start : start + rnd.choice([1, 80, 4096, 40_000])]
    return data[:start] + block * rnd.choice([2, 3, 20]) + data[start:]


def holed(data: bytes, other: bytes, rnd: random.Random) -> bytes:
    """A block of NULs, as after a crash of the machine."""
    start = rnd.randrange(len(data) + 1)
    size = min(rnd.choice([1, 512, 4096]), len(data) - start)
    return data[:start] + bytes(size) + data[start + size :]


def odd_numbers(data: bytes, other: bytes, rnd: random.Random) -> bytes:
    """A digit replaced by something that is no sensible number."""
    places = [i for i, byte in enumerate(data[:LARGEST]) if 48 <= byte <= 57]
    odd = rnd.choice([b"99999999999999999999999", b"-1", b"1e400", b"NaN", b"\xd9\xa3", b"", b"0x"])
    for _ in range(rnd.choice([1, 5])):
        if places:
            at = rnd.choice(places)
            data = data[:at] + odd + data[at + 1 :]
    return data


def joined_lines(data: bytes, other: bytes, rnd: random.Random) -> bytes:
    """Line ends taken away, or turned into those of other systems."""
    return data.replace(b"\n", rnd.choice([b"", b"\r\n", b"\r", b"\n\n", b"\x0b"]))


def cut_gzip(data: bytes, other: bytes, rnd: random.Random) -> bytes:
    """A gzip stream that breaks off, is damaged inside, or goes on as something else."""
    packed = gzip.compress(data, 1)
    return rnd.choice([cut, flipped, spliced])(packed, data, rnd)


DAMAGES: tuple[Damage, ...] = (
    noise, cut, beheaded, flipped, spliced, repeated, holed, odd_numbers, joined_lines, cut_gzip,
)  # fmt: skip
SUFFIXES = (".log", ".json", ".jsonl", ".csv", ".txt", ".prom", ".sqlite", ".gz", ".zst", "")


def name_for(path: Path, damage: Damage, rnd: random.Random) -> str:
    """Return the file's name; now and then with a suffix that is not its own."""
    name = path.name + (".gz" if damage is cut_gzip and not path.name.endswith(".gz") else "")
    return f"other{rnd.choice(SUFFIXES)}" if rnd.random() < 0.15 else name


def opened(path: Path) -> bytes:
    """Return the first bytes of a file, decompressed where it is a gzip file."""
    if path.name.endswith(".gz"):
        with gzip.open(path) as stream:
            return stream.read(LARGEST)
    with path.open("rb") as stream:
        return stream.read(LARGEST)


def kinds(root: Path) -> dict[str, Path]:
    """Return one file for each kind of file name under `root`, the smallest of sensible size."""
    found: dict[str, Path] = {}
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root).parts
        if not path.is_file() or path.name.startswith((".", "truth_")) or "_tools" in inside:
            continue
        if path.suffix in {".md", ".py", ".toml", ".yaml"}:
            continue
        group = inside[1] if inside[0] != "vllm_cpu" else path.name
        kind = f"{inside[0]}/{group}/{''.join(path.suffixes[-2:])}"
        best = found.get(kind)
        if best is None or path.stat().st_size < best.stat().st_size:
            found[kind] = path
    return found
