#!/usr/bin/python3
"""Compares palette with Pillow's median cut: check_palette.py PATH-OF-APPLY. Prints TAP.

The two cut boxes by different rules. So the colours differ, but those of palette must not be worse:
the mean squared distance of the pixels to their nearest colour, relative to Pillow's. CELL is added
to both: the mean squared distance to the centre in an even cell of 16 x 16 x 16 colours, which
palette does not divide.
"""
import sys

import numpy

import peer

PICTURES = 24
WORST, MEAN, CELL = 2.5, 1.0, 64


def scene(number):
    """Large smooth areas and small ones, with noise: a few dominant colours."""
    random = numpy.random.default_rng(number)
    height, width = 120, 160
    y, x = numpy.mgrid[0:height, 0:width]
    image = numpy.empty((height, width, 3))
    image[:] = random.integers(0, 256, 3)
    for _ in range(2 + number % 7):
        center, radius = random.uniform(0, 1, 2) * (height, width), random.uniform(8, 60)
        inside = (y - center[0]) ** 2 + (x - center[1]) ** 2 < radius ** 2
        image[inside] = random.integers(0, 256, 3)
    image += random.normal(size=(height, width, 1)) * random.uniform(0, 12)
    image += (x / width * random.uniform(-60, 60))[:, :, None]
    return numpy.clip(image, 0, 255).astype(numpy.uint8)


def error(image, colours):
    apart = image.reshape(-1, 1, 3).astype(int) - numpy.asarray(colours).reshape(1, -1, 3)
    return (apart ** 2).sum(axis=2).min(axis=1).mean() + CELL


def main():
    report, ratios = peer.Report(sys.argv[1]), []
    for number in range(PICTURES):
        image, count = scene(number), 2 + number % 9
        got = peer.run(report.tool, image, [{"op": "palette", "colors": count}])[1]["palette"]
        quantized = peer.pillow(image).quantize(count, method=0, dither=0)
        theirs = numpy.array(quantized.getpalette()[:3 * count]).reshape(-1, 3)
        ratios.append(error(image, [each["color"] for each in got]) / error(image, theirs))
        report.say(ratios[-1] <= WORST, f"palette {count} of scene {number}: {ratios[-1]:.3f}")
    mean = float(numpy.exp(numpy.log(ratios).mean()))
    report.say(mean <= MEAN, f"palette: geometric mean {mean:.3f}")
    return report.end()


sys.exit(main())
