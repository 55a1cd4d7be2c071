#!/usr/bin/env python3
"""Makes tensors of the images in a folder of WebDataset shards, with one job per shard.

    shards.py FOLDER TARGET

FOLDER is below INPUT_ROOT and has tars of .jpg, .cls, .json and other files. TARGET is below
OUTPUT_ROOT and gets a tar of the same name for each: .npy instead of images, and the other members as
they were. Shards whose output exists are left out. REDIS_URL, INPUT_ROOT and OUTPUT_ROOT are
those of the daemons. Prints a line per shard; images that failed are named on standard error. Exit
status: 0, 1 if an image or a shard failed, 64 usage."""
import json
import os
import pathlib
import sys
import uuid

import redis

URL = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")
INPUTS = pathlib.Path(os.environ.get("INPUT_ROOT", "/var/lib/gpuimgd/in"))
OUTPUTS = pathlib.Path(os.environ.get("OUTPUT_ROOT", "/var/lib/gpuimgd/out"))
REPLIES = "gpuimgd:reply:webdataset:"
WAIT_S = 2        # less than the 5 s for which redis-py 8 waits for a reply
QUIET_S = 60      # without a result: a line says so

# The images of an evaluation on ImageNet: float16, CHW, 3 x 224 x 224.
OPS = [{"op": "resize", "width": 256, "height": 256, "fit": "outside", "filter": "bilinear",
        "fast_shrink": False}, {"op": "crop", "width": 224, "height": 224}]
TENSOR = {"format": "npy", "type": "f16", "layout": "chw", "channels": "rgb", "normalize": {
    "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}}


def job(shard, target, id, replies):
    return {"id": id, "reply_to": replies, "inputs": {"archive": shard}, "ops": OPS,
            "output": {"path": target, "pack": "tar", **TENSOR}}


def push(server, shards, target):
    """Pushes a job per shard without output. Returns {id: shard} and the list of the results."""
    run, waiting, jobs = uuid.uuid4().hex, {}, []
    for shard in shards:
        path = f"{target}/{pathlib.Path(shard).name}"
        if (OUTPUTS / path).exists():
            print(f"{shard}: {path} is there")
            continue
        id = f"webdataset:{run}:{len(waiting)}"
        waiting[id] = shard
        jobs.append(json.dumps(job(shard, path, id, REPLIES + run)))
    if jobs:
        server.lpush("gpuimgd:jobs", *jobs)
    return waiting, REPLIES + run


def results(server, waiting, replies):
    """Yields results as they come, until no shard waits. A reply that was lost is also kept at
    gpuimgd:result:ID."""
    quiet = 0
    while waiting:
        popped = server.brpop(replies, WAIT_S)
        found = [popped[1]] if popped else server.mget(f"gpuimgd:result:{id}" for id in waiting)
        for result in (json.loads(text) for text in found if text):
            if result["id"] in waiting:
                quiet = 0
                yield waiting.pop(result["id"]), result
        if not popped:
            quiet += WAIT_S
            if quiet % QUIET_S == 0:
                print(f"{len(waiting)} shards wait, and none ended for {quiet} s; gpuimgctl status "
                      "says what the daemons do", file=sys.stderr)


def report(shard, result):
    """Prints what became of a shard. Returns whether all of its images are done."""
    images = result.get("images", {"done": 0, "failed": 0, "copied": 0})
    if result["status"] != "done":
        error = result.get("error", {"code": result["status"], "message": "the job did not run"})
        print(f"{shard}: {error['code']}: {error['message']}", file=sys.stderr)
        return False
    print(f"{shard}: {images['done']} images, {images['failed']} failed, {images['copied']} copied")
    for each in images.get("errors", []):
        print(f"{shard}: {each['name']}: {each['error']['code']}: {each['error']['message']}",
              file=sys.stderr)
    return images["failed"] == 0


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 64
    folder, target = sys.argv[1].rstrip("/"), sys.argv[2].rstrip("/")
    shards = [f"{folder}/{path.name}" for path in sorted((INPUTS / folder).glob("*.tar"))]
    if not shards:
        print(f"{INPUTS / folder} has no *.tar", file=sys.stderr)
        return 64
    server = redis.Redis.from_url(URL)
    good = True
    for shard, result in results(server, *push(server, shards, target)):
        good = report(shard, result) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
