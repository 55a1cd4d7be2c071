#!/usr/bin/python3
"""resize against Pillow's Image.resize, byte for byte: check_resize.py PATH-OF-APPLY. Prints TAP."""
import json
import random
import subprocess
import sys

from PIL import Image

MODES = {1: "L", 3: "RGB", 4: "RGBA"}
FILTERS = {"nearest": Image.NEAREST, "box": Image.BOX, "bilinear": Image.BILINEAR,
           "bicubic": Image.BICUBIC, "lanczos3": Image.LANCZOS}
SIZES = [((1, 1), (1, 1)), ((1, 1), (9, 5)), ((640, 427), (100, 67)), ((640, 427), (1, 1)),
         ((97, 61), (97, 30)), ((97, 61), (41, 61)), ((97, 61), (200, 61)), ((97, 61), (97, 150)),
         ((33, 47), (1000, 701)), ((1, 300), (5, 17)), ((300, 1), (17, 5)), ((501, 333), (500, 332)),
         ((255, 257), (128, 129)), ((3000, 7), (2, 3)), ((7, 3000), (3, 2)), ((64, 64), (64, 64))]


def picture(width, height, channels, seed):
    """Noise, flat stretches, full steps; alpha of every kind."""
    rng = random.Random(seed)
    data = bytearray(rng.randbytes(width * height * channels))
    for i in range(0, len(data)):
        if (i // 97) % 3 == 1:
            data[i] = 255 if (i // 7) % 2 else 0
    return Image.frombytes(MODES[channels], (width, height), bytes(data))


def apply(tool, image, ops, full=None, eighths=0):
    channels = len(image.getbands())
    width, height = full or image.size
    arguments = [tool, str(width), str(height), str(channels), json.dumps(ops)]
    out = subprocess.run(arguments + ([str(eighths)] if eighths else []), input=image.tobytes(),
                         stdout=subprocess.PIPE, check=True).stdout
    head, pixels = out.split(b"\n", 1)
    width, height, channels = map(int, head.split()[:3])
    return Image.frombytes(MODES[channels], (width, height), pixels)


def cover_box(size, target):
    """The centre of `size` in the ratio of `target`."""
    (w, h), (tw, th) = size, target
    across, down = w, h
    if w * th > h * tw:
        across = max(1, (2 * h * tw + th) // (2 * th))
    else:
        down = max(1, (2 * w * th + tw) // (2 * tw))
    x, y = (w - across) // 2, (h - down) // 2
    return x, y, x + across, y + down


def main():
    tool, count, failures = sys.argv[1], 0, 0

    def report(name, got, want):
        nonlocal count, failures
        count += 1
        same = got.size == want.size and got.tobytes() == want.tobytes()
        failures += not same
        print(f"{'ok' if same else 'not ok'} {count} - {name}")

    for channels in MODES:
        for number, (size, target) in enumerate(SIZES):
            image = picture(*size, channels, number)
            for name, kind in FILTERS.items():
                op = {"op": "resize", "width": target[0], "height": target[1], "filter": name}
                what = f"{name} {MODES[channels]} {size} to {target}"
                report(what + " exact", apply(tool, image, [op | {"fit": "exact"}]),
                       image.resize(target, kind))
                report(what + " cover", apply(tool, image, [op | {"fit": "cover"}]),
                       image.crop(cover_box(size, target)).resize(target, kind))
    # A picture that was decoded at M/8, as draft mode gives it: the box ends within its last pixel.
    for eighths in (1, 2, 4):
        full, target = (1003, 757), (40, 31)
        size = [-(-side * eighths // 8) for side in full]
        image = picture(*size, 3, eighths)
        op = {"op": "resize", "width": target[0], "height": target[1], "fit": "exact"}
        box = (0, 0, full[0] * eighths / 8, full[1] * eighths / 8)
        report(f"decoded at {eighths}/8", apply(tool, image, [op], full, eighths),
               image.resize(target, Image.LANCZOS, box))
    print(f"1..{count}")
    return failures > 0


sys.exit(main())
