"""The client with threads of the Python package, with real daemons and real Redis servers."""
import collections
import datetime
import os
import threading
import time

import redis
import redis.backoff
import redis.cluster
import redis.retry
import rig
from gpuimgd import (Client, ClientClosed, Download, DuplicateId, ErrorCode, Job, JobCancelled, JobDead,
                     JobFailed, Key, Upload, Variant, ops, out)
from rig import equal, raises

# A daemon's jobs come back quickly when it is killed.
BRISK = ("--lease_s=1.5", "--renew_s=0.4", "--reap_s=0.3", "--retry_delay_s=0.05")


def connect(server, **options):
    return redis.Redis(port=getattr(server, "port", server), **options)


def small(count, start=0, **more):
    """Jobs that only give a value."""
    return (Job("a.png", ops=["otsu"], meta=i, **more) for i in range(start, start + count))


def nested(depth):
    return [nested(depth - 1)] if depth else 0


def all_once(results, count):
    counts = collections.Counter(result.meta for result in results)
    equal(sorted(counts), list(range(count)))
    equal(set(counts.values()), {1})


def test_jobs():
    """files, bytes, values, errors and options of jobs"""
    with rig.World() as world, Client(connect(world.redis)) as client:
        world.start_daemon("--attempts=1")
        result = client.run(Job("a.png", "new/a.jpg", [ops.resize(width=8), "grayscale"]), timeout=15)
        equal((result.ok, result.outputs[0].width, result.outputs[0].format), (True, 8, "jpeg"))
        assert (world.folder / "out/new/a.jpg").read_bytes()[:2] == b"\xff\xd8"
        assert result.ms["queue"] >= 0 and result.raw["job"] == result.job
        # Bytes, an overlay, several outputs; nothing stays in Redis.
        logo = Upload(rig.png(4, 4))
        result = client.run(Job(Upload(rig.png()), outputs=[
            Variant(out.webp(Download(), quality=70), [ops.composite(input=logo, gravity="north")]),
            Variant(out.png(Download()), [ops.composite(input=logo), ops.rotate(angle=30)]),
            Variant(ops=[ops.histogram(gray=True), "phash"])]), timeout=15).raise_for_status()
        equal(result.outputs[0].data[8:12], b"WEBP")
        equal(result.outputs[1].data[:4], b"\x89PNG")
        equal(sum(result.outputs[2].values["histogram"][0]), 32 * 24)
        error = raises(JobFailed, client.run(Job("no.png", "x.png"), timeout=15).raise_for_status)
        equal((error.code, error.code.retryable), (ErrorCode.INPUT_MISSING, False))
        assert "no.png" in str(error)
        result = client.run({"input": "a.png", "ops": [{"op": "resize", "widht": 3}, "otsu"]}, timeout=15)
        equal(result.error.code, ErrorCode.BAD_OP)
        # Names beyond ASCII, and meta of every kind.
        for id, meta in (("Ж ü \"quoted\" \\ 🐈", None), ("x" * 128, {"a": [1, None]}), ("{b}", "ü")):
            result = client.run(Job("a.png", f"ü {len(id)} 🐈.png", id=id, meta=meta), timeout=15)
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
        equal(urgent.result(15).priority, 9)
        equal(same.result(15).same_as, one.result(30).job)
        assert later.result(15).ok and later.result().ms["queue"] >= 300
        equal(late.result(15).error.code, ErrorCode.EXPIRED)
        dead = client.run(Job("bad.png", ops=["otsu"]), timeout=15)
        equal(raises(JobDead, dead.raise_for_status).code, ErrorCode.INPUT_UNREADABLE)
        equal(plain.llen("gpuimgd:dead"), 1)
        again = client.run(Job("bad.png", ops=["otsu"]), timeout=15, retry_dead=2)
        equal((again.ok, again.job), (True, dead.job + 3))
        equal(plain.llen("gpuimgd:dead"), 1)  # jobs that are sent again leave it
        client.cancel(never)
        raises(JobCancelled, never.result(15).raise_for_status)
        assert client.cancel("same").ok
        handle = client.submit(Job("a.png", ops=["otsu"], not_before="+3600"))
        client.close()
        raises(ClientClosed, handle.result)
        raises(ClientClosed, lambda: client.submit(Job("a.png", ops=["otsu"])))


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
        raises(ValueError, lambda: Client(connect(world.redis), shards=65))
        raises(ValueError, lambda: next(client.map([], window=0)))
        plain = connect(world.redis)
        plain.set("gpuimgd:jobs", "not a list")
        raises(redis.ResponseError, lambda: client.submit(Job("a.png", ops=["otsu"], id="x")))
        plain.delete("gpuimgd:jobs")
        plain.execute_command("ACL", "SETUSER", "u", "on", "nopass", "~*", "+@all", "-blmove")
        with Client(connect(world.redis, username="u", password="x")) as denied:
            handle = denied.submit(Job("a.png", ops=["otsu"]))
            raises(redis.exceptions.NoPermissionError, lambda: handle.result(10))
        world.start_daemon()
        assert client.run(Job("a.png", ops=["otsu"], id="x"), timeout=15).ok
        # What is just allowed gets a result.
        for meta in (10**62 - 1, -10**61, 1.7e308, nested(15), "\u2028\x01\x7f"):
            result = client.run(Job(Upload(bytearray(rig.png())), ops=["otsu"], meta=meta), timeout=15)
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

        for result in client.map(jobs(3000), progress=states.append, timeout=15):
            most = max(most, taken - yielded)
            yielded += 1
            assert result.ok
            before = rig.resident_bytes() if yielded == 1000 else before
        assert rig.resident_bytes() < before + 8e6
        equal((yielded, states[-1], states[-1].running), (3000, (3000, 3000, 0), 0))
        assert 32 <= most <= 64, most
        assert connect(world.redis).dbsize() < 20
        equal([r.meta for r in client.map(small(500), ordered=True, window=16)], list(range(500)))
        mixed = client.map([Job("a.png", ops=["otsu"]), Job("no.png", ops=["otsu"])], progress=states.append)
        equal(sorted(r.status for r in mixed), ["done", "failed"])
        equal(states[-1], (2, 1, 1))
        equal(list(client.map([])), [])
        handles = client.submit_many(small(300))
        all_once(client.results(handles, timeout=15), 300)
        raises(DuplicateId, lambda: client.submit_many([Job("a.png", ops=["otsu"], id="x")] * 2))

        def broken():
            yield from small(10)
            raise KeyError("source")
        raises(KeyError, lambda: list(client.map(broken())))
        for result in client.map(small(100)):  # left early
            break
        all_once(client.map(small(100)), 100)
        # A slow source does not hold results back.
        begin, times = time.monotonic(), []

        def slow():
            for job in small(3):
                yield job
                time.sleep(0.2)
        for result in client.map(slow()):
            times.append(time.monotonic() - begin)
        assert times[0] < 0.55, times


def test_many_clients():
    """threads of one client, clients of one namespace, a forked process, decoded replies"""
    with rig.World() as world:
        world.start_daemon()
        clients = [Client(connect(world.redis, decode_responses=i == 0)) for i in range(3)]
        got = collections.defaultdict(list)

        def work(number):
            for i in range(20):
                job = Job(Upload(rig.png(8, 8, i)), Download(), meta=[number, i])
                result = clients[number % 3].run(job, timeout=15)
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
                status = 0 if clients[0].run(Job("a.png", ops=["otsu"]), timeout=15).ok else 1
            finally:
                os._exit(status)
        equal(os.waitpid(child, 0)[1], 0)
        for client in clients:
            client.close()


def test_killed_daemons():
    """daemons are killed amid a map: each result comes once, none is lost"""
    with rig.World() as world, Client(connect(world.redis)) as client:
        for _ in range(2):
            world.start_daemon(*BRISK)
        results = []
        for result in client.map(small(1500), timeout=15):
            results.append(result)
            if len(results) in (300, 700, 1100):
                world.daemons[-2].kill()
                world.start_daemon(*BRISK)
        all_once(results, 1500)
        assert all(result.ok for result in results)


def test_restarted_redis():
    """Redis is restarted amid a map, with its data and without: each result comes once"""
    for options in (("--appendonly", "yes", "--appendfsync", "always"), ("--appendonly", "no")):
        with rig.World(*options) as world, Client(connect(world.redis)) as client:
            world.start_daemon(*BRISK)
            results = []
            for result in client.map(small(1200), timeout=15):
                results.append(result)
                if len(results) in (300, 800):
                    world.redis.kill()
                    time.sleep(0.1)
                    assert world.redis.start()
            all_once(results, 1200)


def test_full_redis():
    """Redis is out of memory for a while amid a map: each result comes once"""
    with rig.World() as world, Client(connect(world.redis)) as client:
        world.start_daemon()
        plain, results = connect(world.redis), []
        for result in client.map(small(500), timeout=30):
            results.append(result)
            if len(results) == 200:
                plain.config_set("maxmemory", 1)
                threading.Timer(1, plain.config_set, ("maxmemory", 0)).start()
        all_once(results, 500)


def test_lost_replies():
    """replies of Redis are lost amid a map: each result comes once"""
    with rig.World() as world:
        world.start_daemon()
        proxy = rig.Proxy(world.redis.port)
        with Client(connect(proxy)) as client:
            for word in (b"LPUSH", b"BLMOVE", b"LRANGE", b"LREM"):
                results = []
                for result in client.map(small(300), timeout=15):
                    results.append(result)
                    if len(results) % 100 == 50:
                        proxy.lose(word, 2)
                all_once(results, 300)
            proxy.lose(b"GET", 2)
            result = client.run(Job(Upload(rig.png()), Download()), timeout=15)
            equal(result.outputs[0].data[:4], b"\x89PNG")
        proxy.close()


def test_short_timeout():
    """a socket timeout that is shorter than the wait for a result"""
    with rig.World() as world:
        world.start_daemon()
        with Client(connect(world.redis, socket_timeout=0.2)) as client:
            handle = client.submit(Job("a.png", ops=["otsu"], not_before=datetime.timedelta(seconds=1)))
            assert handle.result(15).ok


def test_shards():
    """4 shards on 2 servers: jobs, keys, cancels, ids; one server is restarted amid a map"""
    with rig.World("--appendonly", "yes", "--appendfsync", "always", servers=2) as world:
        world.start_daemon("--shards=4", "--namespace={x}", *BRISK)
        with Client([connect(s) for s in world.servers], namespace="{x}", shards=4) as client:
            results = []
            for result in client.map(small(800), timeout=15):
                results.append(result)
                if len(results) == 300:
                    world.servers[1].kill()
                    assert world.servers[1].start()
            all_once(results, 800)
            equal({result.shard for result in results}, {0, 1, 2, 3})
            equal(client.shard_of("123456789"), 2)
            equal(client.namespace_of("123456789"), "{x:2}")
            for i in range(8):
                result = client.run(Job(Upload(rig.png()), Download(), id=f"id {i}"), timeout=15)
                equal((result.ok, result.shard), (True, client.shard_of(f"id {i}")))
                equal(client.kept_result(f"id {i}").job, result.job)
                handle = client.submit(Job("a.png", ops=["otsu"], id=f"later {i}", not_before="+60"))
                client.cancel(handle)
                equal(handle.result(15).status, "cancelled")
            ns = client.namespace_of("mine")
            connect(world.servers[client.shard_of("mine") % 2]).set(f"{ns}:img:a", rig.png())
            assert client.run(Job(Key(f"{ns}:img:a"), ops=["otsu"], id="mine"), timeout=15).ok


def test_cluster():
    """2 shards on a Redis Cluster"""
    with rig.World("--cluster-enabled", "yes") as world:
        plain = connect(world.redis)
        plain.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        rig.until(lambda: "ok" in str(plain.execute_command("CLUSTER", "INFO")))
        world.start_daemon("--shards=2")
        cluster = redis.cluster.RedisCluster(host="127.0.0.1", port=world.redis.port)
        with Client(cluster, shards=2) as client:
            all_once(client.map(small(200), timeout=15), 200)
            result = client.run(Job(Upload(rig.png()), Download()), timeout=15)
            equal(result.outputs[0].data[:4], b"\x89PNG")
            handle = client.submit(Job("a.png", ops=["otsu"], not_before="+60"))
            client.cancel(handle)
            equal(handle.result(15).status, "cancelled")


rig.run(globals())
