#!/usr/bin/env python3
"""Serves images over HTTP, each made by a job at its first request:

    images_http.py [HOST:]PORT        serves /SIGNATURE/PRESET/PATH; PATH is below input_root
    images_http.py sign PRESET PATH   prints the path of such a URL

Needs aiohttp and redis-py. Clients choose one of PRESETS and cannot make other jobs. Put a cache
(CDN) in front of it. Outputs are Redis keys that expire after CACHE_S, so several servers can share
them. Environment: REDIS_URL; IMAGES_KEYS, the keys of the signatures, separated by blanks: the
first one signs, all are accepted; CLIENT_HEADER, in which your proxy names the client."""
import asyncio
import base64
import collections
import hashlib
import hmac
import json
import os
import sys
import time
import uuid
from urllib.parse import quote

from aiohttp import web
from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import RedisError

PRESETS = {
    "thumb": {"output": {"format": "webp", "quality": 75},
              "ops": [{"op": "resize", "width": 320, "height": 320}]},
    "square": {"output": {"format": "jpeg"},
               "ops": [{"op": "resize", "width": 320, "height": 320, "fit": "cover"}]},
    "large": {"output": {"format": "webp"}, "ops": [{"op": "resize", "width": 1600}]}}
JOBS = "gpuimgd:jobs:9"  # before all bulk work
CACHE_S = int(os.environ.get("CACHE_S", "3600"))  # in Redis, in browsers and in a CDN
TIMEOUT_S = float(os.environ.get("TIMEOUT_S", "15"))  # for one image
JOBS_MAX = int(os.environ.get("JOBS_MAX", "64"))  # that wait for a daemon; more get 503
CLIENT_MAX = int(os.environ.get("CLIENT_MAX", "16"))  # of one client; more get 429
CLIENT_HEADER = os.environ.get("CLIENT_HEADER", "")
KEYS = [key.encode() for key in os.environ.get("IMAGES_KEYS", "").split()]
BLOCK_S = 5
# What the codes of errors become. A proxy may keep the first group for a minute.
STATUS = {"input_missing": 404, "path_refused": 404, "bad_job": 404, "input_too_large": 422,
          "image_too_large": 422, "unsupported_format": 422, "decode_failed": 422,
          "decode_limit": 422, "expired": 504, "timeout": 504}


def sign(key, preset, path):
    digest = hmac.digest(key, f"{preset}/{path}".encode(), "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def is_signed(signature, preset, path):
    """Takes the same time for each wrong signature."""
    given = signature.encode()
    return sum(hmac.compare_digest(given, sign(key, preset, path).encode()) for key in KEYS) > 0


def error(status, text, retry_s=None):
    headers = {"Cache-Control": "public, max-age=60" if status in (404, 422) else "no-store"}
    if retry_s:
        headers["Retry-After"] = str(retry_s)
    return web.Response(status=status, text=text + "\n", headers=headers)


class Failed(Exception):
    """The job ended without an image."""


class Images:
    def __init__(self):
        url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
        # redis-py 8 waits 5 s for a reply, unless told otherwise: too short for BRPOP.
        # A connection that Redis has closed is opened again, once; a job may then run twice.
        self.redis = Redis(connection_pool=BlockingConnectionPool.from_url(
            url, max_connections=64, timeout=2, socket_timeout=5, retry_on_error=[Disconnected]))
        self.blocking = Redis.from_url(url, socket_timeout=BLOCK_S + 5)
        self.reply_to = f"gpuimgd:reply:http-{uuid.uuid4()}"
        self.replies = {}  # id of a job: the future of its result
        self.making = {}  # key of an output: the task that makes it, for all who want it
        self.clients = collections.Counter()  # client: its requests that wait for a job

    async def read_results(self):
        while True:
            try:
                popped = await self.blocking.brpop(self.reply_to, BLOCK_S)
            except (RedisError, OSError) as problem:
                print("Redis:", problem, file=sys.stderr, flush=True)
                await asyncio.sleep(1)
                continue
            try:
                result = json.loads(popped[1]) if popped else {}
                reply = self.replies.get(result.get("id"))
            except (ValueError, AttributeError, TypeError, RecursionError):
                continue  # not a daemon's
            if reply and not reply.done():
                reply.set_result(result)

    async def make(self, key, preset, path):
        """Runs the job, and returns the image."""
        number, reply = str(uuid.uuid4()), asyncio.get_running_loop().create_future()
        self.replies[number] = reply
        try:
            now, _ = await self.redis.time()  # the daemons compare `expires` with this clock
            await self.redis.lpush(JOBS, json.dumps({
                "id": number, "reply_to": self.reply_to, "priority": 9, "pushed": time.time(),
                "expires": now + TIMEOUT_S, "timeout_s": TIMEOUT_S, "input": path,
                "ops": preset["ops"],
                "output": {"key": key, "ttl_s": CACHE_S, **preset["output"]}}))
            result = await asyncio.wait_for(reply, TIMEOUT_S)
            if result["status"] != "done":
                raise Failed(result["error"]["code"])
            return await self.redis.get(key)
        finally:
            del self.replies[number]

    def start(self, key, preset, path):
        """Returns the task that makes the image: a new one, unless one runs."""
        task = self.making.get(key)
        if task is None:
            task = self.making[key] = asyncio.ensure_future(self.make(key, preset, path))
            task.add_done_callback(lambda _: self.making.pop(key))
            task.add_done_callback(lambda _: task.cancelled() or task.exception())  # seen by none
        return task

    async def find(self, request, key, preset, path):
        """Returns the image from the cache or from a job, or the response of an error."""
        found = await self.redis.get(key)
        if found is not None:
            return found
        client = request.headers.get(CLIENT_HEADER) or request.remote
        if self.clients[client] >= CLIENT_MAX:
            return error(429, "too many requests of this client wait", 1)
        if key not in self.making and len(self.making) >= JOBS_MAX:
            return error(503, "too many images are being made", 1)
        self.clients[client] += 1
        try:
            # A client that goes away does not end the job that others wait for.
            made = await asyncio.shield(self.start(key, preset, path))
        except Failed as failed:
            code = str(failed)
            return error(STATUS.get(code, 502), code)
        except asyncio.TimeoutError:
            return error(504, "no daemon has made the image in time", 5)
        finally:
            self.clients[client] -= 1
            self.clients += collections.Counter()  # drops those at 0
        return error(502, "the image is gone") if made is None else made

    async def serve(self, request):
        asked = request.match_info
        signature, name, path = asked["signature"], asked["preset"], asked["path"]
        if not is_signed(signature, name, path):
            return error(403, "the signature is wrong")
        if name not in PRESETS:
            return error(404, "no such preset")
        preset = PRESETS[name]
        digest = hashlib.sha256(json.dumps([preset, path]).encode()).hexdigest()
        try:
            found = await self.find(request, "gpuimgd:img:http:" + digest, preset, path)
        except (RedisError, OSError):
            return error(503, "Redis is away, or serves too many requests", 5)
        if isinstance(found, web.Response):
            return found
        tag = hashlib.sha256(found).hexdigest()[:32]
        headers = {"ETag": f'"{tag}"', "Cache-Control": f"public, max-age={CACHE_S}"}
        if any(given.value in (tag, "*") for given in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        return web.Response(body=found, headers=headers,
                            content_type="image/" + preset["output"]["format"])

    async def run(self, _):
        reader = asyncio.ensure_future(self.read_results())
        yield
        tasks = [reader, *self.making.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for redis in self.redis, self.blocking:
            await redis.connection_pool.disconnect()


def main(words):
    if not KEYS:
        sys.exit("set IMAGES_KEYS, for example to the output of: openssl rand -hex 32")
    if len(words) == 3 and words[0] == "sign":
        print(f"/{sign(KEYS[0], *words[1:])}/{words[1]}/{quote(words[2])}")
    elif len(words) == 1:
        host, _, port = words[0].rpartition(":")
        images, app = Images(), web.Application()
        app.router.add_get("/{signature}/{preset}/{path:.+}", images.serve)
        app.cleanup_ctx.append(images.run)
        web.run_app(app, host=host or "127.0.0.1", port=int(port), access_log=None, print=None)
    else:
        print(__doc__, file=sys.stderr)
        return 64
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
