"""What the README says is so: its code runs, its user has enough rights and none too many, its links lead somewhere."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import redis

from langgraph.checkpoint.fastredis import AsyncRedisSaver, RedisSaver, Wait
from langgraph.checkpoint.fastredis.scripts import FOLDER
from tests.build import delta_chain, listed
from tests.clusters import Cluster
from tests.rights import PASSWORD, README, ROOT, create_user, granted
from tests.servers import REAL, backend, binary
from tests.shapes import AsyncShape
from tests.test_scripts import use_everything

if TYPE_CHECKING:
    from tests.recording import RecordingSaver

CLIENT_COMMANDS = {"evalsha", "eval", "scan", "ping", "hello", "auth", "select", "client|setinfo"}


def test_the_code_blocks_run() -> None:
    """One after the other, as a reader would type them."""
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) >= 4
    namespace: dict[str, Any] = {"__name__": "readme"}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)  # noqa: S102


def test_the_rights_are_exactly_what_the_scripts_and_the_client_use() -> None:
    """None too many, none forgotten."""
    source = "".join(path.read_text() for path in FOLDER.rglob("*.lua"))
    used = {command.lower() for command in re.findall(r"redis\.call\('([A-Z]+)'", source)}
    assert {rule[1:] for rule in granted() if rule.startswith("+")} == used | CLIENT_COMMANDS


@pytest.mark.parametrize("name", REAL)
async def test_a_user_with_those_rights_can_do_everything(name: str) -> None:
    """Every operation, under the pattern of keys that the README names."""
    server = backend(name)
    with server.client() as admin:
        create_user(admin, "my-app", "readme:*")
        with server.client(username="my-app", password=PASSWORD) as client:
            with pytest.raises(redis.exceptions.ResponseError, match=r"(?i)permission"):
                client.set("readme:key", 1)
            saver: RecordingSaver | Any = RedisSaver(client, prefix="readme")
            await use_everything(saver)
            assert AsyncShape(saver).list_threads
            assert list(saver.list_threads()) == []
        admin.execute_command("ACL", "DELUSER", "my-app")


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_in_a_cluster_that_user_needs_what_is_said_there(kind: str) -> None:
    """And no more, with `wait=` too, and to read from replicas."""
    more = [rule for rules in re.findall(r"`(\+[^`]+)`", README) for rule in rules.split()]
    with Cluster(binary("valkey-9"), primaries=2, replicas=2) as cluster:
        for node in cluster.nodes:
            node.client.execute_command("ACL", "SETUSER", "my-app", *granted(), *more)
        url = cluster.url.replace("://", f"://my-app:{PASSWORD}@")
        wait = Wait(replicas=1, timeout=timedelta(seconds=5))
        if kind == "sync":
            with (
                RedisSaver.from_conn_string(url, wait=wait) as saver,
                RedisSaver.from_conn_string(url, read_only=True) as reader,
            ):
                await _use(AsyncShape(saver), AsyncShape(reader))
        else:
            async with (
                AsyncRedisSaver.from_conn_string(url, wait=wait) as asaver,
                AsyncRedisSaver.from_conn_string(url, read_only=True) as areader,
            ):
                await _use(asaver, areader)


async def _use(saver: Any, reader: Any) -> None:
    await saver.asetup()
    await reader.asetup()
    for at in range(8):
        chain = await delta_chain(saver, 3, thread_id=f"{at}")
        assert await reader.aget_tuple(chain.config) is not None
    assert len(await listed(reader, None)) == 24
    for at in range(8):
        await saver.adelete_thread(f"{at}")


def test_links_to_files_lead_somewhere() -> None:
    """Those within the repository."""
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_readme_is_a_front_page() -> None:
    """Of less than 300 lines."""
    assert len(README.splitlines()) < 300
