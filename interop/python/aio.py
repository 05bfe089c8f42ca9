"""The interop client on aiokafka."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

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


if __name__ == "__main__":
    canon.main(*(lambda *args, run=run: asyncio.run(run(*args)) for run in (write, read, group)))
