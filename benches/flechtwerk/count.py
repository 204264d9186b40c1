"""Counts the records of each key with Flechtwerk, exactly once, until SIGTERM. Arguments: BROKERS INPUT OUTPUT APPLICATION."""

import asyncio
import sys

from flechtwerk import Event, Flechtwerk, Message, State, transformer
from flechtwerk.attribute import INT, STR, Attribute

brokers, topic, output, application = sys.argv[1:]
K, N, I = Attribute("k", STR), Attribute("n", INT), Attribute("i", INT)


@transformer(input_topics=[topic])
async def count(record, state):
    n = (state.get(N) or 0) + 1
    yield Message(topic=output, key=record.key, value=Event({K: record.key, N: n, I: record.value[I]}))
    yield State({N: n})


async def main():
    stage = Flechtwerk.of(
        application_id=application,
        bootstrap_servers=brokers,
        client_id=f"{application}-0",
        stage=count,
        compression_type=None,
    )
    await stage.run()


asyncio.run(main())
