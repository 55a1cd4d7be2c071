#!/usr/bin/python3
"""Measures the cost of a job against the number of queued jobs and the size of the image.

    linear.py --build DIR [--jobs-max 1000000] [--rounds 3] [--threads N] [--svg FILE]

Queued jobs: images of 64 x 64 pixels to edges. SIGUSR2 pauses the daemon until all jobs are
pushed; the clock stops when the last result has arrived. Size: synthetic images (noise of several
scales) of 0.1 to 50 megapixels to edges, about 400 MP of each size per round. Each round goes
through all sizes, and figures are medians. Input and output are JPEG files of quality 85, without
fsync. They are in memory (/dev/shm) unless $TMPDIR is set: a disk's journal is not measured.
"""
import argparse
import json
import os
import re
import signal
import statistics
import sys
import tempfile
import time

from PIL import Image

import chart
from rig import Rig, cpu_s, prefer_memory

TINY = 64
SIZES_MP = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50]
MP_PER_ROUND = 400
OUTPUTS = 256 # overwritten in turn


def noise_image(width, height):
    """Makes noise of several scales, which compresses about as well as a photograph."""
    image = Image.effect_noise((width // 2 + 1, height // 2 + 1), 20).resize((width, height))
    for by in (8, 64):
        coarse = Image.effect_noise((width // by + 2, height // by + 2), 120)
        image = Image.blend(image, coarse.resize((width, height), Image.BICUBIC), 0.5)
    return Image.merge("RGB", (image, image.transpose(Image.FLIP_LEFT_RIGHT), image))


def job(name, number):
    return json.dumps({"input": name, "output": f"{number % OUTPUTS}.jpg",
                       "ops": ["grayscale", "sobel"]})


def loop_us(rig):
    """Returns loop_us of a new stats line, which covers the time since the previous line."""
    before = rig.tail("daemon.log").count("stats interval_s=")
    rig.signal(signal.SIGUSR1)
    log = rig.wait_for_log("stats interval_s=", before + 1)
    return float(re.findall(r" loop_us=([0-9.]+)", log)[-1])


def queued(options, folder, count):
    """Returns jobs/s, and CPU us per job: of the daemon, of its loop thread, of Redis."""
    with Rig(f"{options.build}/gpuimgd", folder, f"--workers={options.threads}",
             f"--results_max={count + 1}") as rig:
        rig.run([job("tiny.jpg", i) for i in range(500)]) # warm
        rig.signal(signal.SIGUSR2)
        rig.wait_for_log("fetching is paused", 1)
        rig.push([job("tiny.jpg", i) for i in range(count)])
        loop_us(rig) # begins an interval
        cpu, redis = cpu_s(rig.pid), cpu_s(rig.redis_pid)
        start = time.monotonic()
        rig.signal(signal.SIGUSR2)
        while (got := rig.client("LLEN", "gpuimgd:results")) < count:
            time.sleep(min(1, (count - got) / 50000 + 0.001))
        wall = time.monotonic() - start
        cpu, redis = cpu_s(rig.pid) - cpu, cpu_s(rig.redis_pid) - redis
        if json.loads(rig.result())["status"] != "done":
            raise RuntimeError("jobs failed")
        return count / wall, cpu * 1e6 / count, loop_us(rig), redis * 1e6 / count


def medians(rounds):
    return [statistics.median(column) for column in zip(*rounds)]


def bench_queued(options, folder):
    counts = [1000]
    while counts[-1] * 10 <= options.jobs_max:
        counts.append(counts[-1] * 10)
    rounds = {count: [] for count in counts}
    for number in range(options.rounds):
        for count in counts:
            if number == 0 or count < 1000000: # takes minutes, and a long run is steady
                rounds[count].append(queued(options, folder, count))
        print(f"  queued: round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    print("\n| jobs queued | jobs/s | MP/s | CPU us per job | of it the loop | Redis us per job |")
    print("| --- | --- | --- | --- | --- | --- |")
    points = []
    for count in counts:
        rate, cpu, loop, redis = medians(rounds[count])
        print(f"| {count:,} | {rate:.0f} | {rate * TINY * TINY / 1e6:.1f} | {cpu:.0f} | "
              f"{loop:.0f} | {redis:.0f} |")
        points.append((count, rate))
    return points


def bench_sizes(options, folder):
    names = {}
    for mp in SIZES_MP:
        width = int((mp * 1.5e6) ** 0.5)
        height = int(mp * 1e6 / width)
        names[mp] = f"size-{mp}.jpg"
        noise_image(width, height).save(os.path.join(folder, names[mp]), quality=85)
    rounds = {mp: [] for mp in SIZES_MP}
    with Rig(f"{options.build}/gpuimgd", folder, f"--workers={options.threads}") as rig:
        for number in range(-1, options.rounds): # the first grows pools and fills caches
            for mp in SIZES_MP:
                jobs = [job(names[mp], i) for i in range(round(MP_PER_ROUND / mp))]
                cpu = cpu_s(rig.pid)
                wall = rig.run(jobs)
                if number >= 0:
                    rounds[mp].append((mp * len(jobs) / wall,
                                       (cpu_s(rig.pid) - cpu) * 1e9 / (mp * 1e6 * len(jobs))))
            print(f"  sizes: round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    print("\n| MP per image | MP/s | CPU ns per pixel |\n| --- | --- | --- |")
    points = []
    for mp in SIZES_MP:
        rate, cost = medians(rounds[mp])
        print(f"| {mp:g} | {rate:.0f} | {cost:.2f} |")
        points.append((mp, rate))
    return points


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--jobs-max", type=int, default=1000000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--svg")
    options = parser.parse_args()
    prefer_memory()
    with tempfile.TemporaryDirectory(prefix="gpuimgd-bench-") as folder:
        noise_image(TINY, TINY).save(os.path.join(folder, "tiny.jpg"), quality=85)
        jobs = bench_queued(options, folder)
        sizes = bench_sizes(options, folder)
    if options.svg:
        chart.lines(options.svg, "Linear cost: twice the work takes twice the time", [
            ("How many jobs are queued (64 x 64 pixels each)", "jobs queued", "jobs/s", jobs),
            ("How large the images are", "megapixels per image", "MP/s", sizes)])


if __name__ == "__main__":
    main()
