#!/usr/bin/env python3
"""Measures torchvision with nvJPEG for host.py: files to edges or thumbnails on the first GPU.

    host_torch.py --task edges|thumbnails --out FOLDER [--seconds 1] [--rounds 2] FILE...

Threads, each with its own stream, read a batch of files, decode it with nvJPEG, compute on the
device, encode with nvJPEG (quality 85, three channels: it has no gray) and write the files. The
results are those of nvJPEG, not libjpeg's. Prints a JSON list: wall_s, cpu_s and images of each
round.
"""
import argparse
import json
import resource
import threading
import time

import torch
from torchvision.io import ImageReadMode, decode_jpeg, encode_jpeg, read_file

THREADS, BATCH = 4, 16
SIDE, QUALITY = 512, 85
KERNELS = [[[1, 0, -1], [2, 0, -2], [1, 0, -1]], [[1, 2, 1], [0, 0, 0], [-1, -2, -1]]]


def edges(image):
    plane = torch.nn.functional.pad(image[None].float(), (1, 1, 1, 1), mode="reflect")
    kernels = torch.tensor(KERNELS, dtype=torch.float32, device=image.device)[:, None]
    sums = torch.nn.functional.conv2d(plane, kernels).abs().sum(1, keepdim=True)
    return sums.mul_(0.5).clamp_(0, 255).to(torch.uint8)[0].expand(3, -1, -1).contiguous()


def thumbnail(image):
    height, width = image.shape[1:]
    by = min(1, SIDE / max(width, height))
    size = (max(1, round(height * by)), max(1, round(width * by)))
    small = torch.nn.functional.interpolate(image[None].float(), size, mode="bilinear",
                                            antialias=True)
    return small.round_().clamp_(0, 255).to(torch.uint8)[0]


class Turn:
    """Images in turn, shared by the threads, until `count` have been taken."""

    def __init__(self, options, count):
        self.options, self.count, self.taken = options, count, 0
        self.lock, self.error = threading.Lock(), None

    def take(self):
        with self.lock:
            first = self.taken
            self.taken = min(self.count, first + BATCH)
            return range(first, self.taken)

    def work(self):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                while numbers := self.take():
                    self.run(numbers)
        except Exception as error:
            self.error = error

    def run(self, numbers):
        options = self.options
        gray = options.task == "edges"
        files = [read_file(options.file[number % len(options.file)]) for number in numbers]
        images = decode_jpeg(files, mode=ImageReadMode.GRAY if gray else ImageReadMode.RGB,
                             device="cuda")
        results = [edges(image) if gray else thumbnail(image) for image in images]
        for number, result in zip(numbers, encode_jpeg(results, quality=QUALITY)):
            with open(f"{options.out}/{number % 256}.jpg", "wb") as file:
                file.write(result.cpu().numpy().tobytes())


def measure(options, count):
    turn = Turn(options, count)
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    threads = [threading.Thread(target=turn.work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if turn.error:
        raise turn.error
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {"wall_s": time.monotonic() - start, "images": count,
            "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--task", choices=["edges", "thumbnails"], required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("file", nargs="+")
    options = parser.parse_args()
    count, turns = max(len(options.file), THREADS * BATCH), []
    for _ in range(2 + options.rounds): # the first two load CUDA and give the rate
        turns.append(measure(options, count))
        count = max(1, round(count * options.seconds / turns[-1]["wall_s"]))
    print(json.dumps(turns[2:]))


if __name__ == "__main__":
    main()
