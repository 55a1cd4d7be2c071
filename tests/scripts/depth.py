#!/usr/bin/python3
"""depth.py - the images, the jobs and the checks of test_depth.sh, with Pillow and NumPy:

    depth.py make FOLDER           writes the images, and one job per line to FOLDER.jobs
    depth.py check FOLDER RESULTS  compares the outputs and the errors with those expected

Files of 16 bits are written and read here: Pillow has no RGB of 16 bits. The expected pixels are
computed from the definitions in gpu/OPERATIONS.md, and resizes are also compared with Pillow's.
"""
import json
import os
import struct
import sys
import zlib

import numpy
from PIL import Image, ImageCms

SIZES = [(1, 1), (1, 7), (9, 1), (5, 3), (33, 17), (64, 40)]
SAMPLES = {"gray": 1, "rgb": 3, "rgba": 4}
BACKGROUND = (10, 200, 90)
MOST = 65535
HAS_TIFF = os.environ.get("DEPTH_TIFF") != "no"


# ---- files ---------------------------------------------------------------------------------------

def chunk(kind, data):
    return (struct.pack(">I", len(data)) + kind + data +
            struct.pack(">I", zlib.crc32(kind + data)))


def write_png(path, pixels, icc=b""):
    height, width, samples = pixels.shape
    depth = pixels.dtype.itemsize * 8
    colour = {1: 0, 2: 4, 3: 2, 4: 6}[samples]
    rows = pixels.astype(pixels.dtype.newbyteorder(">")).reshape(height, -1)
    data = b"".join(b"\0" + row.tobytes() for row in rows)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" +
                   chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)) +
                   (chunk(b"iCCP", b"p\0\0" + zlib.compress(icc)) if icc else b"") +
                   chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


def nearest(left, up, corner):
    by_left, by_up, by_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
    return left if by_left <= by_up and by_left <= by_corner else up if by_up <= by_corner else corner


def unfilter(rows, distance):
    """Decodes the rows of a PNG, each with its filter before it."""
    start = [0] * distance
    above = start + [0] * (len(rows[0]) - 1)
    for row in rows:
        kind, now = row[0], start + list(row[1:])
        for i in range(distance, len(now) if kind > 0 else 0):
            left, up = now[i - distance], above[i]
            now[i] = (now[i] + (left if kind == 1 else up if kind == 2 else
                                (left + up) // 2 if kind == 3 else
                                nearest(left, up, above[i - distance]))) & 255
        above = now
        yield now[distance:]


def read_png(path):
    """Returns the samples, the depth, and whether there is a profile."""
    with open(path, "rb") as file:
        data = file.read()
    at, parts = 8, {}
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        parts[kind] = parts.get(kind, b"") + data[at + 8:at + 8 + length]
        assert zlib.crc32(data[at + 4:at + 8 + length]) == struct.unpack(
            ">I", data[at + 8 + length:at + 12 + length])[0]
        at += 12 + length
    width, height, depth, colour = struct.unpack(">IIBB", parts[b"IHDR"][:10])
    samples = {0: 1, 2: 3, 6: 4}[colour]
    pitch = width * samples * depth // 8 + 1
    stream = zlib.decompress(parts[b"IDAT"])
    assert len(stream) == pitch * height
    rows = [stream[y * pitch:(y + 1) * pitch] for y in range(height)]
    pixels = numpy.array(list(unfilter(rows, samples * depth // 8)), numpy.uint8)
    pixels = pixels.view(">u2" if depth == 16 else "u1").reshape(height, width, samples)
    return pixels.astype(numpy.int64), depth, b"iCCP" in parts


def write_tiff(path, pixels, order="<", orientation=1, associated=False):
    """In strips of 5 rows, without compression."""
    height, width, samples = pixels.shape
    rows = pixels.astype(pixels.dtype.newbyteorder(order))
    strips = [rows[y:y + 5].tobytes() for y in range(0, height, 5)]
    tags, more, data = [], b"", b"".join(strips)
    base = 8 + len(data) + len(data) % 2
    places = [8 + sum(map(len, strips[:i])) for i in range(len(strips))]

    def add(tag, kind, values):
        nonlocal more
        packed = struct.pack(order + str(len(values)) + {3: "H", 4: "I"}[kind], *values)
        if len(packed) > 4:
            at, more = base + len(more), more + packed
            packed = struct.pack(order + "I", at)
        tags.append(struct.pack(order + "HHI", tag, kind, len(values)) + packed.ljust(4, b"\0"))

    add(256, 4, [width])
    add(257, 4, [height])
    add(258, 3, [pixels.dtype.itemsize * 8] * samples)
    add(259, 3, [1])
    add(262, 3, [2 if samples > 2 else 1])
    add(273, 4, places)
    add(274, 3, [orientation])
    add(277, 3, [samples])
    add(278, 4, [5])
    add(279, 4, list(map(len, strips)))
    if samples == 4:
        add(338, 3, [1 if associated else 2])
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", base + len(more))
    with open(path, "wb") as file:
        file.write(head + data + b"\0" * (len(data) % 2) + more +
                   struct.pack(order + "H", len(tags)) + b"".join(tags) + b"\0" * 4)


# ---- images --------------------------------------------------------------------------------------

def draw(width, height, samples, seed):
    """Returns noise with full-range steps."""
    random = numpy.random.default_rng(seed)
    pixels = random.integers(0, MOST + 1, (height, width, samples), dtype=numpy.uint16)
    pixels[height // 2:, : width // 3] = MOST
    pixels[height // 3 : height // 2, width // 3 :: 2] = 0
    return pixels


def clouds(samples):
    """Returns a smooth image, whose resizes need no clamping."""
    y, x, c = numpy.mgrid[0:90, 0:120, 0:samples]
    return (30000 + 15000 * numpy.sin(x / 9 + c) + 9000 * numpy.cos(y / 7 - c)).astype(numpy.uint16)


def images():
    """Yields the name and the samples of each image of 16 bits."""
    for number, (width, height) in enumerate(SIZES):
        for name, samples in SAMPLES.items():
            yield f"{name}-{width}x{height}", draw(width, height, samples, 10 * number + samples)
    for name in ("gray", "rgb"):
        yield f"{name}-clouds", clouds(SAMPLES[name])


IMAGES = dict(images())


def make(folder):
    for name, pixels in IMAGES.items():
        write_png(f"{folder}/{name}.png", pixels)
        write_tiff(f"{folder}/{name}.tif", pixels, "<>"[len(name) % 2])
    write_png(f"{folder}/bytes.png", (IMAGES["rgba-33x17"] >> 8).astype(numpy.uint8))
    write_png(f"{folder}/icc.png", IMAGES["rgb-33x17"],
              ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    write_png(f"{folder}/framed.png", numpy.pad(IMAGES["rgb-33x17"], ((3, 2), (4, 1), (0, 0)),
                                                constant_values=30000))
    write_tiff(f"{folder}/turned.tif", IMAGES["rgb-33x17"], "<", 6)
    write_tiff(f"{folder}/associated.tif", IMAGES["rgba-33x17"], ">", 1, True)
    Image.fromarray((IMAGES["rgb-clouds"] >> 8).astype(numpy.uint8)).save(f"{folder}/photo.jpg")
    with open(f"{folder}.jobs", "w", encoding="utf-8") as file:
        for job in all_jobs():
            file.write(json.dumps({"background": BACKGROUND, "timeout_s": 50, **job}) + "\n")


# ---- the definitions -----------------------------------------------------------------------------

def bicubic(d):
    return numpy.where(d < 1, (1.5 * d - 2.5) * d * d + 1,
                       numpy.where(d < 2, (((d - 5) * d + 8) * d - 4) * -0.5, 0))


FILTERS = {
    "box": (0.5, lambda x: ((x > -0.5) & (x <= 0.5)).astype(float)),
    "bilinear": (1, lambda x: numpy.maximum(0, 1 - abs(x))),
    "bicubic": (2, lambda x: bicubic(abs(x))),
    "lanczos3": (3, lambda x: numpy.where((x >= -3) & (x < 3), numpy.sinc(x) * numpy.sinc(x / 3), 0)),
}
PILLOW = {"box": Image.BOX, "bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC,
          "lanczos3": Image.LANCZOS}


def weights(outputs, inputs, filter_name):
    """Returns a matrix of integers in units of 2^-30."""
    support, weight = FILTERS[filter_name]
    scale = inputs / outputs
    stretch = max(1, scale)
    matrix = numpy.zeros((outputs, inputs), numpy.int64)
    for i in range(outputs):
        centre = (i + 0.5) * scale
        low = max(0, int(centre - support * stretch + 0.5))
        high = min(inputs, int(centre + support * stretch + 0.5))
        own = weight((numpy.arange(low, high) - centre + 0.5) / stretch)
        own = own / own.sum() * 2.0 ** 30
        matrix[i, low:high] = numpy.trunc(own + numpy.where(own < 0, -0.5, 0.5))
    return matrix


def scale_rows(matrix, pixels):
    """Scales the first axis."""
    sums = numpy.tensordot(matrix, pixels, 1)
    return ((sums + (1 << 29)) >> 30).clip(0, MOST)


def resize(pixels, width, height, filter_name):
    has_alpha = pixels.shape[2] == 4
    pixels = pixels.copy()
    if has_alpha:
        pixels[..., :3] = (pixels[..., :3] * pixels[..., 3:] + MOST // 2) // MOST
    if width != pixels.shape[1]:
        across = weights(width, pixels.shape[1], filter_name)
        pixels = scale_rows(across, pixels.swapaxes(0, 1)).swapaxes(0, 1)
    if height != pixels.shape[0]:
        pixels = scale_rows(weights(height, pixels.shape[0], filter_name), pixels)
    if has_alpha:
        alpha = pixels[..., 3:]
        divided = (pixels[..., :3] * MOST + alpha // 2) // numpy.maximum(alpha, 1)
        pixels[..., :3] = numpy.where(alpha > 0, divided.clip(0, MOST), pixels[..., :3])
    return pixels


def pad(pixels, left, top, right, bottom, colour):
    height, width, samples = pixels.shape
    fill = numpy.array(list(colour) + [255] * (4 - len(colour)), numpy.int64) * 257
    wanted = 4 if samples == 4 or fill[3] < MOST else 3
    if samples < 3:
        pixels = pixels.repeat(3, 2)
    if wanted == 4 and samples < 4:
        pixels = numpy.dstack([pixels, numpy.full((height, width), MOST)])
    result = numpy.tile(fill[:wanted], (height + top + bottom, width + left + right, 1))
    result[top:top + height, left:left + width] = pixels
    return result


def narrow(pixels):
    return (pixels * 255 + MOST // 2) // MOST


# ---- jobs: name -> (image, operations, the definition) -------------------------------------------

def sized(width, height, filter_name, fit="exact"):
    return [{"op": "resize", "width": width, "height": height, "fit": fit, "filter": filter_name}]


def plain_jobs():
    for name, pixels in IMAGES.items():
        wide = pixels.astype(numpy.int64)
        suffix = "tif" if len(name) % 3 and HAS_TIFF else "png"
        source = f"{name}.{suffix}"
        for other in ("png", "tif") if HAS_TIFF else ("png",):
            yield f"{name}-as-{other}", f"{name}.{other}", [], wide
        yield f"{name}-turned", source, ["rotate"], numpy.rot90(wide, -1)
        yield f"{name}-flipped", source, [{"op": "flip", "axis": "vertical"}], wide[::-1]
        yield f"{name}-padded", source, [
            {"op": "pad", "left": 2, "bottom": 1, "color": [1, 2, 3, 4]}
        ], pad(wide, 2, 0, 0, 1, [1, 2, 3, 4])
        for number, filter_name in enumerate(FILTERS):
            width, height = ((7, 5), (50, 71))[(number + len(name)) % 2]
            yield (f"{name}-{filter_name}-{width}", source, sized(width, height, filter_name),
                   resize(wide, width, height, filter_name))


def chosen_jobs():
    rgb, rgba = (IMAGES[f"{name}-33x17"].astype(numpy.int64) for name in ("rgb", "rgba"))
    yield "cut", "rgb-33x17.png", [
        {"op": "crop", "x": 3, "y": 2, "width": 20, "height": 9}, *sized(9, 4, "bicubic")
    ], resize(rgb[2:11, 3:23], 9, 4, "bicubic")
    yield "bytes", "bytes.png", ["transpose"], (rgba >> 8).swapaxes(0, 1) * 257
    yield "icc", "icc.png", ["rotate"], numpy.rot90(rgb, -1)
    yield "trimmed", "framed.png", ["transpose"], rgb.swapaxes(0, 1)
    if not HAS_TIFF:
        return
    yield "oriented", "turned.tif", [], numpy.rot90(rgb, -1)
    alpha = rgba[..., 3:]
    divided = numpy.where(alpha > 0, rgba[..., :3] * MOST // numpy.maximum(alpha, 1), 0)
    yield "associated", "associated.tif", [], numpy.dstack([divided.clip(0, MOST), alpha])


def mixed_job():
    """Outputs of 16 bits and of 8 bits of one image. The latter are those of a job without the
    former."""
    turn = ["rotate"]
    outputs = [{"output": {"path": "mixed-16.png", "depth": 16}, "ops": turn},
               {"output": {"path": "mixed-8.png"}, "ops": turn},
               {"output": {"path": "mixed-edges.png", "depth": 8}, "ops": ["sobel"]}]
    yield {"id": "mixed", "input": "rgba-33x17.png", "outputs": outputs}
    for name, ops in (("8", turn), ("edges", ["sobel"])):
        yield {"id": f"alone-{name}", "input": "rgba-33x17.png", "ops": ops,
               "output": {"path": f"alone-{name}.png"}}


ONLY = "these operations keep: resize, crop, pad, rotate, flip, transpose"
REFUSED = [
    ({"path": "x.png"}, ["sobel"], "ops[0] sobel works with 8 bits, but the output's depth is 16, "
     "which only " + ONLY),
    ({"path": "x.png"}, ["rotate", "stats"], "ops[1] stats works with 8 bits"),
    ({"path": "x.png"}, ["to_srgb"], "ops[0] to_srgb works with 8 bits"),
    ({"path": "x.png"}, [{"op": "rotate", "angle": 30}], "ops[0] rotate: with a depth of 16, only"),
    ({"path": "x.png"}, [{"op": "rotate", "expand": False}], "angle is 90 and expand false"),
    ({"path": "x.png"}, [{"op": "resize", "width": 9, "height": 9, "fit": "cover",
                          "gravity": "attention"}], "use focus or another gravity"),
    ({"path": "x.jpg"}, [], 'output.depth is a key of png, but "x.jpg" is written as jpeg; omit it'),
    ({"path": "x.webp"}, [], "output.depth is a key of png"),
    ({"path": "x.png", "colors": 9}, [], "output.depth is 16, but colors is 9"),
    ({"path": "x.png", "depth": 12}, [], "output.depth is 12; it must be 8 or 16"),
    ({"path": "x.png", "depth": "16"}, [], 'output.depth is "16"; it must be 8 or 16'),
]


def all_jobs():
    for name, source, ops, _ in (*plain_jobs(), *chosen_jobs()):
        job = {"id": name, "input": source, "output": {"path": f"{name}.png", "depth": 16}, "ops": ops}
        yield job | ({"trim": {}} if name == "trimmed" else {})
    for level in (0, 6):
        yield {"id": f"level-{level}", "input": "rgb-33x17.png",
               "output": {"path": f"level-{level}.png", "depth": 16, "compression": level}}
    yield {"id": "photo", "input": "photo.jpg", "output": {"path": "photo.png", "depth": 16}}
    yield {"id": "photo-8", "input": "photo.jpg", "output": {"path": "photo-8.png"}}
    yield from mixed_job()
    for number, (output, ops, _) in enumerate(REFUSED):
        yield {"id": f"refused-{number}", "input": "rgb-33x17.png", "ops": ops,
               "output": {"depth": 16, **output}}


# ---- checks --------------------------------------------------------------------------------------

def expect(folder, name, wanted, depth=16):
    """Returns 1 for a wrong file."""
    got, got_depth, _ = read_png(f"{folder}/out/{name}.png")
    if got_depth == depth and got.shape == wanted.shape and (got == wanted).all():
        return 0
    most = abs(got - wanted).max() if got.shape == wanted.shape else "-"
    print(f"# {name}: {got.shape} of {got_depth} bits instead of {wanted.shape}, apart by {most}")
    return 1


def is_near_pillow(name, wanted):
    """Whether the expected pixels of a smooth image are Pillow's, which has floats."""
    image, filter_name, width = name.rsplit("-", 2)
    planes = IMAGES[image].astype(numpy.float32)
    height = wanted.shape[0]
    for c in range(planes.shape[2]):
        other = Image.fromarray(planes[..., c]).resize((int(width), height), PILLOW[filter_name])
        if abs(numpy.rint(numpy.asarray(other)) - wanted[..., c]).max() > 1:
            print(f"# {name}: Pillow's differ by more than 1")
            return False
    return True


def check(folder, path):
    with open(path, encoding="utf-8") as file:
        results = {result["id"]: result for result in map(json.loads, file)}
    wrong = near = 0
    for job in all_jobs():
        result = results[job["id"]]
        if not job["id"].startswith("refused") and result["status"] != "done":
            print(f"# {job['id']}: {result}")
            return False
    for name, _, _, wanted in (*plain_jobs(), *chosen_jobs()):
        wrong += expect(folder, name, wanted)
        if "clouds" in name and name.rsplit("-", 2)[1] in FILTERS:
            wrong += not is_near_pillow(name, wanted)
            near += 1
    rgb, rgba = (IMAGES[f"{name}-33x17"].astype(numpy.int64) for name in ("rgb", "rgba"))
    for level in (0, 6):
        wrong += expect(folder, f"level-{level}", rgb)
    wrong += expect(folder, "photo", read_png(f"{folder}/out/photo-8.png")[0] * 257)
    wrong += expect(folder, "mixed-16", numpy.rot90(rgba, -1))
    wrong += expect(folder, "mixed-8", narrow(numpy.rot90(rgba, -1)), 8)
    for name in ("8", "edges"):
        wrong += expect(folder, f"mixed-{name}", read_png(f"{folder}/out/alone-{name}.png")[0], 8)
    wrong += not read_png(f"{folder}/out/icc.png")[2]
    for number, (_, _, text) in enumerate(REFUSED):
        result = results[f"refused-{number}"]
        if result["status"] != "failed" or text not in result["error"]["message"]:
            print(f"# {text}: {result}")
            wrong += 1
    print(f"# {len(results)} results, {near} near Pillow's, {wrong} wrong")
    return wrong == 0 and near > 0


if __name__ == "__main__":
    command = {"make": make, "check": check}[sys.argv[1]]
    sys.exit(0 if command(*sys.argv[2:]) in (None, True) else 1)
