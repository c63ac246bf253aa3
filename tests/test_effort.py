"""What the short suite leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import effort
import pytest


class Item:
    """A collected test: its id, and what its mark `long` says."""

    def __init__(self, nodeid: str, kwargs: Mapping[str, Any] | None = None) -> None:
        self.nodeid = nodeid
        self._mark = None if kwargs is None else pytest.mark.long(**kwargs).mark

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self._mark if name == "long" else None


def kept(*items: Item) -> list[str]:
    found, left = effort.short(cast("list[pytest.Item]", list(items)))
    assert sorted([*found, *left], key=id) == sorted(items, key=id)
    return [item.nodeid for item in found]


def test_what_has_no_mark_is_kept() -> None:
    assert kept(Item("a::one"), Item("a::two[x]")) == ["a::one", "a::two[x]"]


def test_what_is_long_is_left_out() -> None:
    assert kept(Item("a::one", {}), Item("a::two")) == ["a::two"]


def test_the_first_cases_of_each_function_stay() -> None:
    cases = [Item(f"{f}[{n}]", {"besides": 2}) for f in ("a::one", "b::one") for n in "xyz"]
    assert kept(*cases) == ["a::one[x]", "a::one[y]", "b::one[x]", "b::one[y]"]


def test_fewer_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "IS_LONG", False)
    assert [effort.examples(n) for n in (60, 3)] == [20, 2]
    monkeypatch.setattr(effort, "IS_LONG", True)
    assert [effort.examples(n) for n in (60, 3)] == [60, 3]
