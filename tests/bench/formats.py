#!/usr/bin/python3
"""Compares the codecs of each lossy format with the tools of its library, libvips and Pillow.

    formats.py --build DIR --folder F [--rounds 3] [--photos 6] [--skip-curve]

The set has the first photographs of 2 to 10 megapixels below the folder. The first table has every
effort of WebP, AVIF and JPEG XL; the others have each contestant at the defaults of gpuimgd. Times are CPU
seconds of one thread, the least of the rounds. A program's time includes its start, and reading or
writing pixels without compression: the row "PNG without compression" shows what that costs.
"""
import argparse
import io
import json
import os
import resource
import subprocess
import tempfile
import time

from PIL import Image

from photos import find_photos

MP_MIN, MP_MAX = 2, 10
QUALITY = {"jpeg": 85, "webp": 80, "avif": 60, "jxl": 90}
EFFORT = {"webp": 2, "jxl": 4}
AOM_SPEED = 9 # libaom 3.6 does the same at 10, which is effort 0


def children_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def timed(words):
    """Runs a program and returns its CPU seconds."""
    before = children_s()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   env={**os.environ, "VIPS_CONCURRENCY": "1"})
    return children_s() - before


class Bench:
    def __init__(self, build, rounds, folder):
        self.build, self.rounds, self.folder = build, rounds, folder

    def own(self, files, name, **settings):
        words = [f"{self.build}/tests/bench/bench_formats", "--format", name,
                 "--rounds", str(self.rounds)]
        for key, value in settings.items():
            words += [f"--{key}", str(int(value))]
        return json.loads(subprocess.run(words + files, check=True, stdout=subprocess.PIPE).stdout)

    def tool(self, files, suffix, encode, decode):
        """encode, decode: functions of source and target that return a command."""
        sums = {"bytes": 0, "encode_s": 0.0, "decode_s": 0.0}
        for file in files:
            there, back = f"{self.folder}/there.{suffix}", f"{self.folder}/back"
            sums["encode_s"] += min(timed(encode(file, there)) for _ in range(self.rounds))
            sums["decode_s"] += min(timed(decode(there, back)) for _ in range(self.rounds))
            sums["bytes"] += os.path.getsize(there)
        return sums

    def pillow(self, files, name, **settings):
        sums = {"bytes": 0, "encode_s": 0.0, "decode_s": 0.0}
        for file in files:
            image = Image.open(file)
            image.load()
            encodes, decodes = [], []
            for _ in range(self.rounds):
                out = io.BytesIO()
                start = time.process_time()
                image.save(out, name, **settings)
                encodes.append(time.process_time() - start)
                start = time.process_time()
                Image.open(io.BytesIO(out.getvalue())).load()
                decodes.append(time.process_time() - start)
            sums["encode_s"] += min(encodes)
            sums["decode_s"] += min(decodes)
            sums["bytes"] += len(out.getvalue())
        return sums


def row(name, sums, pixels):
    psnr = f"{sums['psnr']:.1f}" if sums.get("psnr", 99) < 99 else "-"
    print(f"| {name} | {sums['encode_s'] * 1e9 / pixels:.1f} | {sums['decode_s'] * 1e9 / pixels:.1f}"
          f" | {sums['bytes'] * 8 / pixels:.3f} | {psnr} |", flush=True)


def head(title):
    print(f"\n| {title} | encode, ms per MP | decode, ms per MP | bits per pixel | PSNR, dB |")
    print("| --- | --- | --- | --- | --- |")


def curves(bench, files, pixels):
    for name in ("webp", "avif", "jxl"):
        head(f"{name}, quality {QUALITY[name]}")
        for effort in range(7):
            row(f"`effort` {effort}", bench.own(files, name, effort=effort), pixels)
    for name, efforts in (("webp", 7), ("jxl", 5)): # 5 and 6 of jxl take seconds per megapixel
        head(f"{name}, lossless")
        for effort in range(efforts):
            row(f"`effort` {effort}", bench.own(files, name, effort=effort, lossless=True), pixels)


def contestants(bench, files, pixels):
    quality, effort = QUALITY["webp"], EFFORT["webp"]
    head(f"webp, quality {quality}, effort {effort}")
    row("gpuimgd", bench.own(files, "webp"), pixels)
    row("cwebp, dwebp", bench.tool(
        files, "webp", lambda a, b: ["cwebp", "-quiet", "-q", str(quality), "-m", str(effort), a,
                                     "-o", b],
        lambda a, b: ["dwebp", "-quiet", "-ppm", a, "-o", b + ".ppm"]), pixels)
    row("vips copy", bench.tool(
        files, "webp", lambda a, b: ["vips", "copy", a, f"{b}[Q={quality},effort={effort}]"],
        lambda a, b: ["vips", "copy", a, b + ".ppm"]), pixels)
    row("Pillow", bench.pillow(files, "WEBP", quality=quality, method=effort), pixels)
    quality, speed = QUALITY["avif"], AOM_SPEED
    quantizer = str(((100 - quality) * 63 + 50) // 100)
    head(f"avif, quality {quality}, libaom's speed {speed}")
    row("gpuimgd, its own encoder", bench.own(files, "avif"), pixels)
    row("gpuimgd, effort 0: libaom", bench.own(files, "avif", effort=0), pixels)
    row("avifenc, avifdec", bench.tool(
        files, "avif", lambda a, b: ["avifenc", "-j", "1", "-s", str(speed), "-y", "420", "--min",
                                     quantizer, "--max", quantizer, "-c", "aom", a, b],
        lambda a, b: ["avifdec", "-j", "1", "--png-compress", "0", a, b + ".png"]), pixels)
    row("vips copy", bench.tool(
        files, "avif", lambda a, b: ["vips", "copy", a, f"{b}[Q={quality},effort={9 - speed}]"],
        lambda a, b: ["vips", "copy", a, b + ".ppm"]), pixels)
    quality, effort = QUALITY["jxl"], EFFORT["jxl"]
    head(f"jxl, quality {quality}, effort {effort}")
    row("gpuimgd", bench.own(files, "jxl"), pixels)
    row("cjxl, djxl", bench.tool(
        files, "jxl", lambda a, b: ["cjxl", "--num_threads=0", "-j", "0", "-q", str(quality), "-e",
                                    str(effort + 1), a, b],
        lambda a, b: ["djxl", "--num_threads=0", a, b + ".ppm"]), pixels)
    head("for comparison")
    row("gpuimgd, jpeg, quality 85", bench.own(files, "jpeg"), pixels)
    row("gpuimgd, png", bench.own(files, "png"), pixels)
    row("vips, PNG without compression", bench.tool(
        files, "png", lambda a, b: ["vips", "copy", a, f"{b}[compression=0]"],
        lambda a, b: ["vips", "copy", a, b + ".ppm"]), pixels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--photos", type=int, default=6)
    parser.add_argument("--skip-curve", action="store_true")
    options = parser.parse_args()
    photos = [(path, width * height / 1e6)
              for path, (width, height, _) in find_photos(options.folder)]
    photos = [photo for photo in photos if MP_MIN <= photo[1] <= MP_MAX][:options.photos]
    if not photos:
        raise SystemExit(f"there are no photographs of {MP_MIN} to {MP_MAX} MP in "
                         f"{options.folder}")
    with tempfile.TemporaryDirectory(prefix="gpuimgd-bench-") as folder:
        files = []
        for number, (path, _) in enumerate(photos):
            files.append(f"{folder}/{number}.png")
            with Image.open(path) as image:
                image.convert("RGB").save(files[-1], compress_level=0)
        pixels = sum(mp for _, mp in photos) * 1e6
        print(f"{len(files)} photographs, {pixels / 1e6:.1f} MP")
        bench = Bench(options.build, options.rounds, folder)
        contestants(bench, files, pixels)
        if not options.skip_curve:
            curves(bench, files, pixels)


main()
