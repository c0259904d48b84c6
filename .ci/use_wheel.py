"""Uses the installed package, without the extra `embedded` or with it. Run outside the repository."""

import asyncio
import sys
from pathlib import Path

from langgraph.checkpoint.base import empty_checkpoint

from langgraph.checkpoint import fastredis
from langgraph.checkpoint.fastredis import AsyncRedisSaver, RedisSaver

CONFIG = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


async def use_async() -> None:
    """Save and read."""
    async with AsyncRedisSaver.from_conn_string("embedded://") as saver:
        await saver.asetup()
        await saver.aput(CONFIG, empty_checkpoint(), {"step": 1}, {})
        assert (await saver.aget_tuple(CONFIG)).metadata == {"step": 1}


assert Path(fastredis.__file__).is_relative_to(Path(sys.prefix)), fastredis.__file__
if sys.argv[1] == "without":
    try:
        RedisSaver.from_url("embedded://")
    except ImportError as error:
        assert "pip install 'langgraph-checkpoint-fastredis[embedded]'" in str(error)
    else:
        sys.exit("the extra is not needed?")
else:
    with RedisSaver.from_conn_string("embedded://") as saver:
        saver.setup()
        saver.put(CONFIG, empty_checkpoint(), {"step": 1}, {})
        assert saver.get_tuple(CONFIG).metadata == {"step": 1}
    asyncio.run(use_async())
print(f"the wheel works, {sys.argv[1]} the extra `embedded`")
