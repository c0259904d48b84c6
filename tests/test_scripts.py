"""The scripts keep to their rules: headers, slots, literals, no globals."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from luaparser import ast as lua
from luaparser import astnodes as nodes
from redis.crc import key_slot

from langgraph.checkpoint.fastredis import TTLConfig, lifetime, reading, scripts
from langgraph.checkpoint.fastredis.scripts import FOLDER, Script
from tests.build import Chain, config_of, delta_chain, listed
from tests.conftest import keys_under
from tests.recording import RecordingSaver
from tests.shapes import AsyncShape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph.checkpoint.fastredis.call import Call
    from tests.servers import Backend

SCRIPTS = {name: one for name, one in vars(scripts).items() if isinstance(one, Script)}
BUILT_IN = {"redis", "KEYS", "ARGV", "string", "table", "math", "unpack", "ipairs", "pairs", "tonumber"}
SLOT = re.compile(r"^(KEYS|ARGV)\[(\d+)(\.\.)?\]  (\w+)?", re.MULTILINE)
BINDING = re.compile(r"^local ([\w, ]+) = (.+)$", re.MULTILINE)


def header(script: Script) -> str:
    """The block comment that a script opens with."""
    found = re.match(r"(?:--!df flags=allow-undeclared-keys\n)?--\[\[\n(.*?)\n\]\]\n", script.source, re.DOTALL)
    assert found, script.name
    return found[1]


def slots(script: Script, kind: str) -> tuple[dict[int, str], bool]:
    """The named slots of KEYS or ARGV that the header declares, and whether it declares a tail of more."""
    found = [one for one in SLOT.findall(header(script)) if one[0] == kind]
    return {int(number): name for _, number, tail, name in found if not tail}, any(one[2] for one in found)


def bound(script: Script, kind: str) -> dict[int, str]:
    """The slots that the body binds to names, in one line or two."""
    names: dict[int, str] = {}
    for line in BINDING.finditer(script.source):
        sources = [one.strip() for one in line[2].split(", ")]
        for name, source in zip(line[1].split(", "), sources, strict=False):
            if slot := re.match(rf"(?:tonumber\()?{kind}\[(\d+)\]", source):
                names[int(slot[1])] = name
    return names


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=list(SCRIPTS))
@pytest.mark.parametrize("kind", ["KEYS", "ARGV"])
def test_a_header_names_the_slots_that_the_body_binds(script: Script, kind: str) -> None:
    """In order, without gaps, under the same names."""
    declared, _ = slots(script, kind)
    assert list(declared) == list(range(1, len(declared) + 1))
    assert bound(script, kind) == declared
    used = {int(number) for number in re.findall(rf"{kind}\[(\d+)\]", script.source.replace(header(script), ""))}
    assert used == set(declared)


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=list(SCRIPTS))
def test_a_header_says_what_the_script_does_and_replies(script: Script) -> None:
    """A first sentence, and every shape of the reply."""
    assert re.match(r"[A-Z][^\n]+", header(script))
    assert re.search(r"^(Reply|Replies): ", header(script), re.MULTILINE)
    for status in re.findall(r"return \{ (?:left, )?'(\w+)'", script.source):
        assert f"'{status}'" in header(script)


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=list(SCRIPTS))
def test_commands_are_literals_of_core_redis(script: Script) -> None:
    """So that what a script may do can be read off it; nothing is decoded, nothing loaded."""
    assert len(re.findall(r"redis\.\w+", script.source)) == len(re.findall(r"redis\.call\('[A-Z]+'", script.source))
    assert not re.search(r"\b(cjson|cmsgpack|struct|bit|pcall|loadstring)\b", script.source)


def declared(node: nodes.Node) -> list[Any]:
    """What a node makes a local name."""
    match node:
        case nodes.LocalAssign() | nodes.Forin():
            return list(node.targets)
        case nodes.LocalFunction():
            return [node.name, *node.args]
        case nodes.AnonymousFunction():
            return list(node.args)
        case nodes.Fornum():
            return [node.target]
    return []


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=list(SCRIPTS))
def test_no_global_is_used(script: Script) -> None:
    """Found statically: a misspelt name would be nil only when its branch runs."""
    tree = list(lua.walk(lua.parse(script.source)))
    local = {one.id for node in tree for one in declared(node) if isinstance(one, nodes.Name)}
    members = {id(node.idx) for node in tree if isinstance(node, nodes.Index) and node.notation is nodes.IndexNotation.DOT}
    named = {id(field.key) for node in tree if isinstance(node, nodes.Table) for field in node.fields}
    names = {node.id for node in tree if isinstance(node, nodes.Name) and id(node) not in members | named}
    assert names - local - BUILT_IN == set()


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=list(SCRIPTS))
def test_what_writes_is_known(script: Script, real_backend: Backend) -> None:
    """By the server's own flags of the commands that a script calls: what does not may run on a replica."""
    commands = set(re.findall(r"redis\.call\('([A-Z]+)'", script.source))
    with real_backend.client() as client:
        flags = client.execute_command("COMMAND", "INFO", *commands)
    assert script.writes is any("write" in flag for one in flags.values() for flag in one["flags"])


def test_every_script_and_every_shared_piece_is_used() -> None:
    """And each is short enough to hold in the head."""
    assert {path.stem for path in FOLDER.glob("*.lua")} == {one.name for one in SCRIPTS.values()}
    included = {
        name for path in FOLDER.glob("*.lua") for name in re.findall(r"^--@include (\w+)$", path.read_text(), re.MULTILINE)
    }
    assert {path.stem for path in (FOLDER / "shared").glob("*.lua")} == included
    for path in FOLDER.rglob("*.lua"):
        lines = path.read_text().splitlines()
        assert len(lines) <= 120, path
        assert max(map(len, lines)) <= 128, path


@pytest.fixture
def recorded(real_backend: Backend, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordingSaver]:
    """A saver that keeps what it sends, with pages so small that every script is needed."""
    monkeypatch.setattr(lifetime, "PAGE", 3)
    monkeypatch.setattr(reading, "NAMESPACES_PAGE", 1)
    with real_backend.client() as client:
        yield RecordingSaver(client, prefix=prefix, ttl=TTLConfig(default_ttl=1, refresh_on_read=True))
        assert keys_under(client, prefix) == []


async def test_callers_send_what_the_headers_declare(recorded: RecordingSaver) -> None:
    """Each script is called; as many keys as declared, all in one slot; as many arguments, more only where there is a tail."""
    await use_everything(recorded)
    calls = recorded.calls()
    # The mark is no call of its own: it travels behind one (tests/test_waiting.py).
    assert {call.script.name for call in calls} == {one.name for one in SCRIPTS.values()} - {"mark"}
    for call in calls:
        check(call)


def check(call: Call) -> None:
    """One call against its script's header."""
    declared_keys, _ = slots(call.script, "KEYS")
    declared, has_tail = slots(call.script, "ARGV")
    assert len(call.keys) == len(declared_keys), call.script.name
    assert len(call.arguments) >= len(declared) if has_tail else len(call.arguments) == len(declared), call.script.name
    assert len({key_slot(key) for key in call.keys}) == 1


async def use_everything(recorded: RecordingSaver) -> None:
    """Each operation, on threads of several pages."""
    saver: Any = AsyncShape(recorded)
    recorded.setup()
    chain = await delta_chain(saver, 6, thread_id="{t}", seed_at=1)
    await Chain(saver, "{t}", "child:1").put({"a": [1] * 20}, run_id="run")
    recorded.expire_thread("{t}", timedelta(minutes=2))
    await listed(saver, None)
    await listed(saver, config_of("{t}"), filter={"step": 1})
    await listed(saver, config_of("{t}", None), filter={"step": 1})
    recorded.get_delta_channel_history(config=chain.config, channels=["items"])
    recorded.copy_thread("{t}", "copy")
    recorded.prune(["{t}"])
    recorded.delete_for_runs(["run"])
    for thread in list(recorded.list_threads()):
        recorded.delete_thread(thread.thread_id)
