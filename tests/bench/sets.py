#!/usr/bin/env python3
"""Measures jobs with many images: lists and shards beside single jobs, bounds and other libraries.

    sets.py --build DIR --folder F [--quick] [--seconds 3] [--rounds 2] [--only WORD,...]
            [--engine auto] [--distinct 256] [--flight 32] [--baseline PROGRAM] [--pairs 5]
            [--python PROGRAM] [--no-peers] [--dali-device] [--pcie 54.7] [--codec 570000]
            [--options OPTIONS] [--json FILE]

All files are in memory (/dev/shm, or $TMPDIR). The images are crops of the photographs of the folder
(set_data.py), a few hundred distinct ones, which repeat:

- edges: JPEGs of 256 x 256, about 10 KB, to JPEG edges (grayscale, sobel): single jobs, lists of 256
  (files to files), and shards of 10,000 (tar to tar)
- tensors: JPEGs like ImageNet's (500 x 375, about 110 KB) to float16 CHW of 224 x 224: single jobs,
  and shards of 1,000, to a tar of npy members, and to one array
- crops: the same images to JPEGs of 224 x 224: single jobs, and shards of 1,000
- peers: tensors and crops with other libraries (set_peers.py), a worker per CPU

The daemon has its default options. For each turn it is paused until all jobs are in Redis; the clock
stops when the last result has arrived. Jobs of a turn: what takes about --seconds, at least --flight
for shards. A turn before warms up; figures are medians of --rounds turns. This program takes results
and deletes outputs as a consumer does ("client"). "loop", "workers", "device", "Redis" and "client"
are CPU cores in use.

Every result must be done with the expected number of images. Of each work, the outputs of a job are
compared with those of single jobs, byte for byte: members of a tar also in their names and order.

"bound" is the least of: reading and writing these bytes in tmpfs with all CPUs (measured), PCIe
(--pcie GB/s in each direction), and the codec of the device (--codec images of 256 x 256 per second,
scaled by pixels); without a device, the codecs alone on all CPUs (floor.h), which encode a JPEG also
for tensors, replace the last two.
--baseline is an older gpuimgd for single jobs: pairs of turns alternate, and the ratio is printed.
"""
import argparse
import concurrent.futures
import hashlib
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

import set_peers
from daemons import JOBS_MAX, Daemons, Failed, device_share, middle
from photos import copy_photos
from rig import prefer_memory
from set_bounds import Bounds
from set_data import kinds, make_images, make_shard, member_name

EDGES = ["grayscale", "sobel"]
FIT = {"op": "resize", "width": 256, "height": 256, "fit": "outside", "filter": "bilinear",
       "fast_shrink": False}
CROP = [FIT, {"op": "crop", "width": 224, "height": 224}]
TENSOR = {"type": "f16", "layout": "chw", "channels": "rgb", "normalize": {
    "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}}
LIST, SMALL_SHARD, SHARD = 256, 10000, 1000
QUICK_SMALL_SHARD, QUICK_SHARD = 500, 100
NPY_BYTES = 128 + 3 * 224 * 224 * 2
FILES = 1 << 22       # names of outputs: more than a turn has images
STALL_S = 60          # a turn without a new result for so long has failed
TURNS_MAX = 12        # until one takes long enough


# ---- works --------------------------------------------------------------------------------------

class Work:
    """One way to send a kind of job. images: per job."""

    def __init__(self, name, kind, ops, how, images, least):
        self.name, self.kind, self.ops, self.how = name, kind, ops, how
        self.images, self.least, self.out_bytes = images, least, 0
        self.suffix = "npy" if "type" in how else "jpg"
        self.stem = re.sub("[ ,]+", "-", name)

    def most(self):
        return JOBS_MAX

    def outputs(self, _number):
        """Paths to delete when the result has come."""
        return []


class Single(Work):
    def file(self, number):
        return f"{self.stem}/{number % FILES}.{self.suffix}"

    def job(self, number):
        return {"input": self.kind.file(number),
                "output": {"path": self.file(number), **self.how}, "ops": self.ops}

    def made(self, number, folder):
        yield os.path.join(folder, self.file(number))


class List(Work):
    def folder(self, number):
        return f"{self.stem}/{number % (FILES // LIST)}"

    def job(self, number):
        return {"inputs": [self.kind.file(i) for i in range(self.images)], "ops": self.ops,
                "output": {"path": f"{self.folder(number)}/%n.{self.suffix}", **self.how}}

    def made(self, number, folder):
        for i in range(self.images):
            yield os.path.join(folder, self.folder(number), member_name(i, self.suffix))


class Shard(Work):
    def __init__(self, *args, shards, array=False):
        super().__init__(*args)
        self.shards, self.array = shards, array

    def file(self, number):
        return f"{self.stem}-{number}.{'npy' if self.array else 'tar'}"

    def job(self, number):
        how = {**self.how, "pack": "array"} if self.array else self.how
        if not self.array and self.suffix == "npy":
            how = {**how, "format": "npy"}
        return {"inputs": {"archive": self.shards[number % len(self.shards)]}, "ops": self.ops,
                "output": {"path": self.file(number), **how}}

    def outputs(self, number):
        return [self.file(number)]

    def made(self, number, folder):
        yield os.path.join(folder, self.file(number))


def make_works(options, small, large, small_shards, shards):
    """Returns groups of works: the first of each is that of the single jobs."""
    lists = 4 if options.quick else options.flight
    flight = 2 if options.quick else options.flight
    members, small_members = options.shard, options.small_shard
    return [
        [Single("edges, single jobs", small, EDGES, {}, 1, 512),
         List(f"edges, lists of {LIST}", small, EDGES, {}, LIST, lists),
         Shard(f"edges, shards of {small_members:,}", small, EDGES, {}, small_members, flight,
               shards=small_shards)],
        [Single("tensors, single jobs", large, CROP, TENSOR, 1, 256),
         Shard(f"tensors, shards of {members:,}", large, CROP, TENSOR, members, flight,
               shards=shards),
         Shard(f"tensors, arrays of {members:,}", large, CROP, TENSOR, members, flight,
               shards=shards, array=True)],
        [Single("crops, single jobs", large, CROP, {}, 1, 256),
         Shard(f"crops, shards of {members:,}", large, CROP, {}, members, flight,
               shards=shards)]]


# ---- turns --------------------------------------------------------------------------------------

class Runner:
    """A daemon, and what one turn of it needs."""

    def __init__(self, program, folder, options):
        self.daemons = Daemons(program, folder, 1, f"--engine={options.engine}", *options.options)
        line = self.daemons.wait_for_logs(r"gpuimgd \S+ on .*: \d+ workers", 1)[0]
        self.description = re.search(r"gpuimgd \S+ on (.*)", line).group(1)
        self.out, self.kept = self.daemons.out, None
        # One thread frees 10 GB of a tmpfs per second: less than the daemon writes.
        self.removers = concurrent.futures.ThreadPoolExecutor(4)

    def check(self, work, text):
        """Raises unless a result has all images. Returns the job's number."""
        result = json.loads(text)
        images = result.get("images", {"count": 1, "done": 1, "failed": 0})
        found = [images.get(key) for key in ("count", "done", "failed")]
        if result["status"] != "done" or found != [work.images, work.images, 0]:
            raise Failed(f"not done with {work.images} images: {text[:400].decode()}")
        return int(result["id"].rpartition("-")[2])

    def collect(self, work, count):
        """Takes the results. Deletes their outputs but for those of job 0."""
        seen, moved = 0, time.monotonic()
        while seen < count:
            texts = self.daemons.client("RPOP", "gpuimgd:results", 100)
            if not texts:
                if time.monotonic() - moved > STALL_S:
                    raise Failed(f"no result for {STALL_S} s: "
                                 f"{self.daemons.last_error(self.daemons.logs[0])}")
                time.sleep(0.001)
                continue
            moved = time.monotonic()
            for text in texts:
                number = self.check(work, text)
                for name in work.outputs(number) if number else []:
                    self.removers.submit(os.unlink, os.path.join(self.out, name))
            seen += len(texts)

    def turn(self, work, count):
        """Runs `count` jobs. Returns images per second and cores in use."""
        jobs = [json.dumps({"id": f"job-{number}", **work.job(number)}) for number in range(count)]
        self.daemons.pause()
        subprocess.run(["rm", "-rf", os.path.join(self.out, work.stem)], check=True)
        self.daemons.push(jobs)
        self.daemons.stats()
        before, client = self.daemons.cpu_us(), time.process_time()
        start = time.monotonic()
        self.daemons.signal_all(signal.SIGUSR2)
        if work.images == 1:
            self.daemons.wait_for_results(count)
        else:
            self.collect(work, count)
        wall = time.monotonic() - start
        used = [now - then for now, then in zip(self.daemons.cpu_us(), before)]
        client = time.process_time() - client
        if work.images == 1:
            self.collect(work, count)
        time.sleep(0.05) # a job counts after Redis has acknowledged it
        stats = self.daemons.stats()
        if stats["done"] != count:
            raise Failed(f"the daemon counts {stats['done']:.0f} done jobs, not {count}")
        images = count * work.images
        names = ("loop", "device", "workers", "redis", "codecs")
        return {"wall_s": wall, "jobs": count, "images_s": images / wall,
                "mp_s": images * work.kind.pixels / 1e6 / wall, "client": client / wall,
                **{name: each / 1e6 / wall for name, each in zip(names, used)},
                "gpu_busy": stats.get("gpu_busy") if used[1] else None,
                "on_device": device_share(stats, "decode")}

    def close(self):
        self.daemons.close()


def warm_count(work, runner, seconds):
    """Returns how many jobs take about `seconds`. These turns also warm up."""
    count = work.least
    for _ in range(TURNS_MAX):
        turn = runner.turn(work, count)
        more = min(work.most(), math.ceil(count * min(4, 1.1 * seconds / turn["wall_s"])))
        if turn["wall_s"] >= 0.8 * seconds or more <= count:
            break
        count = more
    return count


# ---- checks -------------------------------------------------------------------------------------

def digest(data):
    return hashlib.blake2b(data, digest_size=16).digest()


def contents(work, runner):
    """Yields the name of a member, or None, and the bytes of each image that job 0 wrote."""
    for path in work.made(0, runner.out):
        if not isinstance(work, Shard):
            with open(path, "rb") as file:
                yield None, file.read()
        elif work.array:
            yield from array_images(path, work.images)
        else:
            with tarfile.open(path) as tar:
                for member in tar:
                    yield member.name, tar.extractfile(member).read()


def array_images(path, count):
    """Yields the images of one array as npy files."""
    with open(path, "rb") as file:
        head = file.read(10)
        header = file.read(int.from_bytes(head[8:10], "little")).decode()
        shape = f"'shape': ({count}, 3, 224, 224)"
        if head[:8] != b"\x93NUMPY\x01\x00" or shape not in header:
            raise Failed(f"the array's header is {header.strip()}, without {shape}")
        each = 3 * 224 * 224 * 2
        for _ in range(count):
            yield None, npy_header() + file.read(each)


def npy_header():
    """The header of one tensor, as numpy.save writes it."""
    text = "{'descr': '<f2', 'fortran_order': False, 'shape': (3, 224, 224), }"
    text += " " * (-(10 + len(text) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def make_expected(single, runner):
    """Runs a single job per distinct image. Returns the digests of the outputs."""
    runner.turn(single, single.kind.count)
    found, sizes = [], []
    for number in range(single.kind.count):
        path, = single.made(number, runner.out)
        with open(path, "rb") as file:
            data = file.read()
        found.append(digest(data))
        sizes.append(len(data))
    return found, sum(sizes) / len(sizes)


def verify(work, runner, expected):
    """Compares the outputs of job 0 with those of single jobs. Returns how many were equal."""
    count = 0
    for number, (name, data) in enumerate(contents(work, runner)):
        if name is not None and name != member_name(number, work.suffix):
            raise Failed(f"member {number} is {name}, not {member_name(number, work.suffix)}")
        if digest(data) != expected[number % len(expected)]:
            raise Failed(f"image {number} differs from that of a single job")
        count += 1
    if count != work.images:
        raise Failed(f"the job wrote {count} images, not {work.images}")
    return count


# ---- rows ---------------------------------------------------------------------------------------

HEAD = (f"{'':30} {'images/s':>9} {'GP/s':>7} {'loop':>6} {'workers':>7} {'device':>6} {'Redis':>6} "
        f"{'client':>6} {'of bound':>9} {'bound':>11} {'x single':>8} {'equal':>6}")


def cell(value, width, digits):
    return f"{'-' if value is None else f'{value:,.{digits}f}':>{width}}"


class Report:
    def __init__(self, options):
        self.path, self.rows, self.limit = options.json, [], options.limit
        self.end = time.monotonic() + options.limit
        self.results = {"host": {"cpus": os.cpu_count()}, "quick": options.quick,
                        "seconds": options.seconds, "rounds": options.rounds, "rows": self.rows}

    def add(self, name, measure):
        """Measures a row. A failure becomes the row's reason."""
        row = {"work": name}
        try:
            if time.monotonic() > self.end:
                raise Failed(f"left out: the limit of {self.limit:g} s has passed")
            row.update(measure())
        except Exception as error: # the other rows go on
            row["failed"] = str(error) or type(error).__name__
        self.rows.append(row)
        self.show(row)
        self.save()
        return row

    def save(self):
        if self.path:
            with open(self.path, "w") as file:
                json.dump(self.results, file, indent=1)

    @staticmethod
    def show(row):
        get = row.get
        if "failed" in row:
            print(f"{row['work']:30} FAILED: {row['failed']}", flush=True)
        elif "missing" in row:
            print(f"{row['work']:30} {row['missing']}", flush=True)
        elif "ratio" in row:
            print(f"{row['work']:30} {get('ratio'):.3f} times the baseline ({get('least'):.3f} to "
                  f"{get('most'):.3f}; {get('images_s'):,.0f} images/s, {get('pairs')} pairs)",
                  flush=True)
        else:
            print(f"{row['work']:30} {cell(get('images_s'), 9, 0)} "
                  f"{cell(get('mp_s') and get('mp_s') / 1e3, 7, 2)} {cell(get('loop'), 6, 2)} "
                  f"{cell(get('workers', get('cores')), 7, 2)} {cell(get('device'), 6, 2)} "
                  f"{cell(get('redis'), 6, 2)} {cell(get('client'), 6, 2)} "
                  f"{cell(get('of_bound'), 9, 2)} {get('bound', '-'):>11} "
                  f"{cell(get('of_single'), 8, 2)} {row_check(row):>6}", flush=True)


def row_check(row):
    """How the outputs were compared: equal images, or the mean difference of a peer."""
    if "equal" in row:
        return f"{row['equal']:,}"
    if "same" not in row:
        return "-"
    return "all" if row["same"] == 1 else f"~{row['difference']:.3f}"


def measure_work(work, runner, options, bounds, expected, single):
    count = warm_count(work, runner, options.seconds)
    turns = [runner.turn(work, count) for _ in range(options.rounds)]
    row = {**middle(turns), "equal": verify(work, runner, expected)}
    for name in work.outputs(0):
        os.unlink(os.path.join(runner.out, name))
    parts = bounds.of(work, bool(row["on_device"]))
    name = min(parts, key=parts.get)
    row.update(bounds=parts, bound=name, of_bound=row["images_s"] / parts[name],
               in_bytes=work.kind.bytes, out_bytes=work.out_bytes)
    if single:
        row["of_single"] = row["images_s"] / single
    return row


def run_group(works, runner, options, bounds, report, folder):
    """The rows of one kind of outputs; those of the daemon are left for the peers."""
    try:
        expected, size = make_expected(works[0], runner)
    except Exception as error:
        report.add(works[0].name, lambda: {"failed": str(error)})
        return
    keep_expected(works[0], runner, folder)
    single = None
    for work in works:
        work.out_bytes = size
        if is_wanted(options, work.name):
            row = report.add(work.name, lambda work=work: measure_work(
                work, runner, options, bounds, expected, single))
            if work is works[0]:
                single = row.get("images_s")


def keep_expected(single, runner, folder):
    """Copies outputs for the peers, which run after the daemon."""
    target = os.path.join(folder, "expected")
    os.makedirs(target, exist_ok=True)
    if single.kind.name == "imagenet":
        for number in range(min(set_peers.SAMPLE, single.kind.count)):
            path, = single.made(number, runner.out)
            with open(path, "rb") as file, open(f"{target}/{number}.{single.suffix}", "wb") as to:
                to.write(file.read())


def run_peers(options, shard, folder, report):
    for what, name in (("npy", "tensors"), ("jpeg", "crops")):
        for peer, (*_, outputs, _) in set_peers.PEERS.items():
            if what in outputs and is_wanted(options, f"{name}, {peer}"):
                report.add(f"{name}, {peer}",
                           lambda peer=peer, what=what: run_peer(peer, what, shard, folder,
                                                                 options))


def run_peer(peer, what, shard, folder, options):
    command = [options.python, "-B", set_peers.__file__, "--peer", peer, "--what", what,
               "--shard", os.path.join(folder, shard), "--out", folder, "--seconds",
               str(options.seconds), "--workers", str(options.threads), "--distinct",
               str(min(set_peers.SAMPLE, options.distinct)),
               "--expected", os.path.join(folder, "expected")]
    if options.dali_device:
        command.append("--dali-device")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise Failed(f"{peer}: {(done.stderr.strip().splitlines() or ['no reason'])[-1]}")
    row = json.loads(done.stdout.splitlines()[-1])
    if row.get("difference", 0) > options.difference:
        raise Failed(f"its images differ by {row['difference']:.3f} on average, more than "
                     f"{options.difference}")
    if "images_s" in row:
        row["mp_s"] = row["images_s"] * 500 * 375 / 1e6
    return row


def run_baseline(works, runner, options, folder, report):
    """Single jobs of this program and of the baseline in alternating turns."""
    other = Runner(options.baseline, folder, options)
    def measure(work):
        count = warm_count(work, runner, options.seconds)
        other.turn(work, count)
        pairs = []
        for number in range(options.pairs):
            order = (runner, other) if number % 2 == 0 else (other, runner)
            speeds = {id(each): each.turn(work, count)["images_s"] for each in order}
            pairs.append((speeds[id(runner)], speeds[id(other)]))
        ratios = [mine / his for mine, his in pairs]
        return {"ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios),
                "pairs": len(pairs), "images_s": statistics.median(mine for mine, _ in pairs)}
    try:
        for work in works:
            report.add(f"{work.name}, pairs", lambda work=work: measure(work))
    finally:
        other.close()


# ---- the program --------------------------------------------------------------------------------

def make_data(options, folder):
    """Returns the groups of works, and a shard for the peers."""
    start = time.monotonic()
    photos = [photo for photo in copy_photos(options.folder, folder) if photo.kind == "baseline"]
    if not photos:
        sys.exit(f"{options.folder} has no baseline JPEGs of 0.5 to 50 MP")
    small, large = kinds()
    for kind in (small, large):
        make_images(kind, options.distinct, photos, folder, options.build)
    shards = [make_shard(kind, members, options.flight, folder)
              for kind, members in ((small, options.small_shard), (large, options.shard))]
    for kind in (small, large):
        print(f"{kind.count} {kind.name} images of {kind.width} x {kind.height}: quality "
              f"{kind.quality}, {kind.bytes / 1e3:.1f} KB")
    print(f"data made in {time.monotonic() - start:.1f} s", flush=True)
    return make_works(options, small, large, *shards), shards[1][0]


def run(options):
    report = Report(options)
    with tempfile.TemporaryDirectory(prefix="gpuimgd-sets-") as folder:
        groups, shard = make_data(options, folder)
        bounds = Bounds(options, folder)
        runner = Runner(f"{options.build}/gpuimgd", folder, options)
        report.results["host"].update(engine=runner.description, tmpfs_write=bounds.write,
                                      tmpfs_read=bounds.read)
        print(f"{runner.description}\ntmpfs: {options.threads} processes write "
              f"{bounds.write / 1e9:.1f} GB/s, read {bounds.read / 1e9:.1f} GB/s\n\n{HEAD}",
              flush=True)
        try:
            for works in groups:
                run_group(works, runner, options, bounds, report, folder)
            if options.baseline:
                run_baseline([works[0] for works in groups], runner, options, folder, report)
        finally:
            runner.close()
        if not options.no_peers:
            run_peers(options, shard, folder, report)
    return report


def is_wanted(options, name):
    return not options.only or any(word in name for word in options.only.split(","))


def choose_python():
    """Returns a Python that has Pillow, or this one."""
    for python in (sys.executable, "/usr/bin/python3"):
        if os.access(python, os.X_OK) and subprocess.run(
                [python, "-c", "import numpy, PIL"], stderr=subprocess.DEVNULL,
                check=False).returncode == 0:
            return python
    return sys.executable


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build")
    parser.add_argument("--folder", help="where the photographs are")
    parser.add_argument("--quick", action="store_true", help="small data, a minute on two cores")
    parser.add_argument("--seconds", type=float, help="of a turn (3; 1 with --quick)")
    parser.add_argument("--rounds", type=int, help="turns (2; 1 with --quick)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--distinct", type=int, help="images (256; 32 with --quick)")
    parser.add_argument("--flight", type=int, help="shards in a turn at least (32; 2)")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--options", default="", type=str.split, help="more of the daemon's")
    parser.add_argument("--only", help="parts of the names of rows, with commas")
    parser.add_argument("--limit", type=float, default=400, help="no row begins after it")
    parser.add_argument("--baseline", help="an older gpuimgd")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--python", help="a Python that has the peers' modules")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--dali-device", action="store_true", help="DALI on the GPU")
    parser.add_argument("--difference", type=float, default=0.1,
                        help="most mean difference of a peer, in units of a normalized tensor")
    parser.add_argument("--pcie", type=float, default=54.7, help="GB/s in each direction")
    parser.add_argument("--codec", type=float, default=570000,
                        help="images of 256 x 256 that a device decodes per second")
    parser.add_argument("--json", help="file for the results")
    options = parser.parse_args()
    if not options.build or not options.folder or not os.path.isdir(options.folder):
        sys.exit(f'there is no folder "{options.folder}"; make bench-sets FOLDER=/some/photos')
    for name, full, quick in (("seconds", 3, 1), ("rounds", 2, 1), ("distinct", 256, 32),
                              ("flight", 32, 2)):
        if getattr(options, name) is None:
            setattr(options, name, quick if options.quick else full)
    options.python = options.python or choose_python()
    options.shard = QUICK_SHARD if options.quick else SHARD
    options.small_shard = QUICK_SMALL_SHARD if options.quick else SMALL_SHARD
    options.folder = os.path.realpath(options.folder)
    return options


def main():
    options = read_options()
    prefer_memory()
    report = run(options)
    if options.json:
        print(f"\nresults: {options.json}")
    return 1 if any("failed" in row for row in report.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
