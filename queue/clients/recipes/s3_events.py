#!/usr/bin/env python3
"""Makes a job of each image that S3 announces with an event notification:

    s3_events.py list KEY        takes events from a Redis list: MinIO's, with format=access
    s3_events.py http HOST:PORT  takes them as POSTs, from MinIO's webhook or SNS
    s3_events.py stdin           takes them from lines, such as the bodies of messages of SQS
    s3_events.py results         prints a line for each job that failed or is dead

Needs redis-py. The daemons need url_prefixes with both buckets and their keys. Environment:
REDIS_URL; ENDPOINT, the URL of S3; TARGET, the URL of an output, with {endpoint}, {bucket} and
{key}; TOKEN, if POSTs must have the header `Authorization: Bearer TOKEN`."""
import hashlib
import hmac
import json
import os
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote_plus

import redis

ENDPOINT = os.environ.get("ENDPOINT", "https://s3.eu-west-1.amazonaws.com")
TARGET = os.environ.get("TARGET", "{endpoint}/{bucket}-small/{key}.webp")
TOKEN = os.environ.get("TOKEN", "")
OPERATIONS = ["to_srgb", {"op": "resize", "width": 1200}]
SUFFIXES = (".jpg", ".jpeg", ".png", ".apng", ".webp", ".avif", ".jxl",
            ".heic", ".gif", ".tif", ".tiff", ".bmp")
JOBS, REPLIES = "gpuimgd:jobs", "gpuimgd:reply:s3-events"
BLOCK_S, BODY_MAX = 5, 1 << 20
# redis-py 8 waits 5 s for a reply, unless told otherwise: too short for BLMOVE.
server = redis.Redis(connection_pool=redis.BlockingConnectionPool.from_url(
    os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"), socket_timeout=BLOCK_S + 5,
    max_connections=32, timeout=5))
# The URLs that TARGET makes. Events of such objects are ignored: no output must become an input.
MADE = re.compile(".+".join(map(re.escape, re.split(r"\{bucket\}|\{key\}",
                                                    TARGET.replace("{endpoint}", ENDPOINT)))))


def records(value):
    """Yields the records of an event, also from within a message of SNS or a list of MinIO."""
    if isinstance(value, str) and value.startswith("{"):
        value = json.loads(value)
    if isinstance(value, dict) and "s3" in value:
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from records(item)


def jobs(text):
    """Returns the jobs of an event. Raises ValueError if it is none."""
    made = []
    try:
        for record in records(json.loads(text)):
            bucket, item = record["s3"]["bucket"]["name"], record["s3"]["object"]
            key = unquote_plus(item["key"])
            if "\0" in bucket + key:
                raise ValueError(f"no job can have a name with a zero byte: {key!r}")
            place = {"bucket": quote(bucket, safe=""), "key": quote(key, safe="/-_.~")}
            source = "{}/{bucket}/{key}".format(ENDPOINT, **place)
            if "ObjectCreated:" not in record["eventName"] or MADE.fullmatch(source) or \
                    not key.lower().endswith(SUFFIXES):
                continue
            version = [bucket, key, item.get("versionId"), item.get("eTag"), item.get("sequencer")]
            # S3 may send an event twice. The daemons run a unique job once.
            made.append(json.dumps({
                "id": "s3-" + hashlib.sha256(json.dumps(version).encode()).hexdigest(),
                "unique": True, "pushed": time.time(), "reply_to": REPLIES,
                "meta": {"bucket": bucket, "key": key}, "input": {"url": source},
                "output": {"url": TARGET.format(endpoint=ENDPOINT, **place)}, "ops": OPERATIONS}))
    except (KeyError, TypeError, AttributeError, RecursionError, UnicodeError) as error:
        raise ValueError(f"not an event of S3: {error!r}") from error
    return made


def push(text):
    made = jobs(text)
    if made:
        server.lpush(JOBS, *made)


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def until_redis_answers(call, *words):
    while True:
        try:
            return call(*words)
        except redis.RedisError as error:
            say("Redis:", error)
            time.sleep(1)


def from_lines():
    for line in filter(bytes.strip, sys.stdin.buffer):
        try:
            until_redis_answers(push, line)
        except ValueError as error:
            say(error)


def each(name, handle):
    """Moves an item from the list to NAME:taken, handles it, and removes it there, so that a crash
    loses none. `handle` adds its commands to those that remove the item."""
    taken = name + ":taken"
    item = server.lindex(taken, -1) or server.blmove(name, taken, BLOCK_S, "RIGHT", "LEFT")
    if item is not None:
        commands = server.pipeline(transaction=True)
        handle(item, commands)
        commands.lrem(taken, -1, item).execute()


def push_event(item, commands):
    try:
        made = jobs(item)
        if made:
            commands.lpush(JOBS, *made)
    except ValueError as error:
        say(error)


def show_result(item, _):
    try:
        result = json.loads(item)
        if result["status"] != "done":
            print(json.dumps({**(result.get("meta") or {}), "status": result["status"],
                              **result.get("error", {})}), flush=True)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        say("not a result:", item)


class Hook(BaseHTTPRequestHandler):
    timeout = 10  # seconds for a request

    def do_POST(self):
        status, length = 200, self.headers.get("Content-Length", "")
        given = self.headers.get("Authorization", "").encode()
        if TOKEN and not hmac.compare_digest(given, b"Bearer " + TOKEN.encode()):
            status = 401
        elif not length.isdecimal():
            status = 411
        elif int(length) > BODY_MAX:
            status = 413
        else:
            try:
                push(self.rfile.read(int(length)))
            except ValueError as error:
                say(error)
                status = 400
            except redis.RedisError as error:
                say("Redis:", error)
                status = 503  # the sender tries again
        self.close_connection = status != 200
        self.send_response(status)
        if status == 503:
            self.send_header("Retry-After", "5")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words):
        pass


def main(mode, *rest):
    if (mode, len(rest)) == ("list", 1):
        while True:
            until_redis_answers(each, rest[0], push_event)
    elif (mode, len(rest)) == ("http", 1):
        host, _, port = rest[0].rpartition(":")
        ThreadingHTTPServer.request_queue_size = 256
        ThreadingHTTPServer((host, int(port)), Hook).serve_forever()
    elif (mode, len(rest)) == ("stdin", 0):
        from_lines()
    elif (mode, len(rest)) == ("results", 0):
        while True:
            until_redis_answers(each, REPLIES, show_result)
    else:
        say(__doc__)
        return 64


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:] or [""]))
    except KeyboardInterrupt:
        sys.exit(130)
