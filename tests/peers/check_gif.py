#!/usr/bin/python3
"""Animations of Pillow in ours: check_gif.py PATH-OF-APPLY [FOLDER...]. Prints TAP.

Pillow writes GIFs, WebPs and PNGs with and without transparency, and gifsicle makes the GIFs
smaller. The daemon writes each page of a GIF and a WebP as a PNG, and all frames as one file. They
must have the pixels of Pillow, and the result the number of frames. Transparent pixels have no
colour. FOLDER: GIFs are compared, too; a difference is only
printed, because Pillow shows some files in another way than browsers (codecs/confined/gif.c).
"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy
from PIL import Image, ImageCms, features

import peer

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
import rig  # noqa: E402

FRAMES = 7
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def frames_of(kind, size):
    """Frames with a square that moves over noise of few colours."""
    width, height = size
    back = peer.RANDOM.integers(0, 4, (height, width, 3), dtype=numpy.uint8) * 80
    for number in range(FRAMES):
        image = numpy.dstack([back, numpy.full((height, width, 1), 255, numpy.uint8)])
        if kind == "clear":
            image[:, :, 3] = (back[:, :, 0] > 80) * 255
        x, y = number * width // (FRAMES + 2), number * height // (FRAMES + 2)
        image[y:y + height // 3 + 1, x:x + width // 3 + 1] = [number * 30, 200, 9, 255]
        yield Image.fromarray(image if kind == "clear" else image[:, :, :3])


def make_files(folder):
    """Each disposal that Pillow shows as browsers do."""
    for size in [(1, 1), (17, 9), (90, 61), (300, 200)]:
        for kind in ("solid", "clear"):
            first, *others = frames_of(kind, size)
            name = f"{folder}/{kind}-{size[0]}x{size[1]}"
            for disposal in (0, 1, 2) if kind == "clear" else (0, 1):
                first.save(f"{name}-{disposal}.gif", save_all=True, append_images=others,
                           duration=70, loop=0, disposal=disposal, optimize=disposal == 1)
                for blend in (0, 1):
                    first.save(f"{name}-{disposal}{blend}.png", save_all=True, loop=3,
                               append_images=others, duration=[10 * i for i in range(FRAMES)],
                               disposal=disposal, blend=blend, icc_profile=PROFILE)
            first.save(f"{name}.webp", save_all=True, append_images=others, duration=70, quality=70,
                       method=0, lossless=kind == "clear", icc_profile=PROFILE)
    if shutil.which("gifsicle"):
        for path in glob.glob(f"{folder}/*.gif"):
            for option in ("-O3", "--interlace"):
                subprocess.run(["gifsicle", option, path, "-o", path[:-4] + option + ".gif"],
                               check=True)


def pixels(image):
    """RGBA, without the colours of transparent pixels."""
    array = numpy.array(image.convert("RGBA"))
    array[array[:, :, 3] == 0] = 0
    return array


def pages_of(path):
    """The pages as Pillow shows them; None if it cannot read the file."""
    found = []
    try:
        with Image.open(path) as file:
            for number in range(getattr(file, "n_frames", 1)):
                file.seek(number)
                found.append(pixels(file))
    except (OSError, EOFError, ValueError, Image.DecompressionBombError):
        return None
    return found


def compare(daemon, folder, names, wanted):
    """Returns the names of files whose pages differ, and the number of pages."""
    machine = rig.Rig(daemon, folder)
    jobs = [json.dumps({"input": name, "page": page,
                        "output": {"path": f"{name}-{page}.png", "compression": 0}})
            for name in names for page in range(len(wanted[name]))]
    differ = set()
    try:
        machine.push(jobs)
        for _ in jobs:
            machine.result()
        for name in names:
            for page, theirs in enumerate(wanted[name]):
                path = f"{machine.out}/{name}-{page}.png"
                ours = pixels(Image.open(path)) if os.path.exists(path) else None
                if ours is None or not numpy.array_equal(ours, theirs):
                    differ.add(name)
    finally:
        machine.close()
    return sorted(differ), len(jobs)


def movie_of(path):
    """Returns frames, delays, the number of repetitions and the profile."""
    with Image.open(path) as file:
        frames, delays = [], []
        for number in range(getattr(file, "n_frames", 1)):
            file.seek(number)
            frames.append(pixels(file))
            delays.append(file.info.get("duration", 0))
        loop, profile = file.info.get("loop"), file.info.get("icc_profile")
    if path.endswith(".gif"):  # it repeats; others count how often they are shown
        loop = 1 if loop is None else loop and loop + 1
    return frames, delays, loop, profile


def animations_in(folder):
    return [name for name in sorted(os.listdir(folder)) if name.endswith((".gif", ".png", ".webp"))]


def check_movies(report, daemon, folder):
    """All frames become a lossless WebP."""
    names = animations_in(folder)
    jobs = [json.dumps({"input": name, "frames": "all",
                        "output": {"path": name + ".webp", "lossless": True, "effort": 0}})
            for name in names]
    machine = rig.Rig(daemon, folder)
    differ = []
    try:
        machine.run(jobs)
        for name in names:
            ours, delays, loop, profile = movie_of(f"{machine.out}/{name}.webp")
            theirs, wanted, repeats, kept = movie_of(f"{folder}/{name}")
            if len(ours) == 1:  # a still image has no delay
                delays, loop = wanted, repeats
            if (len(ours) != len(theirs) or (delays, loop, profile) != (wanted, repeats, kept) or
                    not all(map(numpy.array_equal, ours, theirs))):
                differ.append(name)
                print(f"# {name}: {len(ours)} frames, {delays}, {loop}, and Pillow: {len(theirs)}, "
                      f"{wanted}, {repeats}")
    finally:
        machine.close()
    report.say(names and not differ, f"animated WebPs of {len(names)} files as Pillow reads both")


def check_strips(report, daemon, folder, count):
    """Strips of some frames, from the first to the last."""
    names = animations_in(folder)
    machine = rig.Rig(daemon, folder)
    differ = []
    try:
        machine.run([json.dumps({"input": name, "frames": {"strip": count}, "output": name + ".png"})
                     for name in names])
        for name in names:
            frames = pages_of(f"{folder}/{name}")
            spaces = min(count, len(frames)) - 1
            chosen = [(2 * place * (len(frames) - 1) + spaces) // (2 * spaces)
                      for place in range(spaces + 1)] if spaces else [0]
            wanted = numpy.concatenate([frames[number] for number in chosen], 1)
            if not numpy.array_equal(pixels(Image.open(f"{machine.out}/{name}.png")), wanted):
                differ.append(name)
                print(f"# the strip of {name} differs")
    finally:
        machine.close()
    report.say(names and not differ, f"strips of {count} frames of {len(names)} files")


def check_sequences(report, daemon, folder):
    """All frames become an AVIF, whose colours are not those of the frames, but whose alpha is."""
    names = animations_in(folder)
    jobs = [json.dumps({"input": name, "frames": "all", "output": {"path": name + ".avif"}})
            for name in names]
    machine = rig.Rig(daemon, folder)
    differ = []
    try:
        machine.run(jobs)
        for name in names:
            ours, delays, _, profile = movie_of(f"{machine.out}/{name}.avif")
            theirs, wanted, _, kept = movie_of(f"{folder}/{name}")
            wanted = [max(1, delay) for delay in wanted] if len(theirs) > 1 else wanted
            alphas = [[frame[:, :, 3] for frame in frames] for frames in (ours, theirs)]
            if ((len(ours), delays, profile) != (len(theirs), wanted, kept) or
                    not all(map(numpy.array_equal, *alphas))):
                differ.append(name)
                print(f"# {name}: {len(ours)} frames, {delays}, and Pillow: {len(theirs)}, {wanted}")
    finally:
        machine.close()
    report.say(names and not differ, f"AVIF sequences of {len(names)} files as Pillow reads both")


def check(report, daemon, folder, title, strict):
    wanted = {}
    for path in sorted(glob.glob(f"{folder}/*.gif") + glob.glob(f"{folder}/*.webp")):
        pages = pages_of(path)
        if pages is not None:
            wanted[os.path.basename(path)] = pages
        else:
            print(f"# Pillow does not read {path}")
    differ, count = compare(daemon, folder, list(wanted), wanted)
    for name in differ:
        print(f"# {name} differs")
    report.say(count > 0 and not (strict and differ),
               f"{title}: {count} pages of {len(wanted)} files; {len(differ)} files differ")


def main():
    report = peer.Report(sys.argv[1])
    daemon = os.path.abspath(os.path.join(os.path.dirname(report.tool), "..", "..", "gpuimgd"))
    version = subprocess.run([daemon, "--version"], stdout=subprocess.PIPE, check=True).stdout
    if b"no GIF" in version or b"no WebP" in version:
        print("1..0 # SKIP gpuimgd was built without giflib or libwebp")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        make_files(folder)
        check(report, daemon, folder, "animations of Pillow", True)
        check_movies(report, daemon, folder)
        check_strips(report, daemon, folder, 4)
        if b"no AVIF" not in version and features.check("avif"):
            check_sequences(report, daemon, folder)
    for folder in sys.argv[2:]:
        check(report, daemon, folder, folder, False)
    return report.end()


sys.exit(main())
