"""The fields of one config, typed and checked; what was taken as given is noted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trueput.errors import InputError

_LARGEST: Final = 10**7
LONGEST: Final = 10**9
"""The most for lengths in tokens: models state contexts of more than ten million."""


class Fields:
    """One config's fields. A wrong type is an InputError that names the field and the file."""

    def __init__(
        self, values: Mapping[str, Any], where: str, defaults: Mapping[str, int] | None = None
    ) -> None:
        self.values = values
        self.where = where
        self.assumptions: list[str] = []
        self._defaults = defaults or {}

    def error(self, text: str, hint: str | None = None) -> InputError:
        """Return an error that names the file."""
        return InputError(f"{self.where}: {text}", hint)

    def given(self, name: str) -> bool:
        """Return whether a field is there and not null."""
        return self.values.get(name) is not None

    def count(self, *names: str, least: int = 1, most: int = _LARGEST) -> int | None:
        """Return the first of these fields that is given, a whole number; None without any."""
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise self.error(f"`{name}` is {_shown(value)}, expected a whole number")
            if not least <= value <= most:
                raise self.error(f"`{name}` is {value}, expected {least} to {most}")
            return value
        for name in names:
            if name in self._defaults:
                self.assume(f"`{name}` is not given: {self._defaults[name]}, the family's default")
                return self._defaults[name]
        return None

    def need(self, *names: str, least: int = 1, most: int = _LARGEST) -> int:
        """Return the first of these fields that is given; an error without any."""
        value = self.count(*names, least=least, most=most)
        if value is None:
            told = " or ".join(f"`{name}`" for name in names)
            raise self.error(
                f"no {told}",
                "give the config.json that lies beside the weights, with all sizes written out",
            )
        return value

    def flag(self, name: str) -> bool | None:
        """Return a field that is true or false, None where it is not given."""
        value = self.values.get(name)
        if value is None or isinstance(value, bool):
            return value
        raise self.error(f"`{name}` is {_shown(value)}, expected true or false")

    def text(self, *names: str) -> str | None:
        """Return the first of these fields that is a text."""
        return next((v for v in map(self.values.get, names) if isinstance(v, str)), None)

    def items(self, name: str, length: int | None = None) -> list[Any] | None:
        """Return a field that is a list, of `length` items where that is known."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.error(f"`{name}` is {_shown(value)}, expected a list")
        if length is not None and len(value) != length:
            raise self.error(f"`{name}` has {len(value)} items, expected one per layer ({length})")
        return value

    def inner(self, name: str) -> Fields | None:
        """Return a nested object."""
        value = self.values.get(name)
        if not isinstance(value, Mapping):
            return None
        return Fields(value, f"{self.where}: `{name}`")

    def assume(self, text: str) -> None:
        """Note what was taken as given."""
        if text not in self.assumptions:
            self.assumptions.append(text)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
