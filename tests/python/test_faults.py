"""The client with threads of the Python package, while daemons, Redis and connections fail."""
import datetime
import os
import threading
import time

import redis
import redis.cluster
import rig
from gpuimgd import Client, Download, Job, Key, Upload
from rig import BRISK, all_once, equal, raises, small


def connect(server, **options):
    return redis.Redis(port=server.port, **options)


def test_killed_daemons():
    """daemons are killed amid a map: each result comes once, none is lost"""
    with rig.World() as world, Client(connect(world.redis)) as client:
        for _ in range(2):
            world.start_daemon(*BRISK)
        results = []
        for result in client.map(small(1500), timeout=rig.LIMIT_S):
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
            for result in client.map(small(1200), timeout=rig.LIMIT_S):
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
        for result in client.map(small(500), timeout=rig.LIMIT_S):
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
                for result in client.map(small(300), timeout=rig.LIMIT_S):
                    results.append(result)
                    if len(results) % 100 == 50:
                        proxy.lose(word, 2)
                all_once(results, 300)
            proxy.lose(b"GET", 2)
            result = client.run(Job(Upload(rig.png()), Download()), timeout=rig.LIMIT_S)
            equal(result.outputs[0].data[:4], b"\x89PNG")
        proxy.close()


def test_dead_program():
    """a program dies: after its start it gets the bytes of its jobs by their ids"""
    with rig.World() as world:
        world.start_daemon()
        job = Job(Upload(rig.png()), Download(), id="order:1", unique=True)
        child = os.fork()
        if child == 0:
            Client(connect(world.redis)).submit(job)
            os._exit(0)
        os.waitpid(child, 0)
        plain = connect(world.redis, decode_responses=True)
        rig.until(lambda: plain.exists("gpuimgd:result:order:1"))
        with Client(connect(world.redis)) as client:
            for result in (client.kept_result("order:1"), client.run(job, timeout=rig.LIMIT_S),
                           client.run(job, timeout=rig.LIMIT_S)):
                assert result.ok, result
                equal(result.outputs[0].data[:4], b"\x89PNG")
            # A key that is no Download of this job is left alone.
            plain.set("gpuimgd:img:mine", "secret")
            plain.set("gpuimgd:result:other", '{"id":"other","job":1,"status":"done","outputs":[7,'
                      '{"key":"gpuimgd:img:mine"},{"key":null},{}]}')
            raises(Exception, lambda: client.kept_result("other"))


def test_late_upload():
    """Redis keeps the bytes of a job that starts late"""
    with rig.World() as world, Client(connect(world.redis), data_ttl_s=2) as client:
        later = datetime.timedelta(days=3)
        now = datetime.datetime.now(datetime.timezone.utc)
        for when in (later, now + later, time.time() + 3 * 86400, "+259200"):
            client.submit(Job(Upload(rig.png()), ops=["otsu"], not_before=when))
        plain = connect(world.redis)
        times = [plain.ttl(key) for key in plain.keys("gpuimgd:img:*")]
        assert len(times) == 4 and min(times) > 3 * 86400 - 60 and max(times) <= 3 * 86400 + 2, times
        plain.flushall()
        for when in ("soon", "+nan", "+inf", None, 0, -1, "", "+1e300", 1e300):
            handle = client.submit(Job(Upload(rig.png()), ops=["otsu"], not_before=when))
            client.forget([handle])
        equal(len(plain.keys("gpuimgd:img:*")), 9)


def test_short_timeout():
    """a socket timeout that is shorter than the wait for a result"""
    with rig.World() as world:
        world.start_daemon()
        with Client(connect(world.redis, socket_timeout=0.2)) as client:
            handle = client.submit(Job("a.png", ops=["otsu"], not_before=datetime.timedelta(seconds=1)))
            assert handle.result(rig.LIMIT_S).ok


def test_shards():
    """4 shards on 2 servers: jobs, keys, cancels, ids; one server is restarted amid a map"""
    with rig.World("--appendonly", "yes", "--appendfsync", "always", servers=2) as world:
        world.start_daemon("--shards=4", "--namespace={x}", *BRISK)
        with Client([connect(s) for s in world.servers], namespace="{x}", shards=4) as client:
            results = []
            for result in client.map(small(800), timeout=rig.LIMIT_S):
                results.append(result)
                if len(results) == 300:
                    world.servers[1].kill()
                    assert world.servers[1].start()
            all_once(results, 800)
            equal({result.shard for result in results}, {0, 1, 2, 3})
            equal(client.shard_of("123456789"), 2)
            equal(client.namespace_of("123456789"), "{x:2}")
            for i in range(8):
                result = client.run(Job(Upload(rig.png()), Download(), id=f"id {i}"), timeout=rig.LIMIT_S)
                equal((result.ok, result.shard), (True, client.shard_of(f"id {i}")))
                equal(client.kept_result(f"id {i}").job, result.job)
                handle = client.submit(Job("a.png", ops=["otsu"], id=f"later {i}", not_before="+60"))
                client.cancel(handle)
                equal(handle.result(rig.LIMIT_S).status, "cancelled")
            ns = client.namespace_of("mine")
            connect(world.servers[client.shard_of("mine") % 2]).set(f"{ns}:img:a", rig.png())
            assert client.run(Job(Key(f"{ns}:img:a"), ops=["otsu"], id="mine"), timeout=rig.LIMIT_S).ok


def test_cluster():
    """2 shards on a Redis Cluster"""
    with rig.World("--cluster-enabled", "yes") as world:
        plain = connect(world.redis)
        plain.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        rig.until(lambda: "ok" in str(plain.execute_command("CLUSTER", "INFO")))
        world.start_daemon("--shards=2")
        cluster = redis.cluster.RedisCluster(host="127.0.0.1", port=world.redis.port)
        with Client(cluster, shards=2) as client:
            all_once(client.map(small(200), timeout=rig.LIMIT_S), 200)
            result = client.run(Job(Upload(rig.png()), Download()), timeout=rig.LIMIT_S)
            equal(result.outputs[0].data[:4], b"\x89PNG")
            handle = client.submit(Job("a.png", ops=["otsu"], not_before="+60"))
            client.cancel(handle)
            equal(handle.result(rig.LIMIT_S).status, "cancelled")


rig.run(globals())
