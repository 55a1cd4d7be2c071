#!/usr/bin/python3
"""blurhash and thumbhash against their authors' code: check_hashes.py PATH-OF-APPLY. Prints TAP.

Python's blurhash is the C code of woltapp/blurhash, whose sums in float32 are not exact enough for
large images. Those are compared with the same sums in NumPy. The hash that evanw/thumbhash
publishes for JavaScript is repeated with NumPy; a mean of cosines that is only a rounding error
counts as 0, as in the definition.
"""
import base64
import io
import math
import string
import sys

import numpy
import blurhash

import peer

PICTURES = 200
RANDOM = numpy.random.default_rng(83)
DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase + "#$%*+,-.:;=?@[]^_{|}~"


def small_blurhash(image, across, down):
    file = io.BytesIO()
    peer.pillow(image).save(file, "PNG")
    return blurhash.encode(file, across, down)


def coefficients(image, across, down):
    """Returns the means of the linear colours times the cosines, by row."""
    height, width, _ = image.shape
    value = image / 255
    linear = numpy.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    columns = numpy.cos(numpy.pi * numpy.outer(numpy.arange(across), numpy.arange(width)) / width)
    rows = numpy.cos(numpy.pi * numpy.outer(numpy.arange(down), numpy.arange(height)) / height)
    return numpy.einsum("jy,yxc,ix->jic", rows, linear, columns) / (width * height)


def large_blurhash(image, across, down):
    sums = coefficients(image, across, down)
    waves = 2 * sums.reshape(-1, 3)[1:]
    largest = int(max(0, min(82, math.floor(abs(waves).max() * 166 - 0.5))))

    def number(value, places):
        return "".join(DIGITS[value // 83 ** place % 83] for place in range(places)[::-1])

    def colour(value):
        value = value * 12.92 if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055
        return int(value * 255 + 0.5)

    shares = waves * 166 / (largest + 1)
    steps = numpy.clip(numpy.floor(numpy.sign(shares) * abs(shares) ** 0.5 * 9 + 9.5), 0, 18)
    red, green, blue = map(colour, sums[0, 0])
    return number(across - 1 + (down - 1) * 9, 1) + number(largest, 1) + \
        number(red << 16 | green << 8 | blue, 4) + \
        "".join(number(int(r) * 361 + int(g) * 19 + int(b), 2) for r, g, b in steps)


def total(values):
    """Adds from left to right, as the JavaScript does, so that rounding decides alike."""
    return numpy.cumsum(values)[-1]


def terms(plane, across, down):
    height, width = plane.shape
    found = []
    for j in range(down):
        for i in range(across):
            if i * down < across * (down - j):
                x = numpy.cos(numpy.pi / width * i * (numpy.arange(width) + 0.5))
                y = numpy.cos(numpy.pi / height * j * (numpy.arange(height) + 0.5))
                found.append(total(plane * x * y[:, None]) / (width * height))
    constant, waves = found[0], numpy.array(found[1:])
    waves[abs(waves) < 1e-12] = 0
    scale = abs(waves).max()
    return constant, scale, 0.5 + 0.5 / scale * waves if scale else waves


def thumbhash_of(image):
    height, width, channels = image.shape
    alpha = image[:, :, 3] / 255 if channels == 4 else numpy.ones((height, width))
    values = image[:, :, :3] if channels > 1 else numpy.repeat(image, 3, 2)
    rgb = (alpha / 255)[:, :, None] * values
    mean = numpy.array([total(rgb[:, :, c]) for c in range(3)]) / (total(alpha) or 1)
    rgb = mean * (1 - alpha[:, :, None]) + rgb
    has_alpha = bool((alpha < 1).any())
    bits, count = 0, 0

    def put(value, width):
        nonlocal bits, count
        bits |= math.floor(value + 0.5) << count
        count += width

    most, longest = 5 if has_alpha else 7, max(width, height)
    across, down = (max(1, math.floor(most * side / longest + 0.5)) for side in (width, height))
    red, green, blue = rgb[:, :, 0], rgb[:, :, 1], rgb[:, :, 2]
    planes = [terms((red + green + blue) / 3, max(3, across), max(3, down)),
              terms((red + green) / 2 - blue, 3, 3), terms(red - green, 3, 3)]
    put(63 * planes[0][0], 6)
    put(31.5 + 31.5 * planes[1][0], 6)
    put(31.5 + 31.5 * planes[2][0], 6)
    put(31 * planes[0][1], 5)
    put(has_alpha, 1)
    put(down if width > height else across, 3)
    put(63 * planes[1][1], 6)
    put(63 * planes[2][1], 6)
    put(width > height, 1)
    if has_alpha:
        planes.append(terms(alpha, 5, 5))
        put(15 * planes[3][0], 4)
        put(15 * planes[3][1], 4)
    for plane in planes:
        for wave in plane[2]:
            put(15 * wave, 4)
    return base64.b64encode(bits.to_bytes(-(-count // 8), "little")).decode()


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


def noise(shape):
    return RANDOM.integers(0, 256, shape)


def flat(shape):
    return numpy.broadcast_to(RANDOM.integers(0, 256, shape[2]), shape)


def main():
    report = peer.Report(sys.argv[1])
    for number in range(PICTURES):
        kind, large = [waves, noise, flat][number % 3], number % 10 == 9
        width, height = (int(side) for side in RANDOM.integers(5, 1500 if large else 33, 2))
        across, down = (int(side) for side in RANDOM.integers(1 if not large else 2, 10, 2))
        image = numpy.clip(kind((height, width, 3)), 0, 255).astype(numpy.uint8)
        image = numpy.ascontiguousarray(image)
        want = (large_blurhash if large else small_blurhash)(image, across, down)
        got = peer.run(report.tool, image, [{"op": "blurhash", "components": [across, down]}])
        report.say(got[1]["blurhash"] == want, f"blurhash {kind.__name__} {image.shape} {want}")
    for number in range(PICTURES):
        kind, channels = [waves, noise, flat][number % 3], [1, 3, 4][number // 3 % 3]
        shape = (*(int(side) for side in RANDOM.integers(5, 101, 2)), channels)
        image = numpy.clip(kind(shape), 0, 255).astype(numpy.uint8)
        image = numpy.ascontiguousarray(image)
        want = thumbhash_of(image)
        got = peer.run(report.tool, image, ["thumbhash"])[1]["thumbhash"]
        report.say(got == want, f"thumbhash {kind.__name__} {shape} {want}")
    return report.end()


sys.exit(main())
