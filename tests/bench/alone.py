#!/usr/bin/python3
"""Measures one large image alone: how much longer its job takes than its decode and its encode.

    alone.py --build DIR [--engine cuda] [--megapixels 50] [--rounds 15] [-- DAEMON_OPTION ...]

The input is a synthetic JPEG: enlarged noise, which compresses about as well as a photograph. One
job makes edges, the other the colour negative; input and output have JPEG quality 85. Files are in
memory (/dev/shm) unless $TMPDIR is set, without fsync. Each job is pushed after the result of the
previous job. Times and ratios are medians of `ms` in the results, without the first two jobs.
"""
import argparse
import json
import os
import random
import statistics
import struct
import tempfile
import zlib

from rig import Rig, prefer_memory

SMALLER = 3   # the noise is enlarged by this factor
WARM = 2
PARTS = ["read", "admit", "decode", "h2d", "kernel", "d2h", "encode", "total"]
JOBS = {"gray to edges": ["grayscale", "sobel"], "negative in colour": ["invert"]}


def noise_png(width, height):
    """Makes an RGB PNG with random bytes of 80 to 175."""
    row_bytes = width * 3
    narrowed = bytes(80 + 96 * byte // 256 for byte in range(256))
    rows = random.Random(1).randbytes(row_bytes * height).translate(narrowed)
    packed = zlib.compress(b"".join(b"\0" + rows[at:at + row_bytes]
                                    for at in range(0, len(rows), row_bytes)), 1)

    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) +
            chunk(b"IEND", b""))


def make_image(options, folder):
    """Lets the daemon make large.jpg in the folder, with sides of 3 to 2."""
    height = int((options.megapixels * 1e6 / 1.5) ** 0.5)
    width = height * 3 // 2
    with open(f"{folder}/noise.png", "wb") as file:
        file.write(noise_png(width // SMALLER, height // SMALLER))
    with Rig(f"{options.build}/gpuimgd", folder, f"--output_root={folder}") as rig:
        rig.run([json.dumps({"input": "noise.png", "output": "large.jpg", "ops": [
            {"op": "resize", "width": width, "height": height, "fit": "exact"}]})])
    return width, height


def measure(rig, ops, rounds):
    """Returns the `ms` of each result."""
    found = []
    for _ in range(WARM + rounds):
        rig.push([json.dumps({"input": "large.jpg", "output": "out.jpg", "ops": ops})])
        result = json.loads(rig.result())
        if result["status"] != "done":
            raise RuntimeError(f"the job failed: {result}")
        found.append({part: result["ms"].get(part, 0.0) for part in PARTS})
    return found[WARM:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--engine", default="cuda")
    parser.add_argument("--megapixels", type=float, default=50)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("option", nargs="*")
    options = parser.parse_args()
    prefer_memory()
    with tempfile.TemporaryDirectory(prefix="gpuimgd-alone-") as folder:
        width, height = make_image(options, folder)
        print(f"{width} x {height}, {os.path.getsize(folder + '/large.jpg') / 1e6:.1f} MB")
        with Rig(f"{options.build}/gpuimgd", folder, f"--engine={options.engine}",
                 *options.option) as rig:
            for name, ops in JOBS.items():
                found = measure(rig, ops, options.rounds)
                ratios = [ms["total"] / (ms["decode"] + ms["encode"]) for ms in found]
                middle = {part: statistics.median(ms[part] for ms in found) for part in PARTS}
                print(f"{name}: total / (decode + encode) {statistics.median(ratios):.4f} "
                      f"({min(ratios):.4f} to {max(ratios):.4f}); ms: " +
                      ", ".join(f"{part} {middle[part]:.2f}" for part in PARTS))


if __name__ == "__main__":
    main()
