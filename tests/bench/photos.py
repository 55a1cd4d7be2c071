"""Copies photographs for host.py, and makes other files from them.

The daemon makes most of them, with the CPU engine: the same photographs give the same files.
"""
import json
import math
import os
import random
import shutil
import subprocess

import phone
from png_file import RGBA, png
from rig import Rig

SMALL_SIDE, SMALL_FILES, SMALL_QUALITY = 256, 64, 92
LARGE_WIDTH, LARGE_HEIGHT, LARGE_QUALITY = 8640, 5760, 92 # 49.8 MP: pixels_max is 50 MP
MP_MIN, MP_MAX, FILES_MAX = 0.5, 50, 128
FILES_LEAST = 64   # with copies
PHONE_FILES, PHONE_COPIES = 6, 6
WEB_FILES, WEB_MP, WEB_QUALITY = 64, (0.2, 1), 82


class Photo:
    def __init__(self, path, width, height, kind):
        self.path, self.name = path, os.path.basename(path)
        self.width, self.height, self.kind = width, height, kind
        self.mp = width * height / 1e6


def read_head(path):
    """Returns width, height and kind of a JPEG that every contestant can decode, or None."""
    with open(path, "rb") as file:
        data = file.read(1 << 20)
    at = 2
    while data[:2] == b"\xff\xd8" and at + 10 <= len(data) and data[at] == 0xFF:
        marker, length = data[at + 1], int.from_bytes(data[at + 2:at + 4], "big")
        if marker in (0xC0, 0xC1, 0xC2):
            height, width = (int.from_bytes(data[at + i:at + i + 2], "big") for i in (5, 7))
            usable = data[at + 4] == 8 and data[at + 9] in (1, 3)
            kind = "progressive" if marker == 0xC2 else "baseline"
            return (width, height, kind) if usable else None
        at += 2 + length
    return None


def copy_photos(source, folder):
    """Copies the JPEGs to the folder, as 0.jpg, 1.jpg, ..., and returns them."""
    photos, found = [], find_photos(source)
    copies = math.ceil(FILES_LEAST / max(1, len(found)))
    for path, head in found * copies:
        target = os.path.join(folder, f"{len(photos)}.jpg")
        shutil.copyfile(path, target)
        photos.append(Photo(target, *head))
    return photos


def find_photos(source):
    """Returns path and head of each JPEG."""
    found = []
    for place, folders, names in os.walk(source):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(place, name)
            head = read_head(path) if name.lower().endswith((".jpg", ".jpeg")) else None
            if head and MP_MIN <= head[0] * head[1] / 1e6 <= MP_MAX and len(found) < FILES_MAX:
                found.append((path, head))
    return found


def make_small(options, photos, folder):
    """Lets the daemon make 256 x 256 files from squares of the photographs."""
    chance, jobs, made = random.Random(1), [], []
    for i in range(SMALL_FILES):
        photo = photos[i % len(photos)]
        side = chance.randint(SMALL_SIDE, min(photo.width, photo.height))
        crop = {"op": "crop", "width": side, "height": side,
                "x": chance.randint(0, photo.width - side),
                "y": chance.randint(0, photo.height - side)}
        resize = {"op": "resize", "width": SMALL_SIDE, "height": SMALL_SIDE, "fit": "exact"}
        name = f"small-{i}.jpg"
        jobs.append(json.dumps({"input": photo.name, "ops": [crop, resize],
                                "output": {"path": name, "quality": SMALL_QUALITY}}))
        made.append(Photo(os.path.join(folder, name), SMALL_SIDE, SMALL_SIDE, "small"))
    with Rig(f"{options.build}/gpuimgd", folder, f"--output_root={folder}") as rig:
        rig.run(jobs)
    return made


def make_web_progressives(options, photos, folder):
    """Lets the daemon make progressive files; the logarithms of their sizes are equally spread."""
    jobs, made = [], []
    low, high = WEB_MP
    for i in range(WEB_FILES):
        photo, mp = photos[i % len(photos)], low * (high / low) ** (i / (WEB_FILES - 1))
        scale = math.sqrt(mp / photo.mp)
        width, height = round(photo.width * scale), round(photo.height * scale)
        name = f"progressive-{i}.jpg"
        jobs.append(json.dumps({
            "input": photo.name,
            "ops": [{"op": "resize", "width": width, "height": height, "fit": "exact"}],
            "output": {"path": name, "quality": WEB_QUALITY, "progressive": True}}))
        made.append(Photo(os.path.join(folder, name), width, height, "progressive"))
    with Rig(f"{options.build}/gpuimgd", folder, f"--output_root={folder}") as rig:
        rig.run(jobs)
    return made


def make_copies(options, photos, folder, suffix, kind, **how):
    """Lets the daemon write the photographs again, as NAME + suffix. how: members of the output."""
    jobs, made = [], []
    for photo in photos:
        name = photo.name.replace(".jpg", suffix)
        jobs.append(json.dumps({"input": photo.name, "output": {"path": name, **how}}))
        made.append(Photo(os.path.join(folder, name), photo.width, photo.height, kind))
    with Rig(f"{options.build}/gpuimgd", folder, f"--output_root={folder}") as rig:
        rig.run(jobs)
    return made


def make_pngs(options, photos, folder):
    return make_copies(options, photos, folder, ".png", "png")


def make_grays(options, photos, folder):
    return make_copies(options, photos, folder, "-gray.jpg", "gray", subsampling="gray")


def make_phone(options, photos, folder):
    names = [photo.name for photo in photos[:PHONE_FILES]]
    made = phone.make(f"{options.build}/gpuimgd", names, folder)
    copies = [path.replace("-phone", f"-phone{copy}") for copy in range(PHONE_COPIES)
              for path, _, _ in made]
    for i, copy in enumerate(copies):
        shutil.copyfile(made[i % len(made)][0], copy)
    return [Photo(copy, phone.WIDTH, phone.HEIGHT, "phone") for copy in copies]


def write_logo(folder):
    """Writes a white overlay of 640 x 320 pixels that lets half of the image through."""
    rows = (b"\0" + bytes((255, 255, 255, 128)) * 640) * 320
    with open(os.path.join(folder, "logo.png"), "wb") as file:
        file.write(png(640, 320, RGBA, rows))


def make_large(options, photos, folder):
    source, target = os.path.join(folder, "tile"), os.path.join(folder, "large.jpg")
    os.mkdir(source)
    most = max((photo for photo in photos if photo.kind == "baseline"), key=lambda each: each.mp)
    os.link(most.path, os.path.join(source, most.name))
    subprocess.run([f"{options.build}/tests/bench/bench_tile", "--folder", source, "--width",
                    str(LARGE_WIDTH), "--height", str(LARGE_HEIGHT), "--quality",
                    str(LARGE_QUALITY), target], check=True)
    return [Photo(target, LARGE_WIDTH, LARGE_HEIGHT, "large")]
