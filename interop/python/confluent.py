"""The interop client on confluent-kafka (librdkafka)."""

import sys
import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

import canon


def write(broker, topic, codec):
    producer = Producer({
        "bootstrap.servers": broker, "acks": "all", "enable.idempotence": True,
        "compression.type": codec, "linger.ms": 20, "message.timeout.ms": 60000,
    })
    for batch in canon.batches():
        offsets = [None] * len(batch)

        def delivered(i):
            def report(err, message):
                if err:
                    raise KafkaException(err)
                offsets[i] = message.offset()
            return report

        for i, r in enumerate(batch):
            producer.produce(topic, partition=r["partition"], key=r["key"], value=r["value"],
                             timestamp=r["timestamp"], headers=r["headers"], on_delivery=delivered(i))
        producer.flush()
        canon.print_offsets(offsets)


def read(broker, count, topics):
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(t, p, 0) for t in topics for p in range(canon.PARTITIONS)])
    take(consumer, count * len(topics))
    consumer.close()


def group(broker, count, group_id, topic):
    consumer = Consumer({
        "bootstrap.servers": broker, "group.id": group_id,
        "enable.auto.commit": False, "auto.offset.reset": "earliest",
    })
    consumer.subscribe([topic])
    positions = take(consumer, count)
    consumer.commit(offsets=[TopicPartition(t, p, o) for (t, p), o in positions.items()], asynchronous=False)
    consumer.close()


def take(consumer, count):
    """Prints exactly count records and returns the positions behind them."""
    positions = {}
    while count:
        m = consumer.poll(1.0)
        if m is None:
            continue
        if m.error():
            raise KafkaException(m.error())
        canon.print_record(m.topic(), m.partition(), m.offset(), m.timestamp()[1], m.key(), m.value(), m.headers())
        positions[m.topic(), m.partition()] = m.offset() + 1
        count -= 1
    return positions


def member(broker, group_id, topic):
    consumer = Consumer({
        "bootstrap.servers": broker, "group.id": group_id, "partition.assignment.strategy": "range",
        "enable.auto.commit": False, "auto.offset.reset": "earliest", "session.timeout.ms": canon.MEMBER_SESSION_MS,
        "max.poll.interval.ms": canon.MEMBER_REBALANCE_MS, "heartbeat.interval.ms": canon.MEMBER_HEARTBEAT_MS,
        "fetch.wait.max.ms": canon.MEMBER_FETCH_MS,
    })
    positions = {}

    def commit():
        if not positions:
            return
        time.sleep(canon.MEMBER_WORK_S)
        try:
            offsets = [TopicPartition(topic, p, o) for p, o in positions.items()]
            for tp in consumer.commit(offsets=offsets, asynchronous=False):
                if tp.error:
                    canon.say("x", tp.error)
                else:
                    canon.say("c", tp.partition, tp.offset)
        except KafkaException as e:
            canon.say("x", e)
        positions.clear()

    consumer.subscribe(
        [topic],
        on_assign=lambda _, tps: canon.say("a", *sorted(tp.partition for tp in tps)),
        on_revoke=lambda _, tps: commit(),
        on_lost=lambda _, tps: positions.clear())
    end = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), end.set()), daemon=True).start()
    taken = 0
    while not end.is_set():
        m = consumer.poll(0 if positions else 0.3)
        if m is not None and m.error():
            if m.error().fatal():
                raise KafkaException(m.error())
            canon.say("x", m.error())
        elif m is not None:
            canon.say("r", m.partition(), m.offset(), m.value().decode())
            positions[m.partition()] = m.offset() + 1
            taken += 1
        if m is None or taken >= canon.MEMBER_BATCH:
            commit()
            taken = 0
    commit()
    consumer.close()


if __name__ == "__main__":
    canon.main(write, read, group, member)
