"""peer.py - shared by the checks: images, the operations under test, and TAP."""
import json
import subprocess

import numpy
from PIL import Image

RANDOM = numpy.random.default_rng(20)


def picture(width, height, channels):
    """Noise with flat areas and full-range steps."""
    image = RANDOM.integers(0, 256, (height, width, channels), dtype=numpy.uint8)
    image[:, width // 3:width // 2] = 255
    image[height // 4:height // 3] = 0
    return image


def pillow(image):
    """Converts to an image of Pillow."""
    return Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)


def gray(image):
    """Converts to gray with Pillow."""
    return numpy.array(pillow(image).convert("L"))


def run(tool, image, ops, *decoded):
    """Returns the pixels and the values of the result. decoded: the sides of the image in its file,
    the eighths at which it was decoded, and the file of its profile."""
    height, width, channels = image.shape
    (width, height), *eighths = decoded or [(width, height)]
    arguments = map(str, (width, height, channels, json.dumps(ops), *eighths))
    out = subprocess.run([tool, *arguments], input=image.tobytes(), stdout=subprocess.PIPE,
                         check=True).stdout
    head, pixels = out.split(b"\n", 1)
    width, height, channels, values = head.split()
    return (numpy.frombuffer(pixels, numpy.uint8).reshape(int(height), int(width), int(channels)),
            json.loads(values))


class Report:
    def __init__(self, tool):
        self.tool, self.count, self.failures = tool, 0, 0

    def say(self, same, name):
        self.count += 1
        self.failures += not same
        print(f"{'ok' if same else 'not ok'} {self.count} - {name}")

    def check(self, image, ops, want, whose="", *decoded):
        """want: the other program's image; gray may lack the third dimension."""
        got, _ = run(self.tool, image, ops, *decoded)
        want = numpy.asarray(want)
        want = want.reshape(want.shape[0], want.shape[1], -1)
        self.say(got.shape == want.shape and bool((got == want).all()),
                 f"{image.shape} {json.dumps(ops)[:120]} {whose}")

    def end(self):
        print(f"1..{self.count}")
        return self.failures > 0
