"""peer.py - what the checks share: pictures, the operations under test, and TAP."""
import json
import subprocess

import numpy

RANDOM = numpy.random.default_rng(20)


def picture(width, height, channels):
    """Noise with flat stretches and full steps."""
    image = RANDOM.integers(0, 256, (height, width, channels), dtype=numpy.uint8)
    image[:, width // 3:width // 2] = 255
    image[height // 4:height // 3] = 0
    return image


def run(tool, image, ops):
    """The result's sides and channels, its values, its pixels."""
    height, width, channels = image.shape
    out = subprocess.run([tool, str(width), str(height), str(channels), json.dumps(ops)],
                         input=image.tobytes(), stdout=subprocess.PIPE, check=True).stdout
    head, pixels = out.split(b"\n", 1)
    *sides, values = head.split()
    return [int(side) for side in sides], json.loads(values), pixels


def apply(tool, image, ops):
    (width, height, channels), _, pixels = run(tool, image, ops)
    return numpy.frombuffer(pixels, numpy.uint8).reshape(height, width, channels)


def values(tool, image, ops):
    return run(tool, image, ops)[1]


class Report:
    def __init__(self, tool):
        self.tool, self.count, self.failures = tool, 0, 0

    def say(self, same, name):
        self.count += 1
        self.failures += not same
        print(f"{'ok' if same else 'not ok'} {self.count} - {name}")

    def check(self, image, ops, want, whose=""):
        """want: the other program's picture; a gray one may lack the third dimension."""
        got = apply(self.tool, image, ops)
        want = want.reshape(want.shape[0], want.shape[1], -1)
        self.say(got.shape == want.shape and bool((got == want).all()),
                 f"{image.shape} {json.dumps(ops)[:120]} {whose}")

    def end(self):
        print(f"1..{self.count}")
        return self.failures > 0
