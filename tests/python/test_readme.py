"""Runs each example of the package's README.md."""
import contextlib
import functools
import io
import os
import pathlib
import re

import redis
import redis.asyncio
import rig

README = pathlib.Path(__file__).resolve().parents[2] / "queue/clients/python/README.md"


def examples():
    """The indented blocks that begin with an import."""
    blocks = re.findall(r"(?m)^(?:    .*\n|\n(?=    ))+", README.read_text(encoding="utf-8"))
    texts = [re.sub(r"(?m)^    ", "", block).strip("\n") + "\n" for block in blocks]
    return [text for text in texts if text.startswith("import")]


def test_readme():
    """the examples of the package's README.md run"""
    with rig.World() as world:
        world.start_daemon()
        os.chdir(world.folder)
        for place in ("in/cat.jpg", "cat.jpg"):
            pathlib.Path(place).write_bytes(rig.png(100, 80))
        for kind in (redis, redis.asyncio):
            kind.Redis = functools.partial(kind.Redis, port=world.redis.port)
        found = examples()
        for text in found:
            if "jsonschema" in text and not rig.has_module("jsonschema"):
                continue
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(text, str(README), "exec"), {"__name__": "example"})
        assert len(found) >= 6, len(found)
        for name in ("out/small/cat.webp", "out/square.jpg", "edges.png", "out/many/199.jpg", "out/63.webp"):
            assert pathlib.Path(name).stat().st_size > 0, name
        os.chdir("/")


rig.run(globals())
