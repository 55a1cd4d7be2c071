"""Makes files like those of a phone's camera from photographs, for host.py.

A file has 4416 x 3328 pixels or another size, 4:2:0, and at most 3 bits per pixel (2.8 from most
photographs). Its EXIF has orientation 6 and a thumbnail. The photograph is enlarged, and gets noise
like a sensor's, which is the same in each run.
"""
import json
import os
import random
import struct

from png_file import GRAY_ALPHA, png
from rig import Rig

WIDTH, HEIGHT = 4416, 3328
BITS_PER_PIXEL, QUALITY = 3, 96 # the daemon lowers the quality until the file is small enough
NOISE_ALPHA = 14                # of 255, for uniform noise of 0 to 255
ORIENTATION = 6
THUMBNAIL_SIDE = 160


def write_noise(path, width, height):
    """Writes gray noise with a constant alpha."""
    rows = bytearray(height * (2 * width + 1))
    noise = random.Random(1)
    row = bytearray(bytes((0, NOISE_ALPHA)) * width)
    for y in range(height):
        row[0::2] = noise.randbytes(width)
        at = y * (2 * width + 1)
        rows[at + 1:at + 1 + 2 * width] = row
    with open(path, "wb") as file:
        file.write(png(width, height, GRAY_ALPHA, bytes(rows)))


def exif(thumbnail):
    """Returns an APP1 segment with the orientation in IFD 0 and the thumbnail in IFD 1."""
    def entry(tag, kind, value):
        return struct.pack(">HHI", tag, kind, 1) + \
            (struct.pack(">HH", value, 0) if kind == 3 else struct.pack(">I", value))
    second, at = 8 + 2 + 12 + 4, 8 + 2 + 12 + 4 + 2 + 3 * 12 + 4
    tiff = b"MM\0*" + struct.pack(">IH", 8, 1) + entry(0x112, 3, ORIENTATION) + \
        struct.pack(">IH", second, 3) + entry(0x103, 3, 6) + entry(0x201, 4, at) + \
        entry(0x202, 4, len(thumbnail)) + struct.pack(">I", 0) + thumbnail
    return b"\xff\xe1" + struct.pack(">H", 2 + 6 + len(tiff)) + b"Exif\0\0" + tiff


def make(program, names, folder, width=WIDTH, height=HEIGHT):
    """Makes NAME + "-WIDTH-phone.jpg" of each photograph of the folder. Returns paths and sizes."""
    write_noise(os.path.join(folder, "noise.png"), width, height)
    enlarge = {"op": "resize", "width": width, "height": height, "fit": "cover"}
    noise = {"op": "composite", "input": "noise.png"}
    shrink = {"op": "resize", "width": THUMBNAIL_SIDE, "height": THUMBNAIL_SIDE}
    large = {"quality": QUALITY, "max_bytes": width * height * BITS_PER_PIXEL // 8}
    stems = [os.path.splitext(name)[0] for name in names]
    with Rig(program, folder, f"--output_root={folder}") as rig:
        rig.run([json.dumps({"input": name, "outputs": [
            {"ops": [enlarge, noise], "output": {"path": f"{stem}-large.jpg", **large}},
            {"ops": [shrink], "output": {"path": f"{stem}-small.jpg"}}]})
            for name, stem in zip(names, stems)])
    made = []
    for stem in stems:
        parts = []
        for suffix in ("-small.jpg", "-large.jpg"):
            path = os.path.join(folder, stem + suffix)
            with open(path, "rb") as file:
                parts.append(file.read())
            os.remove(path)
        made.append((os.path.join(folder, f"{stem}-{width}-phone.jpg"), width, height))
        with open(made[-1][0], "wb") as file:
            file.write(parts[1][:2] + exif(parts[0]) + parts[1][2:])
    return made
