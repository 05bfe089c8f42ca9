"""The interop client on kcat: the same three commands as the other clients, each done by running kcat."""

import base64
import json
import re
import subprocess
import sys
from itertools import groupby

LIMIT_S = 120
# What separates key, value and message on kcat's input; no record of the tests contains it.
KEY_END, MESSAGE_END = b"<|key|>", b"<|end|>"


def kcat(broker, *args, stdin=b""):
    p = subprocess.run(["kcat", "-b", broker, *args], input=stdin, capture_output=True, timeout=LIMIT_S)
    if p.returncode:
        sys.exit(f"kcat ended with {p.returncode}: {p.stderr.decode(errors='replace')[-2000:]}")
    return p


def write(broker, topic, codec):
    for line in sys.stdin:
        if not line.strip():
            continue
        batch = json.loads(line)
        offsets = [None] * len(batch)
        # A kcat process has one partition, one set of headers and one meaning of "nothing": null or empty.
        by_partition = sorted(range(len(batch)), key=lambda i: batch[i]["partition"])
        for (partition, headers, nulls), run in groupby(by_partition, key=lambda i: setting(batch[i])):
            run = list(run)
            args = ["-P", "-t", topic, "-p", str(partition), "-z", codec, "-v", "-v",
                    "-K", KEY_END.decode(), "-D", MESSAGE_END.decode(),
                    "-X", "acks=all", "-X", "enable.idempotence=true"]
            if nulls:
                args.append("-Z")
            for name, value in json.loads(headers):
                args += ["-H", name if value is None else name.encode() + b"=" + base64.b64decode(value)]
            p = kcat(broker, *args, stdin=b"".join(encode(batch[i]) + MESSAGE_END for i in run))
            acks = re.findall(rb"Message delivered to partition \d+ \(offset (\d+)\)", p.stderr)
            for i, offset in zip(run, acks, strict=True):
                offsets[i] = int(offset)
        print(json.dumps(offsets))


def setting(r):
    return r["partition"], json.dumps(r["headers"]), r["value"] is None


def encode(r):
    value = base64.b64decode(r["value"] or "")
    if r["key"] is None and value:
        return value
    return base64.b64decode(r["key"] or "") + KEY_END + value


def read(broker, count, topics):
    for topic in topics:
        show(kcat(broker, "-C", "-t", topic, "-o", "beginning", "-c", str(count), "-e", "-q", "-J"))


def group(broker, count, group_id, topic):
    show(kcat(broker, "-G", group_id, topic, "-c", str(count), "-q", "-J", "-X", "auto.offset.reset=earliest"))


def show(p):
    """Prints kcat's JSON in the canonical form. kcat puts bytes into JSON strings as they are, valid UTF-8 or not."""
    for line in p.stdout.split(b"\n"):
        if not line:
            continue
        r = json.loads(line.decode("utf-8", "surrogateescape"))
        flat = r.get("headers", [])
        print(json.dumps({
            "topic": r["topic"], "partition": r["partition"], "offset": r["offset"], "timestamp": r["ts"],
            "key": text(r["key"]), "value": text(r["payload"]),
            "headers": [[name, text(v)] for name, v in zip(flat[::2], flat[1::2])],
        }))


def text(s):
    return None if s is None else base64.b64encode(s.encode("utf-8", "surrogateescape")).decode()


def main():
    command, broker, *rest = sys.argv[1:]
    if command == "write":
        write(broker, *rest)
    elif command == "read":
        read(broker, int(rest[0]), rest[1:])
    elif command == "group":
        group(broker, int(rest[0]), rest[1], rest[2])
    else:
        sys.exit(f"unknown command {command}")


if __name__ == "__main__":
    main()
