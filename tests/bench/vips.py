"""libvips as a contestant of host.py: a process per CPU, each with one thread.

The library is that of --libvips, of the system (Debian: libvips42), or of the package pyvips-binary
in Python's path. It makes the same sizes with the same qualities and efforts as the daemon, from
files to files in the same memory. JPEGs and WebPs are decoded at a fraction of their size if that
is enough. If a job has several outputs, the largest one is made from the file, and the others from
the largest one. libvips has no BlurHash and no pHash: such outputs are left out.
"""
import ctypes
import ctypes.util
import glob
import multiprocessing
import os
import resource
import sys
import tempfile
import time

from daemons import Failed, measure_turns

COORDINATE_MAX = 10000000 # VIPS_MAX_COORD
SIZE_BOTH, SIZE_DOWN = 0, 2
CROP_NONE, CROP_CENTRE = 0, 1
# The defaults of the daemon, but for AVIF: libvips's effort 0 is speed 9 of libaom.
SAVERS = {"jpg": "Q=85", "webp": "Q=80,effort=2", "avif": "Q=60,effort=0"}
STARTED_S, TURN_S = 20, 60


def find_library(given):
    found = given or ctypes.util.find_library("vips")
    for place in sys.path:
        found = found or next(iter(glob.glob(f"{place}/pyvips_binary.libs/libvips*.so*")), None)
    if not found:
        raise Failed("there is no libvips: install libvips42, or name a library with --libvips")
    return found


class Library:
    def __init__(self, path):
        self.vips = ctypes.CDLL(path)
        self.vips.vips_error_buffer.restype = ctypes.c_char_p
        self.vips.vips_image_copy_memory.restype = ctypes.c_void_p
        self.check(self.vips.vips_init(b"host.py"))
        self.version = tuple(self.vips.vips_version(part) for part in range(3))
        self.vips.vips_cache_set_max(0) # a file that was read before would cost nothing
        self.vips.vips_concurrency_set(1)
        keep = "keep=icc" if self.version >= (8, 15) else "strip"
        self.savers = {suffix: f"[{how},{keep}]".encode() for suffix, how in SAVERS.items()}

    def check(self, failed):
        if failed:
            raise RuntimeError(self.vips.vips_error_buffer().decode(errors="replace"))

    def thumbnail(self, source, width, height, crop, size):
        """source: a path or an image. Returns an image; release it."""
        made = ctypes.c_void_p()
        call = self.vips.vips_thumbnail if isinstance(source, bytes) else \
            self.vips.vips_thumbnail_image
        self.check(call(source, ctypes.byref(made), ctypes.c_int(width), b"height",
                        ctypes.c_int(height), b"crop", ctypes.c_int(crop), b"size",
                        ctypes.c_int(size), None))
        return made

    def in_memory(self, image):
        made = ctypes.c_void_p(self.vips.vips_image_copy_memory(image))
        self.check(not made)
        self.release(image)
        return made

    def release(self, image):
        self.vips.g_object_unref(image)

    def save(self, image, path, suffix):
        self.check(self.vips.vips_image_write_to_file(image, path + self.savers[suffix], None))

    def run(self, source, outputs):
        """outputs: path, suffix and arguments of thumbnail(), the largest first."""
        first = None
        for path, suffix, arguments in outputs:
            image = self.thumbnail(first or source, *arguments)
            if not first and len(outputs) > 1:
                image = first = self.in_memory(image)
            self.save(image, path, suffix)
            if image is not first:
                self.release(image)
        if first:
            self.release(first)


def arguments_of(ops):
    """Returns those of thumbnail() for one `resize`."""
    if len(ops) != 1 or ops[0]["op"] != "resize":
        raise Failed(f"only for jobs of one resize, not {ops}")
    resize = ops[0]
    width, height = (resize.get(side, COORDINATE_MAX) for side in ("width", "height"))
    if resize.get("fit") == "cover":
        return width, height, CROP_CENTRE, SIZE_BOTH
    return width, height, CROP_NONE, SIZE_DOWN


def requests_of(work, folder):
    """Returns source and outputs per number of a job whose outputs are kept."""
    requests = []
    for number in range(work.kept):
        names, outputs = iter(work.names(number)), []
        for suffix, ops, *_ in work.outputs_of(number):
            if suffix:
                path = os.path.join(folder, next(names))
                outputs.append((path.encode(), suffix, arguments_of(ops)))
        outputs.sort(key=lambda output: -output[2][0])
        requests.append((work.photos[number % len(work.photos)].path.encode(), outputs))
    return requests


def serve(path, requests, following, pipe):
    """A process: runs the jobs of a turn together with the others, and sends its CPU seconds."""
    try:
        library = Library(path)
        pipe.send(library.version)
        while (count := pipe.recv()):
            before = resource.getrusage(resource.RUSAGE_SELF)
            while True:
                with following.get_lock():
                    number = following.value
                    following.value += 1
                if number >= count:
                    break
                library.run(*requests[number % len(requests)])
            after = resource.getrusage(resource.RUSAGE_SELF)
            pipe.send(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    except Exception as error: # the parent reports it
        pipe.send(error)


class Vips:
    """The processes for one work."""

    def __init__(self, work, folder, options):
        path, requests = find_library(options.libvips), requests_of(work, folder)
        context = multiprocessing.get_context("fork")
        os.environ["VIPS_WARNING"] = "1" # no warnings
        self.following, self.pipes, self.processes = context.Value("q", 0), [], []
        for _ in range(options.threads):
            pipe, end = context.Pipe()
            self.processes.append(context.Process(
                target=serve, args=(path, requests, self.following, end), daemon=True))
            self.processes[-1].start()
            self.pipes.append(pipe)
        self.version = ".".join(map(str, [self.receive(pipe, STARTED_S) for pipe in self.pipes][0]))

    def receive(self, pipe, seconds):
        if not pipe.poll(seconds):
            raise Failed(f"libvips does not answer for {seconds} s")
        answer = pipe.recv()
        if isinstance(answer, Exception):
            raise Failed(f"libvips: {answer}")
        return answer

    def turn(self, work, count):
        self.following.value, start = 0, time.monotonic()
        for pipe in self.pipes:
            pipe.send(count)
        used = sum(self.receive(pipe, TURN_S) for pipe in self.pipes)
        wall = time.monotonic() - start
        return {"wall_s": wall, "images_s": count / wall, "mp_s": count * work.mp / wall,
                "workers_us": used * 1e6 / count, "cpus_busy": used / wall / os.cpu_count()}

    def close(self):
        for process in self.processes:
            process.terminate()
            process.join()


def measure_vips(work, options):
    with tempfile.TemporaryDirectory(prefix="gpuimgd-bench-") as folder:
        vips = Vips(work, folder, options)
        try:
            return {**measure_turns(work, vips, options), "version": vips.version}
        finally:
            vips.close()
