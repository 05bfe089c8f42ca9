"""The interop client on kafka-python."""

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

import canon


def write(broker, topic, codec):
    producer = KafkaProducer(
        bootstrap_servers=broker, acks="all", enable_idempotence=True, linger_ms=20, batch_size=1000000,
        compression_type=None if codec == "none" else codec)
    for batch in canon.batches():
        acks = [
            producer.send(topic, partition=r["partition"], timestamp_ms=r["timestamp"],
                          key=r["key"], value=r["value"], headers=r["headers"])
            for r in batch
        ]
        producer.flush()
        canon.print_offsets([ack.get(timeout=60).offset for ack in acks])
    producer.close()


def read(broker, count, topics):
    consumer = KafkaConsumer(bootstrap_servers=broker, group_id=None, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(t, p) for t in topics for p in range(canon.PARTITIONS)])
    consumer.seek_to_beginning()
    take(consumer, count * len(topics))
    consumer.close()


def group(broker, count, group_id, topic):
    consumer = KafkaConsumer(topic, bootstrap_servers=broker, group_id=group_id,
                             enable_auto_commit=False, auto_offset_reset="earliest")
    consumer.commit(take(consumer, count))
    consumer.close()


def take(consumer, count):
    """Prints exactly count records and returns the positions behind them."""
    positions = {}
    while count:
        m = next(consumer)
        canon.print_record(m.topic, m.partition, m.offset, m.timestamp, m.key, m.value, m.headers)
        positions[TopicPartition(m.topic, m.partition)] = OffsetAndMetadata(m.offset + 1, "", -1)
        count -= 1
    return positions


if __name__ == "__main__":
    canon.main(write, read, group)
