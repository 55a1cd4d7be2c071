"""The client with threads of the Python package, with real daemons and real Redis servers."""
import asyncio
import collections
import concurrent.futures
import datetime
import os
import threading
import time
import unittest.mock

import redis
import redis.asyncio
import redis.backoff
import redis.retry
import rig
from gpuimgd import (Client, ClientClosed, Download, DuplicateId, ErrorCode, Job, JobCancelled, JobDead,
                     JobFailed, Upload, Variant, ops, out)
from gpuimgd.core import Push
from rig import all_once, equal, raises, small


def connect(server, **options):
    return redis.Redis(port=getattr(server, "port", server), **options)


def nested(depth):
    return [nested(depth - 1)] if depth else 0


def test_jobs():
    """files, bytes, values, errors and options of jobs"""
    with rig.World() as world, Client(connect(world.redis)) as client:
        world.start_daemon("--attempts=1")
        result = client.run(Job("a.png", "new/a.jpg", [ops.resize(width=8), "grayscale"]), timeout=rig.LIMIT_S)
        equal((result.ok, result.outputs[0].width, result.outputs[0].format), (True, 8, "jpeg"))
        assert (world.folder / "out/new/a.jpg").read_bytes()[:2] == b"\xff\xd8"
        assert result.ms["queue"] >= 0 and result.raw["job"] == result.job
        # Bytes, an overlay, several outputs; nothing stays in Redis.
        logo = Upload(rig.png(4, 4))
        result = client.run(Job(Upload(rig.png()), outputs=[
            Variant(out.webp(Download(), quality=70), [ops.composite(input=logo, gravity="north")]),
            Variant(out.png(Download()), [ops.composite(input=logo), ops.rotate(angle=30)]),
            Variant(ops=[ops.histogram(gray=True), "phash"])]), timeout=rig.LIMIT_S).raise_for_status()
        equal(result.outputs[0].data[8:12], b"WEBP")
        equal(result.outputs[1].data[:4], b"\x89PNG")
        equal(sum(result.outputs[2].values["histogram"][0]), 32 * 24)
        error = raises(JobFailed, client.run(Job("no.png", "x.png"), timeout=rig.LIMIT_S).raise_for_status)
        equal((error.code, error.code.retryable), (ErrorCode.INPUT_MISSING, False))
        assert "no.png" in str(error)
        result = client.run({"input": "a.png", "ops": [{"op": "resize", "widht": 3}, "otsu"]}, timeout=rig.LIMIT_S)
        equal(result.error.code, ErrorCode.BAD_OP)
        # Names beyond ASCII, and meta of every kind.
        for id, meta in (("Ж ü \"quoted\" \\ 🐈", None), ("x" * 128, {"a": [1, None]}), ("{b}", "ü")):
            result = client.run(Job("a.png", f"ü {len(id)} 🐈.png", id=id, meta=meta), timeout=rig.LIMIT_S)
            equal((result.id, result.meta, result.ok), (id, meta, True))
            equal(client.kept_result(id).job, result.job)
        equal(client.kept_result("nobody"), None)
        client.close()
        plain = connect(world.redis)
        equal([k for k in plain.keys("gpuimgd:img:*") + plain.keys("gpuimgd:reply:*")], [])
        equal(len(plain.keys("gpuimgd:result:*")), 3)


def test_conditions():
    """priority, not_before, expires, unique, cancel, and dead jobs that are sent again"""
    with rig.World() as world, Client(connect(world.redis)) as client, \
            Client(connect(world.redis)) as other:
        plain = connect(world.redis)
        urgent = client.submit(Job("a.png", ops=["otsu"], priority=9))
        equal(plain.llen("gpuimgd:jobs:9"), 1)
        one = client.submit(Job("a.png", ops=["otsu"], id="same", unique=True))
        same = other.submit(Job("a.png", ops=["otsu"], id="same", unique=True))
        raises(DuplicateId, lambda: client.submit(Job("a.png", ops=["otsu"], id="same")))
        later = client.submit(Job("a.png", ops=["otsu"], not_before=datetime.timedelta(seconds=0.3)))
        late = client.submit(Job("a.png", ops=["otsu"], expires=datetime.datetime.now()
                                 - datetime.timedelta(hours=1)))
        never = client.submit(Job("a.png", ops=["otsu"], not_before=time.time() + 3600))
        (world.folder / "in/bad.png").write_bytes(rig.png())
        (world.folder / "page").write_bytes(bytes(4096))
        world.start_daemon("--attempts=1", GPUIMGD_SHIM_PAGE=str(world.folder / "page"),
                           LD_PRELOAD=str((rig.BUILD / "tests/faults/shim_disk.so").resolve()),
                           GPUIMGD_SHIM="call=pread,do=EIO,match=*/bad.png,times=3")
        equal(urgent.result(rig.LIMIT_S).priority, 9)
        equal(same.result(rig.LIMIT_S).same_as, one.result(rig.LIMIT_S).job)
        assert later.result(rig.LIMIT_S).ok and later.result().ms["queue"] >= 300
        equal(late.result(rig.LIMIT_S).error.code, ErrorCode.EXPIRED)
        dead = client.run(Job("bad.png", ops=["otsu"]), timeout=rig.LIMIT_S)
        equal(raises(JobDead, dead.raise_for_status).code, ErrorCode.INPUT_UNREADABLE)
        equal(plain.llen("gpuimgd:dead"), 1)
        again = client.run(Job("bad.png", ops=["otsu"]), timeout=rig.LIMIT_S, retry_dead=2)
        equal((again.ok, again.job), (True, dead.job + 3))
        equal(plain.llen("gpuimgd:dead"), 1)  # jobs that are sent again leave it
        client.cancel(never)
        raises(JobCancelled, never.result(rig.LIMIT_S).raise_for_status)
        assert client.cancel("same").ok
        handle = client.submit(Job("a.png", ops=["otsu"], not_before="+3600"))
        client.close()
        raises(ClientClosed, handle.result)
        raises(ClientClosed, lambda: client.submit(Job("a.png", ops=["otsu"])))


def test_two_ends():
    """a client that is closed and its reader end a job at the same time"""
    for future in (concurrent.futures.Future(), asyncio.new_event_loop().create_future()):
        future.set_result(None)

        class Late:  # it has ended since it was asked
            done = staticmethod(lambda: False)
            set_result, set_exception = future.set_result, future.set_exception
        push = Push(None, "x", Late())
        push.fail(ClientClosed("closed"))
        push.finish({"id": "x", "job": 1, "status": "done"}, {})


def test_no_thread():
    """no thread can be started for a while"""
    with rig.World() as world, Client(connect(world.redis)) as client:
        world.start_daemon()
        job = Job("a.png", ops=["otsu"], id="x")
        with unittest.mock.patch.object(threading.Thread, "start", side_effect=RuntimeError):
            raises(RuntimeError, lambda: client.submit(job))
        assert client.run(job, timeout=rig.LIMIT_S).ok


def test_refusals():
    """what is refused before it reaches Redis, and what Redis refuses"""
    once = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
    with rig.World() as world, Client(connect(world.redis, retry=once), retry_s=0.3) as client:
        for job in (Job("a.png", ops=["otsu"], priority=10), Job("a.png", ops=["otsu"], meta=float("nan")),
                    Job("a.png", ops=["otsu"], meta="x" * 70000), Job("\udce9.png", ops=["otsu"]),
                    {"input": "a.png", "ops": ["otsu"], "reply_to": "gpuimgd:reply:x"},
                    Job("a.png", ops=["otsu"], meta={"a\0": 1}), Job("a.png", ops=["otsu"], meta=10**70),
                    Job("a.png", ops=["otsu"], meta={1: 1}), Job("a.png", ops=["otsu"], meta=nested(16)),
                    Job("a.png", ops=["otsu"], id=17), *[Job("a.png", ops=["otsu"], id=id) for id in
                                                         ("", "ü" * 65, "\n", "\x7f", "\x9f")]):
            raises(ValueError, lambda: client.submit(job))
        raises(TypeError, lambda: Upload("text"))
        for job in ("a.png", b"a.png", None, 17, Job(b"bytes", ops=["otsu"]), Job("a.png", meta={1})):
            raises(TypeError, lambda: client.submit(job))
            raises(TypeError, lambda: next(client.map([job])))
        assert "Upload" in str(raises(TypeError, lambda: client.run(Job(rig.png(), ops=["otsu"]))))
        raises(TypeError, lambda: next(client.map(Job("a.png", ops=["otsu"]))))
        raises(TypeError, lambda: client.cancel(17))
        raises(TypeError, lambda: client.kept_result(b"x"))
        error = raises(TypeError, lambda: Client("redis://:secret@127.0.0.1"))
        assert "from_url" in str(error) and "secret" not in str(error), error
        assert "AsyncClient" not in str(raises(TypeError, lambda: Client(None)))
        error = raises(TypeError, lambda: Client([connect(world.redis), redis.asyncio.Redis()], shards=2))
        assert "redis.asyncio" in str(error), error
        raises(TypeError, lambda: Client(connect(world.redis), shards="1"))
        raises(TypeError, lambda: Client(connect(world.redis), namespace=b"x"))
        raises(ValueError, lambda: Client(connect(world.redis), data_ttl_s=0))
        raises(ValueError, lambda: Client(connect(world.redis), retry_s=-1))
        raises(ValueError, lambda: Client(connect(world.redis, max_connections=1)))
        raises(ValueError, lambda: Client(connect(world.redis, max_connections=3), shards=3))
        raises(ValueError, lambda: Client(connect(world.redis), shards=65))
        raises(ValueError, lambda: Client(connect(world.redis), shards=2, namespace="a{b}"))
        raises(ValueError, lambda: Client([connect(world.redis)] * 2))
        raises(ValueError, lambda: next(client.map([], window=0)))
        plain = connect(world.redis)
        plain.set("gpuimgd:jobs", "not a list")
        raises(redis.ResponseError, lambda: client.submit(Job("a.png", ops=["otsu"], id="x")))
        plain.delete("gpuimgd:jobs")
        plain.execute_command("ACL", "SETUSER", "u", "on", "nopass", "~*", "+@all", "-blmove")
        with Client(connect(world.redis, username="u", password="x")) as denied:
            handle = denied.submit(Job("a.png", ops=["otsu"]))
            raises(redis.exceptions.NoPermissionError, lambda: handle.result(rig.LIMIT_S))
        world.start_daemon()
        assert client.run(Job("a.png", ops=["otsu"], id="x"), timeout=rig.LIMIT_S).ok
        # Results that the client may not remove.
        plain.execute_command("ACL", "SETUSER", "u", "+blmove", "-lrem")
        with Client(connect(world.redis, username="u", password="x")) as denied:
            raises(redis.exceptions.NoPermissionError, lambda: [
                denied.run(Job("a.png", ops=["otsu"]), timeout=rig.LIMIT_S) for _ in range(100)])
        # Bytes that the client may not read stay.
        plain.execute_command("ACL", "SETUSER", "u", "+lrem", "-get")
        lists = set(plain.keys("gpuimgd:reply:*"))
        with Client(connect(world.redis, username="u", password="x")) as denied:
            handle = denied.submit(Job("a.png", out.png(Download()), id="y"))
            raises(redis.exceptions.NoPermissionError, lambda: handle.result(rig.LIMIT_S))
            rig.until(lambda: set(plain.keys("gpuimgd:reply:*")) == lists)
            raises(redis.exceptions.NoPermissionError, lambda: denied.kept_result("y"))
        equal(client.kept_result("y").outputs[0].data[:4], b"\x89PNG")
        # What is just allowed gets a result.
        for meta in (10**62 - 1, -10**61, 1.7e308, nested(15), "\u2028\x01\x7f"):
            result = client.run(Job(Upload(bytearray(rig.png())), ops=["otsu"], meta=meta), timeout=rig.LIMIT_S)
            equal((result.ok, result.meta), (True, meta))
        world.redis.kill()
        raises(redis.exceptions.ConnectionError, lambda: client.submit(Job("a.png", ops=["otsu"])))


def test_map():
    """a map of thousands of jobs: window, order, progress, memory"""
    with rig.World() as world, Client(connect(world.redis)) as client:
        world.start_daemon()
        taken, yielded, most, before, states = 0, 0, 0, 0, []

        def jobs(count):
            nonlocal taken
            for job in small(count):
                taken += 1
                yield job

        for result in client.map(jobs(3000), progress=states.append, timeout=rig.LIMIT_S):
            most = max(most, taken - yielded)
            yielded += 1
            assert result.ok
            before = rig.resident_bytes() if yielded == 1000 else before
        assert rig.resident_bytes() < before + 8e6
        equal((yielded, states[-1], states[-1].running), (3000, (3000, 3000, 0), 0))
        assert 8 <= most <= 64, most
        rig.until(lambda: connect(world.redis).dbsize() < 20)  # the last batch is deleted soon
        equal([r.meta for r in client.map(small(500), ordered=True, window=16)], list(range(500)))
        mixed = client.map([Job("a.png", ops=["otsu"]), Job("no.png", ops=["otsu"])], progress=states.append)
        equal(sorted(r.status for r in mixed), ["done", "failed"])
        equal(states[-1], (2, 1, 1))
        equal(list(client.map([])), [])
        # Bytes of jobs whose results nobody awaited are deleted.
        for result in client.map((Job(Upload(rig.png()), Download()) for _ in range(60))):
            break
        late = Job(Upload(rig.png()), Download(), not_before="+0.5", id="late")
        raises(concurrent.futures.TimeoutError, lambda: client.run(late, timeout=0.1))
        assert client.run(late, timeout=rig.LIMIT_S).outputs[0].data
        rig.until(lambda: len(connect(world.redis).keys("gpuimgd:img:*")) <= 2)
        handles = client.submit_many(small(300))
        all_once(client.results(handles, timeout=rig.LIMIT_S), 300)
        raises(DuplicateId, lambda: client.submit_many([Job("a.png", ops=["otsu"], id="x")] * 2))

        def broken():
            yield from small(10)
            raise KeyError("source")
        raises(KeyError, lambda: list(client.map(broken())))
        for result in client.map(small(100)):  # left early
            break
        all_once(client.map(small(100)), 100)
        # A slow source does not hold results back.
        at = []

        def slow():
            for job in small(3):
                yield job
                time.sleep(0.3)
            at.append("end")
        for result in client.map(slow()):
            at.append("result")
        equal(at[0], "result")

        # A job is sent while the source waits.
        def waiting():
            yield Job("a.png", ops=["otsu"], id="first")
            rig.until(lambda: client.kept_result("first"))
            yield Job("a.png", ops=["otsu"], id="second")
        pair = client.map(waiting(), progress=states.append)
        equal(sorted(r.id for r in pair), ["first", "second"])
        equal(states[-1], (2, 2, 0))

        def doubled():
            for job in [Job("a.png", ops=["otsu"], id="x", not_before="+60")] * 2:
                yield job
                yield job
                time.sleep(0.1)
        raises(DuplicateId, lambda: list(client.map(doubled())))


def test_many_threads():
    """more threads than the pool of redis-py has connections"""
    for limit in ({}, {"max_connections": 2}):
        with rig.World() as world, Client(connect(world.redis, **limit)) as client:
            world.start_daemon()
            link = connect(world.redis)
            with concurrent.futures.ThreadPoolExecutor(200) as pool:
                all_once(pool.map(lambda job: client.run(job, timeout=rig.LIMIT_S), small(400)), 400)
            assert link.info("stats")["total_connections_received"] < 60


def test_many_clients():
    """threads of one client, clients of one namespace, a forked process, decoded replies"""
    with rig.World() as world:
        world.start_daemon()
        clients = [Client(connect(world.redis, decode_responses=i == 0)) for i in range(3)]
        got = collections.defaultdict(list)

        def work(number):
            for i in range(20):
                job = Job(Upload(rig.png(8, 8, i)), Download(), meta=[number, i])
                result = clients[number % 3].run(job, timeout=rig.LIMIT_S)
                got[number].append((result.meta, result.outputs[0].data[:4]))
        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number in range(6):
            equal(got[number], [([number, i], b"\x89PNG") for i in range(20)])
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = 0 if clients[0].run(Job("a.png", ops=["otsu"]), timeout=rig.LIMIT_S).ok else 1
            finally:
                os._exit(status)
        equal(os.waitpid(child, 0)[1], 0)
        for client in clients:
            client.close()


rig.run(globals())
