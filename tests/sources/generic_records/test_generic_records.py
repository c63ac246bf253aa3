from __future__ import annotations

import gzip
import json
import textwrap
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from fixture_folder import fixture_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from sources.vllm_bench.reading import outcome

from trueput.source_api import Problem, ReadOptions
from trueput.sources import generic_records
from trueput.sources.generic_records import SOURCE, files_named

EXAMPLE = tomllib.loads(
    textwrap.dedent(
        "\n".join(
            line
            for line in (generic_records.__doc__ or "").splitlines()
            if line.startswith("    ") or not line
        )
    )
)
GATEWAY = """
[columns]
file = "gateway.csv"
vantage = "router"
[columns.names]
request_id = "id"
arrived_at = "t0"
ended_at_ns = "t1"
ttft = "first"
http_status = "code"
status = "word"
[columns.units]
t0 = "iso"
first = "ms"
[columns.status]
shed = "rejected"
done = "good"
"""
CSV = """\
id,t0,t1,first,code,word
a,2026-01-01T00:00:00.000000001Z,1767225601000000001,12.5,200,done
b,2026-01-01T01:00:00+01:00,,,429,shed
"c,""d",2026-01-01 00:00:02Z,17,-1,x,odd
e,2026-01-01T00:00:03Z,1767225604000000000,0.25,200,timeout,extra
"""


def read(tmp_path: Path, toml: str | dict[str, Any], name: str, data: bytes) -> dict[str, Any]:
    path = tmp_path / name
    path.write_bytes(data)
    described = tomllib.loads(toml) if isinstance(toml, str) else toml
    return outcome(SOURCE, path, ReadOptions(run_toml=described, relative_path=name))


def test_every_word_that_is_not_listed_is_named_with_its_count(tmp_path: Path) -> None:
    words = ["reset", "eof", "reset", "ok", "cut short", "eof", "eof"]
    data = "id,kind\n" + "".join(f"r{k},{word}\n" for k, word in enumerate(words))
    names = {"request_id": "id", "status": "kind"}
    toml = {"columns": {"file": "a.csv", "vantage": "client", "names": names}}
    path = tmp_path / "a.csv"
    path.write_text(data)
    read_in = SOURCE.read(path, ReadOptions(run_toml=toml, relative_path="a.csv"))
    found = [i for i in read_in if isinstance(i, Problem) and i.code == "RECORDS007"]
    assert {(p.text, p.line, p.count) for p in found} == {
        ("`kind` holds a word `reset`", 1, 2),
        ("`kind` holds a word `eof`", 2, 3),
        ("`kind` holds a word that is no short name", 5, 1),
    }


def test_many_words_are_counted_together(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,kind\n" + "".join(f"r{k},w{k}\n" for k in range(100)))
    names = {"request_id": "id", "status": "kind"}
    toml = {"columns": {"file": "a.csv", "vantage": "client", "names": names}}
    read_in = SOURCE.read(path, ReadOptions(run_toml=toml, relative_path="a.csv"))
    found = [i for i in read_in if isinstance(i, Problem) and i.code == "RECORDS007"]
    assert len(found) == 17
    assert sum(p.count for p in found) == 100


def test_csv_case(tmp_path: Path) -> None:
    expected = {
        "clock": "utc",
        "facts": {},
        "problems": ["RECORDS008", "RECORDS005", "RECORDS006", "RECORDS006", "RECORDS007"],
        "requests": [
            {
                "row_ix": 0, "vantage": "router", "traffic": "load", "request_id": "a",
                "arrived_at_ns": 1767225600000000001, "ended_at_ns": 1767225601000000001,
                "ttft_ns": 12500000, "http_status": 200, "status": "ok",
            },
            {
                "row_ix": 1, "vantage": "router", "traffic": "load", "request_id": "b",
                "arrived_at_ns": 1767225600000000000, "http_status": 429, "status": "refused",
            },
            {
                "row_ix": 2, "vantage": "router", "traffic": "load", "request_id": 'c,"d',
                "arrived_at_ns": 1767225602000000000,
            },
        ],
    }  # fmt: skip
    assert expected == read(tmp_path, GATEWAY, "gateway.csv", CSV.encode())
    assert expected == read(tmp_path, GATEWAY, "gateway.csv.gz", gzip.compress(CSV.encode()))
    with_mark = b"\xef\xbb\xbf" + CSV.replace("\n", "\r\n").encode()
    assert expected == read(tmp_path, GATEWAY, "gateway.csv", with_mark)


def test_epoch_seconds_keep_every_digit(tmp_path: Path) -> None:
    line = b'{"n": 1, "kind": "http_503", "t_recv": 1795958107.014763612, "sent": 3}\n'
    found = read(tmp_path, EXAMPLE, "vllm_truth.jsonl", line)
    assert found["requests"] == [
        {
            "row_ix": 0, "vantage": "server", "traffic": "load", "status": "refused",
            "arrived_at_ns": 1795958107014763612, "output_tokens": 3,
            "output_tokens_source": "engine_usage",
        }
    ]  # fmt: skip
    missing = ["RECORDS003"] * 3  # max_tokens, t_end, x_request_id
    assert missing == found["problems"]


def test_a_good_status_beside_an_http_error_is_no_success(tmp_path: Path) -> None:
    toml = GATEWAY.replace("shed =", 'fine = "good"\nshed =')
    rows = "id,t0,t1,first,code,word\na,,,,503,fine\nb,,,,200,fine\nc,,,,302,done\nd,,,,429,shed\n"
    found = read(tmp_path, toml, "gateway.csv", rows.encode())
    assert [row["status"] for row in found["requests"]] == ["http_error", "ok", "ok", "refused"]
    assert [code for code in found["problems"] if code == "RECORDS010"] == ["RECORDS010"]


def test_more_tokens_than_a_request_can_have_are_unknown(tmp_path: Path) -> None:
    rows = [{"n": 1, "kind": "stall_2s_first", "sent": sent} for sent in (2**40, 2**40 + 1)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    found = read(tmp_path, EXAMPLE, "vllm_truth.jsonl", lines.encode())
    assert [row.get("output_tokens") for row in found["requests"]] == [2**40, None]
    assert "RECORDS006" in found["problems"]


TIMES = {
    "file": "a.jsonl", "vantage": "client",
    "names": {"sent_at": "s", "first_token_at": "f", "ended_at": "e"},
    "units": {"s": "s", "f": "s", "e": "s"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("clock", "second", "told"),
    [
        ("utc", "1800000000.5, 1800000000.6, 1800000001.5", []),
        ("utc", "1800000000.5, 1800000000.5, 1800000000.5", []),  # all at once
        ("utc", "1800000000.5, null, 1800000000", []),  # an end that was cut to its second
        ("utc", "1800000000.5, 1800000000.4999, 1800000001", []),  # a rounding
        ("utc", "1800000002, 1800000003.5, 1800000001", ["`e` lies 2.5 s before `f`"]),
        ("utc", "1800000002, 1800000000.5, 1800000003", ["`f` lies 1.5 s before `s`"]),
        ("monotonic", "-1, 1, 2", ["`s` is before the begin of its clock"]),
    ],
)
def test_instants_in_no_possible_order_are_counted_and_the_first_is_named(
    tmp_path: Path, clock: str, second: str, told: list[str]
) -> None:
    """The first of three records is right; the second and the third are alike."""
    cells = [f'"{name}": {cell}' for name, cell in zip("sfe", second.split(", "), strict=True)]
    good = '{"s": 1, "f": 1.5, "e": 2}' if clock == "monotonic" else '{"s": 1800000000}'
    rows = [good, *(["{" + ", ".join(cells) + "}"] * 2)]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(rows))
    options = ReadOptions(run_toml={"columns": {**TIMES, "clock": clock}}, relative_path=path.name)
    items = list(SOURCE.read(path, options))
    found = [i for i in items if isinstance(i, Problem) and i.code == "RECORDS012"]
    assert [(p.text, p.line, p.count) for p in found] == [(text, 2, 2) for text in told]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"colour": "red"}, "RECORDS002"),
        ({"vantage": "moon"}, "RECORDS002"),
        ({"units": {"t_recv": "s"}}, "RECORDS004"),
        ({"units": {"t_recv": "fortnight", "t_end": "s"}}, "RECORDS004"),
        ({"units": {"t_recv": "ms", "t_end": "s"}}, "RECORDS005"),
        ({"clock": "monotonic"}, "RECORDS005"),
        ({"names": {"status": "kind", "prompt": "text"}}, "RECORDS002"),
        ({"names": {}}, "RECORDS001"),
        ({"file": "other.jsonl"}, "RECORDS001"),
        ({"status": {"odd": "splendid"}}, "RECORDS002"),
        ({"traffic": {"column": "nowhere", "probe": ["0"]}}, "RECORDS003"),
        ({"traffic": {"probe": ["0"]}}, "RECORDS002"),
        ({"delimiter": ";;"}, "RECORDS002"),
    ],
)
def test_a_wrong_description_is_said(tmp_path: Path, change: dict[str, Any], code: str) -> None:
    table = {**EXAMPLE["columns"], **change}
    line = b'{"kind": "ok", "t_recv": 1795958107.5, "t_end": 1795958108}\n'
    assert code in read(tmp_path, {"columns": table}, "vllm_truth.jsonl", line)["problems"]


def test_monotonic_clock(tmp_path: Path) -> None:
    table = {
        "file": "a.jsonl", "vantage": "engine", "clock": "monotonic",
        "names": {"arrived_at": "t", "gaps": "g"}, "units": {"t": "s", "g": "us"},
    }  # fmt: skip
    found = read(tmp_path, {"columns": [table]}, "a.jsonl", b'{"t": 12.25, "g": [1.5, 2]}\n[1]\n')
    assert found["clock"] == "monotonic"
    assert found["problems"] == ["RECORDS008"]
    assert found["requests"] == [
        {
            "row_ix": 0, "vantage": "engine", "request_id": "a.jsonl#0", "traffic": "load",
            "arrived_at_ns": 12250000000, "gaps_ns": [1500, 2000],
        }
    ]  # fmt: skip


def test_claims_nothing_by_itself() -> None:
    assert SOURCE.sniff("vllm_truth.jsonl", b'{"n": 0}\n').score == 0
    assert files_named(EXAMPLE) == ("vllm_truth.jsonl",)
    assert files_named({"columns": [{"file": "./a/b.csv"}, {"file": 3}, 4]}) == ("a/b.csv",)
    assert files_named({"columns": "x"}) == files_named({}) == ()


CELL = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
    | st.lists(st.integers(), max_size=2) | st.sampled_from(["1e999", "1_0", "-5", "\ud800"])
)  # fmt: skip


@settings(max_examples=examples(150), deadline=None)
@given(raw=st.binary(max_size=200), cells=st.lists(CELL, min_size=6, max_size=6))
def test_any_bytes_never_raise(tmp_path_factory: Any, raw: bytes, cells: list[Any]) -> None:

    folder = tmp_path_factory.getbasetemp()
    keys = ["x_request_id", "t_recv", "t_end", "sent", "max_tokens", "kind"]
    line = json.dumps(dict(zip(keys, cells, strict=True))).encode()
    read(folder, EXAMPLE, "vllm_truth.jsonl", line + b"\n" + raw + b"\n" + line[:-3])
    rest = ",".join(str(c) for c in cells).encode("utf-8", "surrogatepass")
    read(folder, GATEWAY, "gateway.csv", b"id,t0,t1,first,code,word\n" + rest + b"\n" + raw)


@settings(max_examples=examples(100), deadline=None)
@given(
    table=st.dictionaries(
        st.sampled_from(["file", "vantage", "format", "clock", "names", "units", "status"]),
        st.text(max_size=3) | st.integers() | st.dictionaries(st.text(max_size=3), st.integers()),
    )
)
def test_any_description_never_raises(tmp_path_factory: Any, table: dict[str, Any]) -> None:
    described = {"columns": {**EXAMPLE["columns"], **table}}
    read(tmp_path_factory.getbasetemp(), described, "vllm_truth.jsonl", b'{"kind": "ok"}\n')


def test_recorded_server_truth() -> None:
    path = fixture_folder("clients") / "generated_faults/vllm_0.33.0/vllm_truth.jsonl"
    options = ReadOptions(run_toml=EXAMPLE, relative_path="vllm_truth.jsonl")
    found = outcome(SOURCE, path, options)
    assert found["problems"] == []
    assert Counter((r["traffic"], r["status"]) for r in found["requests"]) == {
        ("load", "ok"): 70,
        ("load", "refused"): 10,
        ("load", "stream_error"): 10,
        ("load", "aborted"): 5,
        ("load", "empty"): 5,
        ("probe", "ok"): 1,
    }
    load = [r for r in found["requests"] if r["traffic"] == "load"]
    assert sorted(int(r["correlation_id"].rsplit("-", 1)[1]) for r in load) == list(range(100))


@pytest.mark.parametrize("vantage", ["client", "engine", "server"])
def test_records_without_an_id(tmp_path: Path, vantage: str) -> None:
    """Ids are missing, NULL or empty; of an engine's records each is named by its place."""
    table = {
        "file": "a.jsonl", "vantage": vantage,
        "names": {"request_id": "id", "correlation_id": "x"},
    }  # fmt: skip
    lines = b'{"id": "a"}\n{"id": null}\n{"id": ""}\n{"id": null, "x": "k"}\n{"x": ""}\n'
    found = read(tmp_path, {"columns": [table]}, "a.jsonl", lines)
    ids = [row.get("request_id") for row in found["requests"]]
    engine = ["a", "a.jsonl#1", "a.jsonl#2", "k", "a.jsonl#4"]
    assert ids == (engine if vantage == "engine" else ["a", None, None, None, None])
    assert found["problems"] == ["RECORDS011"]
