#!/usr/bin/python3
"""Compares phash with Python's imagehash: check_phash.py PATH-OF-APPLY. Prints TAP.

The script repeats the few lines of imagehash.phash, with Pillow's gray and resize and SciPy's DCT.
If a value equals the median exactly, but not in SciPy's doubles, their rounding decides imagehash's
bit. Then the definition requires 0. This is rare, but for images that are more than 100 times as
high as wide: their columns are resized first, and many coefficients are exactly 0.

Only Pillow 12.2 and 12.3 resize the columns of such images first. With other versions, they are
left out.
"""
import sys

import numpy
import PIL
import scipy.fftpack
from PIL import Image

import peer

PICTURES = 600
TIED_MAX = 6
SIDES = [1, 2, 7, 31, 32, 33, 64, 97, 200, 333, 640]
RANDOM = numpy.random.default_rng(64)
VERSION = tuple(int(part) for part in PIL.__version__.split(".")[:2])
HAS_RULE = (12, 2) <= VERSION < (13, 0)
LANCZOS = getattr(Image, "Resampling", Image).LANCZOS


def imagehash_phash(image, hash_size=8, highfreq_factor=4):
    side = hash_size * highfreq_factor
    pixels = numpy.asarray(image.convert("L").resize((side, side), LANCZOS))
    dct = scipy.fftpack.dct(scipy.fftpack.dct(pixels, axis=0), axis=1)
    low = dct[:hash_size, :hash_size]
    return low, low > numpy.median(low)


def text(bits):
    return f"{int(''.join(str(int(bit)) for bit in bits.flatten()), 2):016x}"


def noise(shape):
    return RANDOM.integers(0, 256, shape)


def waves(shape):
    """A smooth image with a little noise, like a photograph."""
    height, width, channels = shape
    y, x = numpy.mgrid[0:height, 0:width]
    planes = []
    for _ in range(channels):
        a, b, c, d = RANDOM.normal(size=4) * 6
        planes.append(128 + 70 * numpy.sin(a * x / width + b * y / height + c) +
                      40 * numpy.cos(d * x / width - c * y / height) +
                      RANDOM.normal(size=(height, width)) * 4)
    return numpy.stack(planes, axis=-1)


def patches(shape):
    """A few pixels, enlarged."""
    coarse = RANDOM.integers(0, 256, tuple(RANDOM.integers(2, 9, 2)) + (3,), dtype=numpy.uint8)
    large = Image.fromarray(coarse).resize((shape[1], shape[0]), Image.BICUBIC)
    return numpy.asarray(large)[:, :, :shape[2]]


def ramp(shape):
    """A ramp from one corner to the other, with a random slope."""
    height, width, _ = shape
    y, x = numpy.mgrid[0:height, 0:width]
    line = x * RANDOM.uniform(0.2, 2) / width + y * RANDOM.uniform(0.2, 2) / height
    return numpy.repeat((line * 255 / line.max() if line.max() > 0 else line)[:, :, None],
                        shape[2], axis=2)


def stripes(shape):
    """Stripes along one axis; the coefficients of the other axis are zero."""
    line = RANDOM.integers(0, 256, shape)
    return numpy.repeat(line[:1], shape[0], axis=0) if RANDOM.integers(2) else \
        numpy.repeat(line[:, :1], shape[1], axis=1)


def flat(shape):
    return numpy.broadcast_to(RANDOM.integers(0, 256, shape[2]), shape)


def main():
    report = peer.Report(sys.argv[1])
    tied = 0
    for number in range(PICTURES):
        kind = [noise, waves, patches, ramp, stripes, flat][number % 6]
        shape = tuple(int(side) for side in RANDOM.choice(SIDES, 2)) + (3 - number // 6 % 2 * 2,)
        image = numpy.ascontiguousarray(numpy.clip(kind(shape), 0, 255).astype(numpy.uint8))
        is_high = shape[0] > 100 * shape[1]
        if is_high and not HAS_RULE:
            continue
        low, bits = imagehash_phash(peer.pillow(image))
        exact = bits & (low - numpy.median(low) > 1e-9)
        tied += bool((exact != bits).any()) and not is_high
        want = text(exact)
        got = peer.run(report.tool, image, ["phash"])[1]["phash"]
        report.say(got == want, f"{kind.__name__} {shape} {got}, imagehash {text(bits)}")
    report.say(tied <= TIED_MAX, f"rounding decided about imagehash's hash of {tied} pictures")
    return report.end()


sys.exit(main())
