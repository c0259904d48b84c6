"""A second process: answers the question that a conversation waits with. `python -m demo.resume URL PREFIX THREAD`."""

import sys

from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from demo.agent import chat_agent
from langgraph.checkpoint.fastredis import RedisSaver

url, prefix, thread_id = sys.argv[1:]
with RedisSaver.from_conn_string(url, prefix=prefix) as saver:
    agent = chat_agent(saver)
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    question = agent.get_state(config).interrupts[0].value
    print(f"  second process: asked {question!r}, answers yes")
    agent.invoke(Command(resume=True), config)
