"""Several servers in one suite: each scenario on each, and a table that says where they differ."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from lab.batch.plan import Selection
from lab.batch.result import Result
from lab.batch.row import Row
from lab.batch.servers_plan import keep_servers, on_servers, servers_table
from lab.errors import ExitCode, LabError
from lab.report.servers import (
    BEGIN,
    END,
    NOT_APPLICABLE,
    ServersTable,
    merged,
    read_servers,
    servers_kept,
    with_servers,
)
from lab.scenario.files import ordinary_names

ROOT = Path(__file__).resolve().parents[3]
GALLERY = ROOT / "reports" / "gallery"
NAMES = ("redis@6.2", "redis@8.2", "redict@7.3")
LEAST = {"redis@6.2", "redis@7.0", "redis@7.4", "redis@8.2", "valkey@8.1", "valkey@9.1"}


def selected(on: str = "sim") -> Selection:
    return Selection(("replica-clock-ahead",), on=on)


def result(violated: dict[tuple[str, str], bool], *, wrong: tuple[str, str] = ("", "")) -> Result:
    """What came out, by server and substrate, whether they are here or not; controls come out clean."""
    ons = dict.fromkeys(on for _, on in violated)
    servers = tuple(dict.fromkeys(server for server, _ in violated))
    plan = on_servers(
        selected(",".join(dict.fromkeys(("sim", *ons)))).plan(), servers
    )  # there are all of them
    plan = replace(plan, items=tuple(replace(item, why_not="") for item in plan.items if item.on in ons))
    rows = []
    for item in plan.items:
        server = item.label
        hit = violated.get((server, item.on), False) and not item.control_of
        code = (
            ExitCode.UNEXPECTED if (server, item.on) == wrong and not item.control_of else ExitCode.EXPECTED
        )
        if not item.why_not:
            outcomes = {"mutual_exclusion": "violated" if hit else "ok"}
            rows.append(
                Row(
                    item=item.id,
                    seed=1,
                    exit_code=code,
                    wall_s=1.0,
                    outcomes=outcomes,
                    versions={"server": f"{server}.9"},
                    reasons=("saw something else",) if code else (),
                    directory="somewhere",
                )
            )
    return Result.of(plan, rows)


def test_each_scenario_runs_on_each_server_and_substrate() -> None:
    plan = on_servers(selected("sim,virtual").plan(), ("redis@6.2", "redis@8.2"))
    assert len(plan.items) == 2 * 2 * 2, "with its control"
    assert len({item.id for item in plan.items}) == len(plan.items)
    assert {item.settings[-1] for item in plan.items} == {
        "cluster.server=redis@6.2",
        "cluster.server=redis@8.2",
    }
    assert plan.servers == ("redis@6.2", "redis@8.2")


def test_where_a_substrate_has_no_such_server_its_items_say_why() -> None:
    plan = on_servers(selected().plan(), ("redis@8.2", "redis@6.2"))
    assert not any(item.why_not for item in plan.items)
    with pytest.raises(LabError, match=r"can't be simulated as 'redict@7\.3'"):
        on_servers(selected().plan(), ("redis@8.2", "redict@7.3"))


def test_the_table_shows_where_servers_differ_and_substrates_agree() -> None:
    both = {(server, on): server != "redis@6.2" for server in NAMES[:2] for on in ("sim", "local")}
    table = servers_table(result(both))
    assert list(table.rows()) == [("replica-clock-ahead", "ok / ok", "M / ok")]
    assert table.differing == ["replica-clock-ahead"]
    assert table.disagreements == []
    assert table.servers["redis@6.2"]["sim"] == "Redis 6.2.9"
    assert "4 scenarios" not in table.counts
    assert table.counts.startswith("2 scenarios and controls, 2 servers: 8 runs, 8 as expected")


def test_substrates_that_differ_are_named_and_so_is_what_is_not_as_expected() -> None:
    hit = {(server, on): True for server in NAMES[:2] for on in ("sim", "local")}
    hit["redis@8.2", "local"] = False
    found = result(hit, wrong=("redis@8.2", "local"))
    assert found.exit_code == ExitCode.UNEXPECTED
    table = servers_table(found)
    assert table.disagreements == ["replica-clock-ahead, redis@8.2: sim M, local ok ✗"]
    assert table.reasons["saw something else"] == ["replica-clock-ahead (redis@8.2, local)"]
    assert "sim M, local ok ✗" in table.markdown()


def test_what_is_kept_is_read_again_and_parts_are_one_table(tmp_path: Path) -> None:
    whole = servers_table(result({(server, on): True for server in NAMES[:2] for on in ("sim", "local")}))
    for on in ("sim", "local"):
        keep_servers(result({(server, on): True for server in NAMES[:2]}), tmp_path / f"servers-{on}")
    parts = servers_kept(tmp_path)
    assert parts is not None
    assert list(parts.rows()) == list(whole.rows())
    assert parts.servers == whole.servers
    assert merged([whole]) == whole
    text = f"before\n{BEGIN}\n{END}\nafter"
    assert "replica-clock-ahead" in with_servers(text, tmp_path)
    assert with_servers(with_servers(text, tmp_path), tmp_path) == with_servers(text, tmp_path)
    (tmp_path / "servers-sim" / "servers.json").write_text("{}")
    with pytest.raises(LabError, match="cannot be read"):
        servers_kept(tmp_path)
    with pytest.raises(LabError, match="cannot be read"):
        read_servers(tmp_path)


@pytest.fixture(scope="module")
def kept() -> ServersTable:
    table = servers_kept(GALLERY)
    assert table is not None
    return table


def test_the_kept_table_has_every_scenario_on_the_servers_that_people_have(kept: ServersTable) -> None:
    assert set(kept.servers) >= LEAST
    for scenario in ordinary_names():
        missing = LEAST - set(kept.cells.get(scenario, {}))
        assert not missing, (scenario, missing)


def test_in_the_kept_table_simulation_and_real_servers_agree_on_each_version(kept: ServersTable) -> None:
    assert kept.disagreements == []
    unexpected = [text for row in kept.cells.values() for found in row.values() for text in found.values()]
    assert not [text for text in unexpected if text != NOT_APPLICABLE and text.endswith("✗")]


def test_the_page_shows_the_kept_table(kept: ServersTable) -> None:
    page = (ROOT / "docs" / "servers.md").read_text(encoding="utf-8")
    assert with_servers(page, GALLERY) == page, "python -m lab.report.docs writes it"
    assert kept.counts in page


def test_a_changed_cell_is_noticed(kept: ServersTable) -> None:
    scenario = next(iter(kept.cells))
    server, found = next(iter(kept.cells[scenario].items()))
    cells = {**kept.cells, scenario: {**kept.cells[scenario], server: {**found, "local": "MF"}}}
    changed = replace(kept, cells=cells)
    assert changed.markdown() != kept.markdown()
