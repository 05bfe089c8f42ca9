"""A member of a group on confluent-kafka that tells what it gets and what it gives up, until standard input ends.

Arguments: BROKER GROUP TOPICS PROTOCOL ASSIGNOR. What they mean and what it prints: see interop/README.md.
"""

import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

import canon


def number(topic, partition):
    return int(topic.rsplit("-", 1)[1]) * 100 + partition


def owned(what, tps):
    if tps:
        canon.say(what, time.time_ns() // 1000, *sorted(number(tp.topic, tp.partition) for tp in tps))


class Owner:
    def __init__(self, broker, group, protocol, assignor):
        settings = {
            "bootstrap.servers": broker, "group.id": group, "group.protocol": protocol, "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "fetch.wait.max.ms": canon.MEMBER_FETCH_MS,
            "topic.metadata.refresh.interval.ms": 2000,
        }
        if protocol == "classic":
            settings |= {
                "session.timeout.ms": canon.MEMBER_SESSION_MS, "heartbeat.interval.ms": canon.MEMBER_HEARTBEAT_MS,
                "max.poll.interval.ms": canon.MEMBER_REBALANCE_MS, "partition.assignment.strategy": "range",
            }
        else:
            settings |= {
                "group.remote.assignor": assignor,
                "max.poll.interval.ms": 45000,  # no less than the session time-out, which is the broker's
            }
        self.consumer = Consumer(settings)
        self.positions = {}

    def commit(self):
        if not self.positions:
            return
        time.sleep(canon.MEMBER_WORK_S)
        try:
            offsets = [TopicPartition(t, p, o) for (t, p), o in self.positions.items()]
            for tp in self.consumer.commit(offsets=offsets, asynchronous=False):
                if tp.error:
                    canon.say("x", tp.error)
                else:
                    canon.say("c", number(tp.topic, tp.partition), tp.offset)
        except KafkaException as e:
            canon.say("x", e)
        self.positions.clear()

    def revoked(self, _, tps):
        self.commit()
        owned("-", tps)

    def lost(self, _, tps):
        self.positions.clear()
        owned("l", tps)

    def run(self, topics, end):
        topics = [topics] if topics.startswith("^") else topics.split(",")
        self.consumer.subscribe(topics, on_assign=lambda _, tps: owned("+", tps), on_revoke=self.revoked, on_lost=self.lost)
        taken = 0
        while not end.is_set():
            m = self.consumer.poll(0 if self.positions else 0.3)
            if m is not None and m.error():
                if m.error().fatal() or m.error().code() == KafkaError._FATAL:
                    raise KafkaException(m.error())
                canon.say("x", m.error())
            elif m is not None:
                n = number(m.topic(), m.partition())
                canon.say("r", n, m.offset(), m.value().decode())
                self.positions[m.topic(), m.partition()] = m.offset() + 1
                taken += 1
            if m is None or taken >= canon.MEMBER_BATCH:
                self.commit()
                taken = 0
        self.commit()
        self.consumer.close()


if __name__ == "__main__":
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    Owner(sys.argv[1], sys.argv[2], sys.argv[4], sys.argv[5]).run(sys.argv[3], over)
