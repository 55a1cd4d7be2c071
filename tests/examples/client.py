#!/usr/bin/env python3
"""Runs one job on an image below gpuimgd's input_root and waits for the result, without packages:
REDIS=host:port client.py SECONDS INPUT OUTPUT OPERATION...
OPERATION: a name, or JSON like '{"op":"resize","width":64}'. PRIORITY=0 to 9 selects the list of
that priority, ID is the job's id. SHARDS is the daemons' option; REDIS may then name several servers,
with spaces. Prints the output's path. Exit: 0 done, 1 failed, 2 no result, 3 Redis, 64 usage."""
import json, os, random, socket, sys, time, uuid, zlib
env = os.environ.get


class Redis:
    def __init__(self, address, timeout):
        host, port = address.rsplit(":", 1)
        self.stream = socket.create_connection((host, int(port)), timeout).makefile("rwb")

    def call(self, *words):
        self.stream.write(b"*%d\r\n" % len(words))
        for word in map(str.encode, words):
            self.stream.write(b"$%d\r\n%s\r\n" % (len(word), word))
        self.stream.flush()
        return self.reply()

    def reply(self):
        line = self.stream.readline()
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"-" or not line.endswith(b"\r\n"):
            raise OSError(rest or "the connection was closed")
        if rest == "-1" and kind in b"$*":
            return None
        if kind == b"$":
            return self.stream.read(int(rest) + 2)[:-2].decode()
        return [self.reply() for _ in range(int(rest))] if kind == b"*" else rest


def main(seconds, source, output, *ops):
    servers, shards = env("REDIS", "127.0.0.1:6379").split(), int(env("SHARDS", "1"))
    shard = (zlib.crc32(env("ID").encode()) if env("ID") else random.getrandbits(32)) % shards
    ns = f"{{gpuimgd:{shard}}}" if shards > 1 else "gpuimgd"
    reply_to = f"{ns}:reply:{uuid.uuid4()}"  # a private list
    ops = [json.loads(each) if each.startswith("{") else each for each in ops]
    job = {"input": source, "output": output, "ops": ops, "reply_to": reply_to, "id": env("ID"),
           "priority": int(env("PRIORITY")) if env("PRIORITY") else None, "pushed": time.time()}
    text = json.dumps({key: value for key, value in job.items() if value is not None})
    redis = Redis(servers[shard % len(servers)], int(seconds) + 5)
    redis.call("LPUSH", f"{ns}:jobs:{env('PRIORITY', '')}".rstrip(":"), text)
    popped = redis.call("BRPOP", reply_to, seconds)  # the list's name and the result
    if popped is None:
        return print(f"no result within {seconds} s", file=sys.stderr) or 2
    result = json.loads(popped[1])
    if result["status"] != "done":  # failed, or dead after several attempts
        return print("{code}: {message}".format(**result["error"]), file=sys.stderr) or 1
    print(result["outputs"][0]["path"])


if len(sys.argv) < 5 or not sys.argv[1].isdecimal() or \
        env("PRIORITY", "") not in ["", *"0123456789"]:
    sys.stderr.write(f"usage: REDIS=host:port {sys.argv[0]} SECONDS INPUT OUTPUT OPERATION...\n")
    sys.exit(64)
try:
    sys.exit(main(*sys.argv[1:]) or 0)
except json.JSONDecodeError as error:
    sys.exit(print(f"an operation is no JSON: {error}", file=sys.stderr) or 64)
except OSError as error:
    sys.exit(print(f"Redis: {error}", file=sys.stderr) or 3)
