"""The client for asyncio of the Python package, with real daemons and real Redis servers."""
import asyncio
import time

import redis.asyncio
import redis.asyncio.sentinel
import rig
from gpuimgd import (AsyncClient, ClientClosed, Download, DuplicateId, Job, Upload, ops, out)
from rig import BRISK, all_once, equal, small

def connect(server, **options):
    return redis.asyncio.Redis(port=getattr(server, "port", server), **options)


async def close(*clients):
    for client in clients:
        await (client.aclose() if hasattr(client, "aclose") else client.close())


async def fails(kind, awaitable):
    try:
        value = await awaitable
    except kind as error:
        return error
    raise AssertionError(f"it returned {value!r} instead of raising {kind}")


def test_jobs():
    """asyncio: files, bytes, cancels, waits with a limit, closed clients"""
    async def main(world):
        link = connect(world.redis)
        async with AsyncClient(link) as client:
            result = await client.run(Job("a.png", "b.jpg", [ops.resize(width=8)]), timeout=rig.LIMIT_S)
            equal((result.ok, result.outputs[0].width), (True, 8))
            results = await asyncio.gather(*[
                client.run(Job(Upload(rig.png(8, 8, i)), out.webp(Download(), quality=i + 1), meta=i),
                           timeout=rig.LIMIT_S) for i in range(50)])
            equal([r.meta for r in results], list(range(50)))
            equal({r.outputs[0].data[8:12] for r in results}, {b"WEBP"})
            handle = await client.submit(Job("a.png", ops=["otsu"], id="x", not_before="+60"))
            await fails(DuplicateId, client.submit(Job("a.png", ops=["otsu"], id="x")))
            await fails(asyncio.TimeoutError, handle.result(0.1))
            assert not handle.done()
            handles = await client.submit_many(small(20))
            all_once([r async for r in client.results(handles, timeout=rig.LIMIT_S)], 20)
            waiting = asyncio.ensure_future(handle.result())
            await asyncio.sleep(0)
            waiting.cancel()
            equal(await client.cancel(handle), None)
            equal((await handle).status, "cancelled")
            equal((await client.kept_result("x")).status, "cancelled")
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.wait(others)
            assert (await client.run(Job("a.png", ops=["otsu"]), timeout=rig.LIMIT_S)).ok
            left = await client.submit(Job("a.png", ops=["otsu"], not_before="+60"))
        await fails(ClientClosed, left.result())
        equal([k async for k in link.scan_iter("gpuimgd:img:*")], [])
        await close(link)
    with rig.World() as world:
        world.start_daemon()
        asyncio.run(main(world))


def test_many_calls():
    """asyncio: more calls at once than the pool of redis-py has connections; Redis is away, and back"""
    async def main(world):
        for limit in ({}, {"max_connections": 2}):
            link = connect(world.redis, **limit)
            async with AsyncClient(link) as client:
                calls = [client.run(job, timeout=rig.LIMIT_S) for job in small(400)]
                all_once(await asyncio.gather(*calls), 400)
                world.redis.kill()
                calls = [asyncio.ensure_future(client.run(job)) for job in small(400)]
                await asyncio.sleep(0.5)
                for call in calls[::2]:
                    call.cancel()
                assert world.redis.start()
                results = await asyncio.wait_for(asyncio.gather(*calls[1::2]), rig.LIMIT_S)
                equal([result.meta for result in results], list(range(1, 400, 2)))
            await close(link)
    with rig.World() as world:
        world.start_daemon(*BRISK)
        asyncio.run(main(world))


async def turns_of_loop(count):
    for _ in range(count):
        await asyncio.sleep(0)


class Slow:
    """A Redis that takes some turns of the event loop, and has no results."""

    def pipeline(self, transaction):
        return SlowPipeline()

    async def execute_command(self, *command, **_):
        await (asyncio.Event().wait() if command[0] == "BLMOVE" else turns_of_loop(30))


class SlowPipeline:
    def __init__(self):
        self.replies = []

    def execute_command(self, *command, **_):
        self.replies.append([] if command[0] == "LRANGE" else 1)

    async def execute(self, raise_on_error):
        await turns_of_loop(30)
        return self.replies


def test_cancelled_calls():
    """asyncio: a call is cancelled at any of its steps, also while it waits for its turn"""
    async def main(busy, waits, turns):
        client = AsyncClient(Slow())
        client._commands_max = 1
        others = [asyncio.ensure_future(client.kept_result("x")) for _ in range(busy)]
        call = asyncio.ensure_future(client.submit(Job("a.png", ops=["otsu"])))
        if waits:
            await asyncio.wait(others)
        await turns_of_loop(turns)
        call.cancel()
        await fails(asyncio.CancelledError, call)
        equal(client._core.shards[0].pending, {})
        await asyncio.gather(*others)
        assert client._turns is None or not client._turns.locked()
        for task in client._tasks.values():
            task.cancel()
        await client.aclose()
    for busy, waits in ((0, False), (1, False), (1, True), (3, True)):
        for turns in range(12):
            asyncio.run(asyncio.wait_for(main(busy, waits, turns), rig.LIMIT_S))


def test_refusals():
    """asyncio: wrong arguments"""
    async def main():
        for wrong in (redis.Redis(), "redis://127.0.0.1", None, redis.asyncio.sentinel.Sentinel([])):
            try:
                AsyncClient(wrong)
            except TypeError as error:
                assert "redis.asyncio" in str(error), error
            else:
                raise AssertionError(f"it takes {wrong!r}")
        async with AsyncClient(connect(1)) as client:
            await fails(TypeError, client.run("a.png"))
            await fails(TypeError, client.map(["a.png"]).__anext__())
    asyncio.run(main())


def test_map():
    """asyncio: maps from iterables of both kinds, window, order, progress"""
    async def main(world):
        link = connect(world.redis, decode_responses=True)
        async with AsyncClient(link) as client:
            taken = yielded = most = 0
            states = []

            async def jobs():
                nonlocal taken
                for job in small(2000):
                    taken += 1
                    yield job
            async for result in client.map(jobs(), progress=states.append, timeout=rig.LIMIT_S):
                most = max(most, taken - yielded)
                yielded += 1
            equal((yielded, states[-1]), (2000, (2000, 2000, 0)))
            assert 8 <= most <= 64, most
            equal([r.meta async for r in client.map(small(300), ordered=True)], list(range(300)))
            both = await asyncio.gather(*[_list(client.map(small(200))) for _ in range(3)])
            for results in both:
                all_once(results, 200)

            async def waiting():
                yield Job("a.png", ops=["otsu"], id="first")
                while not await client.kept_result("first"):
                    await asyncio.sleep(0.01)
                yield Job("a.png", ops=["otsu"], id="second")
            pair = await asyncio.wait_for(_list(client.map(waiting())), rig.LIMIT_S)
            equal(sorted(r.id for r in pair), ["first", "second"])

            async def doubled():
                for job in [Job("a.png", ops=["otsu"], id="x", not_before="+60")] * 2:
                    yield job
                    await asyncio.sleep(0.1)
                    yield job
            await fails(DuplicateId, _list(client.map(doubled())))
        await close(link)
    with rig.World() as world:
        world.start_daemon()
        asyncio.run(main(world))


async def _list(results):
    return [result async for result in results]


def test_faults():
    """asyncio: daemons and Redis are killed amid a map over 2 shards: each result comes once"""
    async def main(world):
        links = [connect(server) for server in world.servers]
        async with AsyncClient(links, shards=2) as client:
            results = []
            async for result in client.map(small(1500), timeout=rig.LIMIT_S):
                results.append(result)
                if len(results) in (200, 900):
                    world.daemons[-2].kill()
                    world.start_daemon("--shards=2", *BRISK)
                if len(results) == 500:
                    world.servers[1].kill()
                    time.sleep(0.05)
                    assert world.servers[1].start()
            all_once(results, 1500)
            equal({result.shard for result in results}, {0, 1})
        await close(*links)
    with rig.World(servers=2) as world:
        for _ in range(2):
            world.start_daemon("--shards=2", *BRISK)
        asyncio.run(main(world))


def test_sentinel():
    """asyncio: Sentinel promotes a replica amid a map: each result comes once"""
    async def main(world, port):
        watch = redis.asyncio.sentinel.Sentinel([("127.0.0.1", port)], socket_timeout=0.5)
        link = watch.master_for("main")
        async with AsyncClient(link) as client:
            results = []
            async for result in client.map(small(1000), timeout=rig.LIMIT_S):
                results.append(result)
                if len(results) == 300:
                    world.redis.kill()
            all_once(results, 1000)
        await close(link, *watch.sentinels)
    with rig.World() as world:
        world.servers.append(rig.Redis(world.folder / "replica", "--replicaof", "127.0.0.1",
                                       str(world.redis.port), "--repl-diskless-sync-delay", "0"))
        (world.folder / "sentinel.conf").write_text(
            f"sentinel monitor main 127.0.0.1 {world.redis.port} 1\nsentinel failover-timeout main 3000\n"
            "sentinel down-after-milliseconds main 300\n")
        sentinel = rig.Redis(world.folder / "sentinel", file=world.folder / "sentinel.conf")
        world.servers.append(sentinel)
        rig.until(lambda: b"slaves=1" in sentinel.ask("INFO sentinel"))
        world.start_daemon(f"--redis=sentinel://main@127.0.0.1:{sentinel.port}", *BRISK)
        asyncio.run(main(world, sentinel.port))


rig.run(globals())
