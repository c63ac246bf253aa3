"""kv: how many bytes of KV cache a model takes per token and sequence, and how many fit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trueput.errors import InputError, UsageError
from trueput.kv_cache import Conditions, KvFigures, figures, read_model
from trueput.units import to_bytes

_LARGEST_CONFIG = 16 * 2**20


def kv(
    config: str | Path | Mapping[str, Any],
    *,
    tokens: int | None = None,
    sequences: int | None = None,
    kv_dtype: str = "auto",
    tp: int = 1,
    block_size: int | None = None,
    memory: str | int | None = None,
    weights: str | int | None = None,
    reserve: str | int | None = None,
) -> KvFigures:
    """Return the KV-cache arithmetic of a model's config.json, a path or its contents.

    Sizes (`memory`, `weights`, `reserve`) are bytes or texts such as `80GiB`. With `tp` above 1
    every figure and size is of one rank. A capacity model for stated conditions: `assumptions`
    says which.
    """
    if isinstance(config, Mapping):
        model = read_model(config, "config")
    else:
        path = Path(config)
        model = read_model(_load(path), str(path))
    return figures(
        model,
        Conditions(
            tokens=tokens,
            sequences=sequences,
            kv_dtype=kv_dtype.lower(),
            tp=tp,
            block_size=block_size,
            memory=_size("memory", memory),
            weights=_size("weights", weights),
            reserve=_size("reserve", reserve),
        ),
    )


def _load(path: Path) -> object:
    """Return the JSON of a config; of a folder, that of its config.json."""
    file = path / "config.json" if path.is_dir() else path
    try:
        if file.stat().st_size > _LARGEST_CONFIG:
            raise InputError(f"{file}: too large for a config", "give a model's config.json")
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"{file}: cannot be read ({error.strerror})", "give the path of a model's config.json"
        ) from error
    except (ValueError, RecursionError) as error:
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(
            f"{file}{line}: no JSON ({error})", "give a model's config.json"
        ) from error


def _size(name: str, value: str | int | None) -> int | None:
    if value is None:
        return None
    size = to_bytes(value) if isinstance(value, str) else value
    if size is None or isinstance(size, bool) or size < 0:
        raise UsageError(
            f"--{name}: `{value}` is no size in whole bytes",
            "write bytes or a unit: 80GiB, 512MiB, 80GB, 1073741824",
        )
    return size
