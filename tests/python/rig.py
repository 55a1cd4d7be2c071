"""A Redis, daemons and images for the tests of the Python package, and TAP lines.

    rig.run(globals())   # runs all functions test_* of a module; each gets a World if it has a parameter

A World has a folder, a Redis and, after start_daemon, daemons; leaving it ends all of them."""
import collections
import importlib.util
import inspect
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zlib

import gpuimgd

PYTHON = sys.executable
# The longest wait for a result, and for other things that a slow machine delays.
LIMIT_S = 30 * float(os.environ.get("GPUIMGD_TEST_SLOW", 1))
BUILD = pathlib.Path(os.environ["GPUIMGD_BUILD"])


# Options of a daemon whose jobs come back quickly when it is killed.
BRISK = ("--lease_s=1.5", "--renew_s=0.4", "--reap_s=0.3", "--retry_delay_s=0.05")


def small(count, **more):
    """Jobs that only give a value."""
    return (gpuimgd.Job("a.png", ops=["otsu"], meta=i, **more) for i in range(count))


def all_once(results, count):
    counts = collections.Counter(result.meta for result in results)
    equal(sorted(counts), list(range(count)))
    equal(set(counts.values()), {1})


def png(width=32, height=24, shade=0):
    rows = b"".join(b"\0" + bytes((x * 7 + y * 3 + shade) % 256 for x in range(width) for _ in "rgb")
                    for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def has_module(name):
    return importlib.util.find_spec(name) is not None


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Redis:
    """A redis-server on a port of 127.0.0.1 that stays the same when it starts again."""

    def __init__(self, folder, *options, file=None):
        """file: the configuration of a Sentinel"""
        self.folder, self.options = pathlib.Path(folder), options
        self.command = ["redis-server", str(file), "--sentinel"] if file else ["redis-server", "--save", ""]
        self.folder.mkdir(exist_ok=True)
        self.process = None
        for _ in range(10):
            self.port = free_port()
            if self.start():
                return
        raise RuntimeError(f"redis-server does not start; see {self.folder}/log")

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [*self.command, "--bind", "127.0.0.1", "--port", str(self.port), "--dir",
                 str(self.folder), *self.options], stdout=log, stderr=log)
        end = time.monotonic() + 20
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if self.ask("PING").startswith(b"+PONG"):
                    return True
            except OSError:
                pass
            time.sleep(0.02)
        self.kill()
        return False

    def ask(self, command):
        """The beginning of the reply."""
        with socket.create_connection(("127.0.0.1", self.port), 1) as s:
            s.sendall(command.encode() + b"\r\n")
            return s.recv(65536)

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"


class World:
    def __init__(self, *redis_options, servers=1):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpuimgd-python."))
        self.daemons = []
        self.servers = []
        try:
            for name in ("in", "out"):
                (self.folder / name).mkdir()
            (self.folder / "in/a.png").write_bytes(png())
            self.servers = [Redis(self.folder / f"redis{i}", *redis_options) for i in range(servers)]
        except BaseException:
            self.close()
            raise

    @property
    def redis(self):
        return self.servers[0]

    def start_daemon(self, *options, **variables):
        if "LD_PRELOAD" in variables:  # before a sanitizer
            variables["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        log = open(self.folder / f"daemon{len(self.daemons)}.log", "wb")
        environment = {k: v for k, v in os.environ.items()
                       if k not in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "JOURNAL_STREAM")}
        self.daemons.append(subprocess.Popen(
            [str(BUILD / "gpuimgd"), "-c", "/dev/null", "--engine=cpu", "--workers=1",
             "--redis=" + " ".join(server.address for server in self.servers),
             f"--input_root={self.folder}/in", f"--output_root={self.folder}/out",
             "--block_s=0.2", *options],
            stdout=log, stderr=log, env={**environment, **variables}))
        log.close()
        until(lambda: self.daemons[-1].poll() is not None or b": connected" in self._log())
        assert self.daemons[-1].poll() is None, self._log()
        return self.daemons[-1]

    def _log(self):
        return (self.folder / f"daemon{len(self.daemons) - 1}.log").read_bytes()

    def close(self):
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()
        for server in self.servers:
            server.kill()
        if os.environ.get("GPUIMGD_TEST_KEEP"):
            print(f"# {self.folder} is kept")
        else:
            shutil.rmtree(self.folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Proxy:
    """Forwards connections to a Redis. While `cuts` is above 0, a request that contains `word` is
    forwarded, and its reply is lost with the connection."""

    def __init__(self, port):
        self.target, self.cuts, self.word = port, 0, b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, word, times):
        self.word, self.cuts = word, times

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._copy, args=(*pair, pair[0] is client), daemon=True).start()

    def _copy(self, source, target, is_request):
        try:
            while True:
                data = source.recv(1 << 20)
                if not data:
                    break
                if is_request and self.cuts > 0 and self.word in data:
                    self.cuts -= 1
                    source.shutdown(socket.SHUT_RDWR)  # before the reply can come
                    target.sendall(data)
                    time.sleep(0.05)
                    break
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            end.close()

    def close(self):
        self.listener.close()


def resident_bytes():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def until(true):
    """Waits until the function returns something true, and returns it."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        value = true()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"not true within {LIMIT_S} s: {inspect.getsource(true).strip()}")


def raises(kind, call):
    try:
        value = call()
    except kind as error:
        return error
    raise AssertionError(f"it returned {value!r} instead of raising {kind}")


def equal(got, wanted):
    assert got == wanted, f"got {got!r}, not {wanted!r}"


def run(names):
    """Runs the tests in their order. A test that is skipped raises Skip."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    failures = 0
    wanted = sys.argv[1:]
    for name, test in list(names.items()):
        if not name.startswith("test_") or (wanted and name not in wanted):
            continue
        what = " ".join((test.__doc__ or name).split())
        begin = time.monotonic()
        try:
            test()
            line = f"ok - {what} # {time.monotonic() - begin:.1f} s"
        except Skip as skip:
            line = f"ok - {what} # SKIP {skip}"
        except Exception:
            failures += 1
            line = f"not ok - {what}\n" + "".join(
                f"    | {text}\n" for text in traceback.format_exc().splitlines()[-25:])
        print(line.rstrip("\n"), flush=True)
    sys.exit(failures > 0)


class Skip(Exception):
    pass
