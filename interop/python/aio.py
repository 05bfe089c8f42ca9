"""The interop client on aiokafka."""

import asyncio
import logging
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

import canon


async def write(broker, topic, codec):
    producer = AIOKafkaProducer(
        bootstrap_servers=broker, acks="all", enable_idempotence=True, linger_ms=20, max_batch_size=1000000,
        compression_type=None if codec == "none" else codec)
    async with producer:
        for batch in canon.batches():
            acks = [
                await producer.send(topic, partition=r["partition"], timestamp_ms=r["timestamp"],
                                    key=r["key"], value=r["value"], headers=r["headers"])
                for r in batch
            ]
            canon.print_offsets([(await ack).offset for ack in acks])


async def read(broker, count, topics):
    async with AIOKafkaConsumer(bootstrap_servers=broker, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(t, p) for t in topics for p in range(canon.PARTITIONS)])
        await consumer.seek_to_beginning()
        await take(consumer, count * len(topics))


async def group(broker, count, group_id, topic):
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=broker, group_id=group_id,
                                enable_auto_commit=False, auto_offset_reset="earliest")
    async with consumer:
        await consumer.commit(await take(consumer, count))


async def take(consumer, count):
    """Prints exactly count records and returns the positions behind them."""
    positions = {}
    while count:
        m = await consumer.getone()
        canon.print_record(m.topic, m.partition, m.offset, m.timestamp, m.key, m.value, m.headers)
        positions[TopicPartition(m.topic, m.partition)] = m.offset + 1
        count -= 1
    return positions


class Turns(ConsumerRebalanceListener):
    """Keeps rebalances and the processing of a batch apart."""

    def __init__(self):
        self.lock = asyncio.Lock()
        self.rebalancing = False  # holds the lock then; a rebalance that fails is followed by another

    async def on_partitions_revoked(self, revoked):
        if not self.rebalancing:
            await self.lock.acquire()
            self.rebalancing = True

    async def on_partitions_assigned(self, assigned):
        canon.say("a", *sorted(tp.partition for tp in assigned))
        if self.rebalancing:
            self.rebalancing = False
            self.lock.release()


async def member(broker, group_id, topic):
    logging.basicConfig(format="%(asctime)s %(name)s %(message)s", level=logging.INFO)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker, group_id=group_id, partition_assignment_strategy=(RangePartitionAssignor,),
        enable_auto_commit=False, auto_offset_reset="earliest", session_timeout_ms=canon.MEMBER_SESSION_MS,
        rebalance_timeout_ms=canon.MEMBER_REBALANCE_MS,
        # Who has not polled for that long is not let join again; while a rebalance lasts, nothing is polled here.
        max_poll_interval_ms=300000, heartbeat_interval_ms=canon.MEMBER_HEARTBEAT_MS, fetch_max_wait_ms=canon.MEMBER_FETCH_MS)
    turns = Turns()
    await consumer.start()
    consumer.subscribe([topic], listener=turns)
    end = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    while not end.done():
        async with turns.lock:
            # Without an assignment getmany would wait for one, which waits for the lock.
            batch = await consumer.getmany(timeout_ms=0, max_records=canon.MEMBER_BATCH) if consumer.assignment() else {}
            positions = {}
            for tp, messages in batch.items():
                for m in messages:
                    canon.say("r", m.partition, m.offset, m.value.decode())
                    positions[tp] = m.offset + 1
            if positions:
                await asyncio.sleep(canon.MEMBER_WORK_S)
                await commit(consumer, positions)
        await asyncio.sleep(0 if batch else 0.05)
    await consumer.stop()


async def commit(consumer, positions):
    try:
        await consumer.commit(positions)
    except KafkaError as e:
        canon.say("x", repr(e))
        return
    for tp, offset in positions.items():
        canon.say("c", tp.partition, offset)


if __name__ == "__main__":
    canon.main(*(lambda *args, run=run: asyncio.run(run(*args)) for run in (write, read, group, member)))
