"""Small rocpd databases of both generations, made for the tests."""

from __future__ import annotations

import sqlite3
from pathlib import Path

FIRST = "00000450-565d-765d-bc41-19a2073d19ee"
SECOND = "00000451-565d-765d-bc41-19a2073d19ee"

_COMMON = """
CREATE TABLE string@ (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '#', string TEXT);
CREATE TABLE info_node@ (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '#', hostname TEXT);
CREATE TABLE info_process@ (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '#', nid INTEGER,
  pid INTEGER, init BIGINT, fini BIGINT, command TEXT, environment TEXT);
CREATE TABLE info_thread@ (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '#', tid INTEGER, name TEXT);
CREATE TABLE info_agent@ (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '#', pid INTEGER, type TEXT,
  absolute_index INTEGER, logical_index INTEGER, type_index INTEGER, uuid INTEGER, name TEXT,
  product_name TEXT);
CREATE TABLE info_kernel_symbol@ (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '#',
  kernel_name TEXT, display_name TEXT);
CREATE TABLE event@ (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '#', category_id INTEGER,
  stack_id INTEGER, parent_stack_id INTEGER, correlation_id INTEGER, extdata TEXT DEFAULT '{}');
INSERT INTO string@ (id, string) VALUES (1, 'KERNEL_DISPATCH'), (2, 'HIP_RUNTIME_API'),
  (3, 'MARKER_CORE_RANGE_API'), (4, 'MEMORY_COPY'), (5, 'hipLaunchKernel'), (6, 'hipGraphLaunch'),
  (7, 'roctxThreadRangeA'), (8, 'MEMORY_COPY_HOST_TO_DEVICE'), (9, 'hsa_init'),
  (10, 'HSA_CORE_API');
INSERT INTO info_node@ (id, hostname) VALUES (1, 'SECRET-HOST');
INSERT INTO info_process@ (id, nid, pid, init, fini, command, environment)
  VALUES (1, 1, 500, 50, 9000, 'SECRET-COMMAND', '{"TOKEN": "SECRET"}');
INSERT INTO info_thread@ (id, tid, name) VALUES (1, 501, 'SECRET-THREAD');
INSERT INTO info_agent@ (id, pid, type, absolute_index, logical_index, type_index, uuid, name,
  product_name) VALUES (1, 1, 'CPU', 0, 0, 0, 0, 'cpu', 'A CPU'),
  (2, 1, 'GPU', 3, 1, 0, $UUID, 'gfx942', 'A Model');
INSERT INTO info_kernel_symbol@ (id, kernel_name, display_name)
  VALUES (1, '_Zf.kd', 'f(int)'), (2, 'ncclDevKernel.kd', NULL);
INSERT INTO event@ (id, category_id, stack_id, correlation_id, extdata) VALUES
  (1, 1, 7, 0, '{}'), (2, 1, 8, 0, '{}'), (3, 2, 7, 0, '{}'), (4, 2, 8, 0, '{}'),
  (5, 3, 9, 0, '{"message": "execute_context_1(64)_generation_2(2)", "other": "SECRET"}'),
  (6, 4, 0, 12, '{}'), (7, 10, 13, 0, '{}');
"""

_THIRD = """
CREATE TABLE kernel_dispatch@ (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '#', nid, pid, tid,
  agent_id, kernel_id, dispatch_id, queue_id, stream_id, start BIGINT, "end" BIGINT,
  region_name_id, event_id);
CREATE TABLE region@ (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '#', nid, pid, tid, start BIGINT,
  "end" BIGINT, name_id, event_id);
CREATE TABLE memory_copy@ (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '#', nid, pid, tid,
  start BIGINT, "end" BIGINT, name_id, dst_agent_id, src_agent_id, size, queue_id, stream_id,
  event_id);
INSERT INTO kernel_dispatch@ (pid, tid, agent_id, kernel_id, queue_id, stream_id, start, "end",
  event_id) VALUES (1, 1, 2, 1, 4, 0, 100, 200, 1), (1, 1, 2, 2, 5, 0, 150, 300, 2),
  (1, 1, 2, 99, 5, 0, 400, 400, NULL), (1, 1, 2, 1, 5, 0, 600, 500, NULL);
INSERT INTO region@ (pid, tid, start, "end", name_id, event_id) VALUES (1, 1, 90, 95, 5, 3),
  (1, 1, 96, 99, 6, 4), (1, 1, 80, 120, 7, 5), (1, 1, 10, 20, 9, 7);
INSERT INTO memory_copy@ (pid, tid, start, "end", name_id, dst_agent_id, src_agent_id, size,
  queue_id, stream_id, event_id) VALUES (1, 1, 700, 750, 8, 2, 1, 4096, 6, 0, 6);
"""

_FOURTH = """
CREATE TABLE track@ (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '#', nid, pid, tid, agent_id,
  queue_id, stream_id);
CREATE TABLE timestamp@ (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '#', value BIGINT, track_id);
CREATE TABLE kernel_dispatch@ (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '#', track_id, kernel_id,
  dispatch_id, start_id, end_id, region_name_id, event_id);
CREATE TABLE region@ (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '#', track_id, start_id, end_id,
  name_id, event_id);
CREATE TABLE memory_copy@ (id INTEGER PRIMARY KEY, guid TEXT DEFAULT '#', track_id, start_id,
  end_id, name_id, dst_agent_id, src_agent_id, size, event_id);
INSERT INTO track@ (id, nid, pid, tid, agent_id, queue_id, stream_id) VALUES
  (1, 1, 1, 1, 2, 4, 0), (2, 1, 1, 1, 2, 5, 0), (3, 1, 1, 1, NULL, NULL, NULL),
  (4, 1, 1, 1, 2, 6, 0);
INSERT INTO timestamp@ (id, value) VALUES (1, 100), (2, 200), (3, 150), (4, 300), (5, 400),
  (6, 600), (7, 500), (8, 90), (9, 95), (10, 96), (11, 99), (12, 80), (13, 120), (14, 10),
  (15, 20), (16, 700), (17, 750);
INSERT INTO kernel_dispatch@ (track_id, kernel_id, start_id, end_id, event_id) VALUES
  (1, 1, 1, 2, 1), (2, 2, 3, 4, 2), (2, 99, 5, 5, NULL), (2, 1, 6, 7, NULL);
INSERT INTO region@ (track_id, start_id, end_id, name_id, event_id) VALUES
  (3, 8, 9, 5, 3), (3, 10, 11, 6, 4), (3, 12, 13, 7, 5), (3, 14, 15, 9, 7);
INSERT INTO memory_copy@ (track_id, start_id, end_id, name_id, dst_agent_id, src_agent_id, size,
  event_id) VALUES (4, 16, 17, 8, 2, 1, 4096, 6);
"""

UUID = 0x4FF54632B01714CB


def make_database(
    path: Path,
    version: str,
    guids: tuple[str, ...] = (FIRST,),
    *,
    views: bool = True,
    uuid: int = UUID,
) -> Path:
    """Write a database of schema `version` (3... or 4...), with one set of tables per guid."""
    connection = sqlite3.connect(path)
    for guid in guids:
        suffix = "_" + guid.replace("-", "_")
        script = _COMMON + (_FOURTH if version.startswith("4") else _THIRD)
        for word in ("TABLE ", "INTO "):
            script = script.replace(word, f"{word}rocpd_")
        script = script.replace("@", suffix).replace("#", guid).replace("$UUID", str(uuid))
        connection.executescript(script)
        connection.executescript(
            f"CREATE TABLE rocpd_metadata{suffix} (id INTEGER PRIMARY KEY, tag TEXT, value TEXT);"
            f"INSERT INTO rocpd_metadata{suffix} (tag, value)"
            f" VALUES ('schema_version', '{version}'), ('uuid', '{suffix}');"
        )
    if views:
        _add_views(connection, guids)
    connection.commit()
    connection.close()
    return path


def _add_views(connection: sqlite3.Connection, guids: tuple[str, ...]) -> None:
    suffix = "_" + guids[0].replace("-", "_")
    names = [
        name.removesuffix(suffix)
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if name.endswith(suffix)
    ]
    for name in names:
        members = [f"SELECT * FROM {name}_{guid.replace('-', '_')}" for guid in guids]
        connection.execute(f"CREATE VIEW {name} AS {' UNION ALL '.join(members)}")
