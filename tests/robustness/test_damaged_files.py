"""Damaged recorded files through the whole ingest: problems are counted, nothing crashes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from cases.recorded import fixtures_root
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ingest.made import rows_of
from robustness.damaged import DAMAGES, Damage, kinds, name_for, opened

from trueput.errors import InputError
from trueput.ingest.store import Store
from trueput.verbs.ingest import ingest

EXAMPLES = examples(80)
QUICK_BYTES = 20_000


@pytest.fixture(scope="module")
def heads() -> dict[str, tuple[Path, bytes]]:
    """The beginning of one file of every kind."""
    return {k: (p, opened(p)[:QUICK_BYTES]) for k, p in kinds(fixtures_root()).items()}


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(choice=st.integers(0, 1 << 30), damage=st.sampled_from(DAMAGES))
def test_a_damaged_file_is_a_run_with_problems_or_no_run(
    tmp_path_factory: pytest.TempPathFactory,
    heads: dict[str, tuple[Path, bytes]],
    choice: int,
    damage: Damage,
) -> None:
    rnd = random.Random(choice)
    path, data = heads[rnd.choice(sorted(heads))]
    _, other = heads[rnd.choice(sorted(heads))]
    folder = tmp_path_factory.mktemp("damaged")
    file = folder / name_for(path, damage, rnd)
    file.write_bytes(damage(data, other, rnd))
    store = folder / "store"
    try:
        (done,) = ingest([file], run="damaged", store=store)
    except InputError:
        assert not Store(store).manifests()
        return
    codes = rows_of(store, "damaged", "problems")
    failed = [] if not codes.num_rows else codes.column("code").to_pylist()
    assert "INGEST001" not in failed, "a reader failed"
    assert done.problems >= 0
