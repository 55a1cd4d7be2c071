#!/usr/bin/python3
"""Compares composite with Pillow's Image.alpha_composite and Image.paste, byte for byte:
check_composite.py PATH-OF-APPLY. Prints TAP."""
import os
import sys
import tempfile

import numpy
from PIL import Image

import peer

SIZES = [(1, 1), (1, 40), (37, 1), (64, 4), (129, 70), (300, 201)]
OVERLAYS = [(1, 1), (40, 20), (90, 100), (310, 3)]


def overlay(folder, size, gray):
    """Returns an overlay of every alpha, and the path of its pixels."""
    image = peer.picture(*size, 4)
    image[:, :, 3] = peer.RANDOM.integers(0, 256, image.shape[:2])
    image[::3, ::2, 3] = 0
    image[::4, 1::2, 3] = 255
    image[0, 0] = 200, 100, 50, 128  # an overlay without visible colours would count as gray
    if gray:
        image[:, :, 1] = image[:, :, 2] = image[:, :, 0]
    path = os.path.join(folder, f"{gray}-{size[0]}x{size[1]}")
    with open(path, "wb") as file:
        file.write(image.tobytes())
    return Image.fromarray(image), path


def faded(over, opacity):
    """The overlay with its alpha multiplied by the opacity, as OPERATIONS.md defines it."""
    over = over.copy()
    factor = round(65536 * opacity)
    over.putalpha(over.getchannel("A").point([(a * factor + 32768) >> 16 for a in range(256)]))
    return over


def laid(base, over, place):
    """Pillow's result."""
    if base.mode == "RGBA":
        whole = Image.new("RGBA", base.size)
        whole.paste(over, place)
        return Image.alpha_composite(base, whole)
    base = base.copy()
    base.paste(over.convert(base.mode), place, over)
    return base


def tiled(over, size, place):
    """The overlay repeated over an image of this size."""
    pixels = numpy.asarray(over)
    rows = (numpy.arange(size[1]) - place[1]) % over.height
    columns = (numpy.arange(size[0]) - place[0]) % over.width
    return Image.fromarray(pixels[rows][:, columns])


def check(report, image, over, path, gray):
    base = peer.pillow(image)
    if base.mode == "L" and not gray:
        base = base.convert("RGB")
    centre = [(outer - inner) // 2 for outer, inner in zip(base.size, over.size)]
    op = {"op": "composite", "input": path}
    report.check(image, [op], laid(base, over, tuple(centre)), "Pillow")
    for opacity in (1, 0.5, 0.123):
        x, y = int(peer.RANDOM.integers(1 - over.width, base.width)), \
            int(peer.RANDOM.integers(1 - over.height, base.height))
        more = {"x": x, "y": y, "opacity": opacity}
        report.check(image, [op | more], laid(base, faded(over, opacity), (x, y)), "Pillow")
        report.check(image, [op | more | {"tile": True}],
                     laid(base, tiled(faded(over, opacity), base.size, (x, y)), (0, 0)), "Pillow")


def main():
    report = peer.Report(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        for size in OVERLAYS:
            for gray in (False, True):
                over, path = overlay(folder, size, gray)
                for base in SIZES:
                    for channels in (1, 3, 4):
                        check(report, peer.picture(*base, channels), over, path, gray)
    return report.end()


sys.exit(main())
