"""The canonical form of records and the command line that the Python clients share (see interop/README.md)."""

import base64
import json
import sys
import threading
import os

PARTITIONS = 3
LIMIT_S = 120


def batches():
    """The batches on standard input: lists of records whose key, value and header values are bytes or None."""
    for line in sys.stdin:
        if line.strip():
            yield [_decode(r) for r in json.loads(line)]


def _decode(r):
    r["key"] = _bytes(r["key"])
    r["value"] = _bytes(r["value"])
    r["headers"] = [(name, _bytes(v)) for name, v in r["headers"]]
    return r


def _bytes(s):
    return None if s is None else base64.b64decode(s)


def _text(b):
    return None if b is None else base64.b64encode(b).decode()


def print_offsets(offsets):
    print(json.dumps(offsets))


def print_record(topic, partition, offset, timestamp, key, value, headers):
    """Prints a record that was read; timestamp in milliseconds, headers as pairs of str and bytes or None."""
    print(json.dumps({
        "topic": topic, "partition": partition, "offset": offset, "timestamp": timestamp,
        "key": _text(key), "value": _text(value),
        "headers": [[name, _text(v)] for name, v in headers or ()],
    }))


def print_error(topic, error):
    print(json.dumps({"topic": topic, "error": error}))


# How members of a group behave, whatever their library; see interop/README.md.
MEMBER_BATCH = 50
MEMBER_SESSION_MS = 6000
MEMBER_REBALANCE_MS = 10000
MEMBER_HEARTBEAT_MS = 1000
MEMBER_FETCH_MS = 300
MEMBER_WORK_S = 0.03  # between processing a batch and its commit


def say(*words):
    """Prints a line of a member, at once: a process that is killed has told all it did."""
    print(*words, flush=True)


def main(write, read, group, member=None):
    """Runs the command named on the command line. A program that hangs ends with an error after LIMIT_S."""
    if sys.argv[1] == "member":
        member(*sys.argv[2:])
        return
    watchdog = threading.Timer(LIMIT_S, _give_up)
    watchdog.daemon = True
    watchdog.start()
    command, broker, *rest = sys.argv[1:]
    if command == "write":
        write(broker, *rest)
    elif command == "read":
        read(broker, int(rest[0]), rest[1:])
    elif command == "group":
        group(broker, int(rest[0]), rest[1], rest[2])
    else:
        sys.exit(f"unknown command {command}")
    sys.stdout.flush()


def _give_up():
    print(f"no end after {LIMIT_S} s", file=sys.stderr, flush=True)
    os._exit(1)
