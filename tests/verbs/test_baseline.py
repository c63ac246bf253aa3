"""Baselines: what is kept, what `@NAME` and `@last:K` mean, and that only these verbs change it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cases.nights import SERIES, night
from cli.program import Program
from effort import examples
from gate.bench_runs import bench, write
from hypothesis import given, settings
from hypothesis import strategies as st

import trueput
from trueput.errors import InputError, StoreError, UsageError
from trueput.ingest.store import Store
from trueput.verbs import baseline, baseline_file
from trueput.verbs.base_side import base_side
from trueput.verbs.baseline_file import FILE, Baselines, Member
from trueput.verbs.config_key import run_keys
from trueput.verbs.opening import Configuration, Reading

AT = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six nights and a run of another configuration, ingested into `store`."""
    root = tmp_path_factory.mktemp("nights")
    for number in range(1, 7):
        night(root, number)
    write(root / "other", bench([0.3] * 20, every_s=0.5), '[slo]\nttft = "1s"\n')
    trueput.ingest([root], store=root / "store")
    return root


@pytest.fixture
def how(nights: Path) -> Reading:
    """A reading of that store, with no baseline yet."""
    (nights / "store" / FILE).unlink(missing_ok=True)
    return Reading(store=nights / "store")


def side(*runs: str) -> list[Configuration]:
    return [Configuration(",".join(runs), runs)]


@pytest.mark.long
def test_a_named_baseline(how: Reading) -> None:
    entries = baseline.set_("v1.0", ["night01,night02", "night03"], how, AT)
    assert [(e.baseline, e.run, e.state, e.key, e.at) for e in entries] == [
        ("@v1.0", f"night0{n}", "current", "nightly", "2026-11-29T03:00:00Z") for n in (1, 2, 3)
    ]
    found = base_side("@v1.0", side("night04"), how)
    assert found == Configuration("@v1.0", ("night01", "night02", "night03"))
    result = trueput.gate("@v1.0", ["night04"], reading=how)
    assert result.baseline_config == "@v1.0"
    assert result.baseline_runs == ("night01", "night02", "night03")
    baseline.set_("v1.0", ["night05"], how, AT)
    assert base_side("@v1.0", side("night04"), how).runs == ("night05",)


@pytest.mark.long
def test_last_takes_the_newest_accepted_of_the_same_configuration(how: Reading) -> None:
    for run in ("night03", "night01", "night02"):
        baseline.accept(run, how, AT)
    assert base_side("@last:2", side("night04"), how).runs == ("night01", "night02")
    assert base_side("@last:9", side("night04"), how).runs == ("night03", "night01", "night02")
    with pytest.raises(InputError, match="no accepted run of configuration config-"):
        base_side("@last:2", side("other"), how)
    baseline.accept("other", how, AT)
    with pytest.raises(InputError, match="configuration are the candidate's own"):
        base_side("@last:2", side("other"), how)


def test_the_candidate_is_never_its_own_baseline(how: Reading) -> None:
    baseline.accept("night01", how, AT)
    baseline.accept("night02", how, AT)
    assert base_side("@last:5", side("night02"), how).runs == ("night01",)
    baseline.set_("both", ["night01", "night02"], how, AT)
    with pytest.raises(InputError, match="part of the baseline"):
        base_side("@both", side("night02"), how)


def test_accepting_twice_keeps_the_place(how: Reading) -> None:
    for run in ("night01", "night02", "night01"):
        baseline.accept(run, how, AT)
    assert [e.run for e in baseline.list_(how)] == ["night01", "night02"]


@pytest.mark.long
def test_a_gate_changes_no_baseline(how: Reading, nights: Path) -> None:
    baseline.accept("night01", how, AT)
    baseline.set_("v1", ["night02"], how, AT)
    before = (nights / "store" / FILE).read_bytes()
    for base in ("@last:1", "@v1"):
        trueput.gate(base, ["night03"], reading=how)
        trueput.compare(base, ["night03"], how)
    assert (nights / "store" / FILE).read_bytes() == before


@pytest.mark.long
def test_tonight_in_the_folder_of_an_accepted_night_is_another_run(tmp_path: Path) -> None:
    """A job that writes every night to one folder must not write over what it is compared with."""
    said: list[str] = []
    how = Reading(store=tmp_path / "store", note=said.append)
    folder = tmp_path / "tonight"
    write(folder, bench([0.3] * 20), SERIES)
    baseline.accept(str(folder), how, AT)
    write(folder, bench([2.0] * 20), SERIES)
    result = trueput.gate("@last:3", [str(folder)], reading=how)
    assert result.baseline_runs == ("tonight",)
    (candidate,) = result.candidates[0].runs
    assert candidate.startswith("tonight~")
    assert any("is kept as" in text for text in said)
    drop = next(f for f in result.candidates[0].findings if f.metric == "slo_attainment_ratio")
    assert (drop.baseline, drop.candidate) == (1.0, 0.0)
    with pytest.raises(UsageError, match="kept by accepted runs"):
        trueput.ingest([folder], store=tmp_path / "store")
    assert trueput.ingest([folder], store=tmp_path / "store", replace=True)
    assert [e.state for e in baseline.list_(how)] == ["replaced"]


def test_a_replaced_or_missing_run_is_no_baseline(tmp_path: Path) -> None:
    how = Reading(store=tmp_path / "store")
    path = night(tmp_path, 1)
    baseline.set_("v1", [str(path)], how, AT)
    night(tmp_path, 1, late=5)
    trueput.ingest([path], store=tmp_path / "store", replace=True)
    with pytest.raises(InputError, match="`night01` is replaced in the store"):
        base_side("@v1", side("x"), how)
    manifest = tmp_path / "store" / "_runs" / "night01.json"
    manifest.unlink()
    assert baseline.list_(how)[0].state == "missing"


@pytest.mark.parametrize(
    ("argument", "message", "hint"),
    [
        ("@v2", "no baseline `@v2`", "did you mean `@v1`"),
        ("@last", "does not say how many", "@last:5"),
        ("@last:0", "does not say how many", "@last:5"),
        ("@last:many", "does not say how many", "@last:5"),
    ],
)
def test_a_baseline_that_is_not_there(how: Reading, argument: str, message: str, hint: str) -> None:
    baseline.set_("v1", ["night01"], how, AT)
    with pytest.raises((InputError, UsageError)) as caught:
        base_side(argument, side("night04"), how)
    assert message in caught.value.message
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize("name", ["last", "", "a b", "@x", "-x", "x/y", "ä", "x" * 101, "a\n"])
def test_a_name_that_cannot_be(how: Reading, name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a baseline"):
        baseline.set_(name, ["night01"], how)


def test_candidates_of_two_configurations_have_no_common_last(how: Reading) -> None:
    baseline.accept("night01", how)
    with pytest.raises(InputError, match="2 configurations"):
        base_side("@last:1", [*side("night02"), *side("other")], how)


@pytest.mark.parametrize(
    ("run_toml", "message"),
    [("profiled = true\n", "a profiler was on"), (None, "too little, of it could be read")],
)
def test_what_cannot_be_a_baseline(tmp_path: Path, run_toml: str | None, message: str) -> None:
    how = Reading(store=tmp_path / "store")
    if run_toml is None:
        folder = tmp_path / "broken"
        folder.mkdir()
        whole = json.dumps(bench([0.3] * 20))
        (folder / "bench.json").write_text(whole[: len(whole) // 3])
    else:
        folder = write(tmp_path / "run", bench([0.3] * 20), run_toml)
    for act in (lambda: baseline.accept(str(folder), how),
                lambda: baseline.set_("v", [str(folder)], how)):  # fmt: skip
        with pytest.raises(InputError, match=message):
            act()
    assert baseline.list_(how) == ()


def test_removing(how: Reading) -> None:
    baseline.set_("v1", ["night01"], how)
    baseline.accept("night02", how)
    assert baseline.remove("@v1", how) == ("v1",)
    assert [e.run for e in baseline.list_(how)] == ["night02"]
    assert baseline.remove("night02", how) == ("night02",)
    with pytest.raises(InputError, match="neither a baseline"):
        baseline.remove("night02", how)


def test_two_writers_at_once_lose_nothing(how: Reading, nights: Path) -> None:
    store = Store(nights / "store")

    def add(number: int) -> None:
        member = Member(f"run{number}", "hash", "key", "then")
        baseline_file.change(store, lambda held: Baselines(held.named, (*held.accepted, member)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(24)))
    kept = [m.run for m in baseline_file.read(store).accepted]
    assert sorted(kept) == sorted(f"run{n}" for n in range(24))
    assert list((nights / "store").glob("*.tmp")) == []


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
MEMBERS = st.builds(Member, WORDS, WORDS, WORDS, WORDS)


@settings(deadline=None, max_examples=examples(60))
@given(
    st.dictionaries(WORDS, st.lists(MEMBERS, min_size=1, max_size=3).map(tuple), max_size=3),
    st.lists(MEMBERS, max_size=3).map(tuple),
)
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    named: dict[str, tuple[Member, ...]],
    accepted: tuple[Member, ...],
) -> None:
    store = Store(tmp_path_factory.mktemp("file"))
    baseline_file.change(store, lambda _: Baselines(named, accepted))
    assert baseline_file.read(store) == Baselines(named, accepted)


@pytest.mark.parametrize(
    "text",
    ["version = 2", "", "version = 1\naccepted = 3", "version = 1\n[[accepted]]\nrun = 'x'",
     "version = 1\n[[named]]\nrun = 'x'", "not toml ="],
)  # fmt: skip
def test_a_broken_file_is_an_error_not_an_empty_one(how: Reading, nights: Path, text: str) -> None:
    (nights / "store" / FILE).write_text(text)
    with pytest.raises(StoreError, match=FILE):
        baseline.list_(how)


@pytest.mark.parametrize(
    "text", ["", "# Written by", "versi", 'version = 1\n[[accepted]]\nrun = "n']
)
def test_a_cut_file_is_called_damaged(how: Reading, nights: Path, text: str) -> None:
    (nights / "store" / FILE).write_text(text)
    with pytest.raises(StoreError, match="is damaged"):
        baseline.list_(how)


def test_the_key_is_the_configuration_not_the_engine_version(tmp_path: Path) -> None:
    """Version and derived settings may differ; what a user sets, and the load, may not."""
    tomls = {
        "a": 'engine_version = "0.32.0"\n[config]\nmax_num_seqs = 4\nkv_tokens = 2560\n',
        "b": 'engine_version = "0.33.0"\n[config]\nmax_num_seqs = 4\nkv_tokens = 2600\n',
        "c": 'engine_version = "0.32.0"\n[config]\nmax_num_seqs = 8\nkv_tokens = 2560\n',
        "d": 'hardware = "H200"\n[config]\nmax_num_seqs = 4\n',
        "named": '[config]\nmax_num_seqs = 9\n[labels]\nseries = "mine"\n',
    }
    for name, toml in tomls.items():
        write(tmp_path / "runs" / name, bench([0.3] * 5, label=name), toml)
    write(tmp_path / "runs" / "faster", bench([0.3] * 5, every_s=0.5), tomls["a"])
    how = Reading(store=tmp_path / "store")
    trueput.ingest([tmp_path / "runs"], store=how.store)
    keys = {run: key.key for run, key in run_keys(None, how).items()}
    assert keys["a"] == keys["b"]
    assert len({keys["a"], keys["c"], keys["d"], keys["faster"]}) == 4
    assert keys["named"] == "mine"


def test_the_command_line(nights: Path, how: Reading) -> None:
    program = Program(nights / "store", 120)
    done = program("baseline", "set", "v1", "night01", "night02", "--format", "csv")
    assert [line.split(",")[:3] for line in done.stdout.splitlines()[1:]] == [
        ["'@v1", "night01", "current"], ["'@v1", "night02", "current"],
    ]  # fmt: skip
    assert program("baseline", "accept", "night03").code == 0
    assert "night03" in program("baseline", "list").stdout
    page = program("gate", "@last:1", "night04").stdout
    assert "against @last:1" in page
    assert program("baseline", "remove", "@v1").code == 0
    assert program("gate", "@v1", "night04").code == 2
