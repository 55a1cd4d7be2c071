#!/usr/bin/python3
"""tensors.py - the images, the jobs and the checks of test_tensors.sh, with Pillow and NumPy:

    tensors.py make FOLDER           writes the images
    tensors.py jobs                  prints one job per line
    tensors.py check FOLDER RESULTS  compares the tensors and the errors with those expected
    tensors.py equal FOLDER OTHER    compares the outputs of two daemons
    tensors.py resizes               whether this Pillow resizes to the same pixels

The expected tensors are computed from the images as a training pipeline does it: Pillow decodes,
resizes and crops, and NumPy computes in float32.
"""
import io
import itertools
import json
import os
import sys

import numpy
import PIL
from PIL import Image

SIZES = [(1, 1), (1, 7), (9, 1), (5, 3), (33, 17), (64, 32), (257, 65), (341, 256), (16384, 3),
         (2, 16384)]
MODES = {"gray": "L", "rgb": "RGB", "rgba": "RGBA"}
TYPES = {"u8": "uint8", "f16": "float16", "f32": "float32"}
IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
NORMALIZATIONS = {
    "gray": [None, {}, {"mean": [0.5], "std": [1e-6]}, {"mean": [-1e6]}],
    "rgb": [None, IMAGENET, {"mean": [0.5], "std": [0.1, 3, 0.7]}, {"std": [1e6]}],
    "rgba": [None, {"mean": [0.1, 0.2, 0.3, 0.4], "std": [0.3]}, {"mean": [0.25]}, {}],
}
PHOTOS = {"wide": (500, 375), "high": (333, 500), "square": (300, 300), "small": (90, 61)}
BACKGROUND = (10, 200, 90)
# Before Pillow 13, Image.resize gives the same pixels.
RESIZES = int(PIL.__version__.split(".")[0]) < 13
QUICK = os.environ.get("GPUIMGD_TEST_QUICK") == "1"
LEAST = 100 if QUICK else 500 # jobs: fewer are a fault of this test


def draw(width, height, channels, seed):
    """Returns noise in its left half, and a gradient."""
    random = numpy.random.default_rng(seed)
    pixels = random.integers(0, 256, (height, width, channels), dtype=numpy.uint8)
    ramp = numpy.add.outer(numpy.arange(height), numpy.arange(width)) % 256
    pixels[:, width // 2 + 1:] = ramp[:, width // 2 + 1:, None]
    pixels.flat[:256] = numpy.arange(256)[:pixels.size]
    return pixels


def make(folder):
    for number, ((width, height), (name, mode)) in enumerate(
            itertools.product(SIZES, MODES.items())):
        pixels = draw(width, height, len(mode), number)
        if mode == "RGBA":
            pixels[..., 3] = numpy.where(pixels[..., 3] > 99, 255, 0)
        image = Image.fromarray(pixels[..., 0] if mode == "L" else pixels, mode)
        image.save(f"{folder}/{name}-{width}x{height}.png")
    for number, (name, (width, height)) in enumerate(PHOTOS.items()):
        small = Image.fromarray(draw(width // 9 + 1, height // 9 + 1, 3, number))
        photo = small.resize((width, height), Image.BICUBIC)
        photo.save(f"{folder}/{name}.jpg", quality=90)
        photo.convert("L").save(f"{folder}/{name}-gray.jpg", quality=90)
    numpy.save(f"{folder}/array.npy", numpy.zeros(3))


# ---- the jobs: (id, input, output or list of outputs, ops, expected error or None) --------------

def plain_jobs():
    """Images as they are. Types, layouts, normalizations and formats are combined in turn."""
    for (width, height), name in itertools.product(SIZES, MODES):
        for kind, layout in itertools.product(TYPES, ("hwc", "chw")):
            for number, normalize in enumerate(NORMALIZATIONS[name]):
                if normalize is not None and kind == "u8":
                    continue
                suffix = "raw" if number == 3 else "npy"
                job = f"{name}-{width}x{height}-{kind}-{layout}-{number}.{suffix}"
                output = {"path": job, "type": kind, "layout": layout}
                if normalize is not None:
                    output["normalize"] = normalize
                yield job, f"{name}-{width}x{height}.png", output, []


def channel_jobs():
    for name, channels in itertools.product(MODES, ("image", "gray", "rgb")):
        job = f"{name}-as-{channels}"
        yield job, f"{name}-33x17.png", {"path": job, "format": "npy", "channels": channels,
                                         "type": "f32", "layout": "chw"}, []
    yield "default", "rgb-33x17.png", {"path": "default.npy"}, []
    yield "cut", "rgb-257x65.png", {"path": "cut.npy", "type": "f16"}, [
        {"op": "crop", "x": 31, "y": 5, "width": 177, "height": 23}]
    yield "turned", "rgba-33x17.png", {"path": "turned.raw", "type": "f16", "layout": "chw"}, [
        "transpose"]


def photo_jobs():
    """The preprocessing of ImageNet."""
    for name, gray in itertools.product(PHOTOS, ("", "-gray")):
        job = f"imagenet-{name}{gray}.npy"
        yield job, f"{name}{gray}.jpg", {
            "path": job, "type": "f16", "layout": "chw", "channels": "rgb",
            "normalize": IMAGENET}, [
                {"op": "resize", "fit": "outside", "width": 256, "height": 256,
                 "filter": "bilinear", "fast_shrink": False},
                {"op": "crop", "width": 224, "height": 224}]


def listed_jobs():
    """Several outputs of one image, of which some share passes."""
    ops = [{"op": "crop", "x": 31, "y": 5, "width": 177, "height": 23}, "transpose"]
    yield "listed", "rgb-257x65.png", [
        {"path": "listed-1.npy", "type": "f16"}, {"path": "listed-1.raw", "type": "f16"},
        {"path": "listed-2.npy", "type": "f16", "layout": "chw"}, {"path": "listed-3.npy"},
        {"path": "listed-4.npy", "type": "f32", "channels": "gray"},
        {"path": "listed-5.raw", "type": "f16", "normalize": IMAGENET}], ops


def refused_jobs():
    f32 = {"type": "f32"}
    three = f32 | {"normalize": {"mean": [0.1, 0.2, 0.3]}}
    cases = [
        ({"path": "x.npy", "normalize": {}}, "the type is u8"),
        ({"path": "x.npy", "type": "u8", "normalize": IMAGENET}, "set type to f16 or f32"),
        ({"path": "x.npy", "type": "f64"}, '"u8", "f16" or "f32"'),
        ({"path": "x.npy", "type": 16}, '"u8", "f16" or "f32"'),
        ({"path": "x.npy", "layout": "nchw"}, '"hwc" or "chw"'),
        ({"path": "x.npy", "channels": 3}, '"image", "gray" or "rgb"'),
        ({"path": "x.npy", "quality": 80}, "quality is a key of"),
        ({"path": "x.npy", "max_bytes": 1000}, "max_bytes is a key of"),
        ({"path": "x.raw", "compression": 1}, "compression is a key of"),
        ({"path": "x.npy", "metadata": ["exif"]}, "a NumPy array keeps no metadata"),
        ({"path": "x.png", "type": "f16"}, "type is a key of npy and raw"),
        ({"path": "x.jpg", "layout": "chw"}, "layout is a key of npy and raw"),
        ({"path": "x.png", "normalize": {}}, "normalize is a key of npy and raw"),
        ({"path": "x.raw", "format": "npy"}, "means raw"),
        ({"path": "x"} | three, "is a key of npy and raw"),  # the format of the input
        ({"path": "x.npz"} | three, "npy"),
        ({"path": "x.npy"} | three | {"channels": "gray"}, "has 3 numbers, but the tensor has 1"),
        ({"path": "x.npy"} | f32 | {"normalize": {"std": [1, 1]}}, "has 2 numbers"),
        ({"path": "x.npy"} | f32 | {"normalize": {"std": [1] * 4}}, "has 4 numbers"),
        ({"path": "x.npy"} | f32 | {"normalize": {"mean": [1] * 5}}, "1 to 4 numbers"),
        ({"path": "x.npy"} | f32 | {"normalize": {"mean": []}}, "1 to 4 numbers"),
        ({"path": "x.npy"} | f32 | {"normalize": {"mean": 0.5}}, "1 to 4 numbers"),
        ({"path": "x.npy"} | f32 | {"normalize": {"mean": {"a": 1}}}, "1 to 4 numbers"),
        ({"path": "x.npy"} | f32 | {"normalize": {"mean": ["0.5"]}}, "mean is [\"0.5\"]"),
        ({"path": "x.npy"} | f32 | {"normalize": {"mean": [0, None]}}, "mean is [0,null]"),
        ({"path": "x.npy"} | f32 | {"normalize": {"mean": [2e6]}}, "from -1e+06 to 1e+06"),
        ({"path": "x.npy"} | f32 | {"normalize": {"std": [0]}}, "std is [0]"),
        ({"path": "x.npy"} | f32 | {"normalize": {"std": [1, -0.0, 1]}}, "std is [1,"),
        ({"path": "x.npy"} | f32 | {"normalize": {"std": [-1]}}, "std is [-1]"),
        ({"path": "x.npy"} | f32 | {"normalize": {"std": [1e-40]}}, "from 1e-06"),
        ({"path": "x.npy"} | f32 | {"normalize": {"std": [1e300]}}, "std is [1e+300]"),
        ({"path": "x.npy"} | f32 | {"normalize": {"stdev": [1]}}, 'has the unknown key "stdev"'),
        ({"path": "x.npy"} | f32 | {"normalize": True}, "it must be an object"),
        ({"path": "x.npy"} | f32 | {"normalize": None}, "it must be an object"),
        ({"path": "x.npy"} | f32 | {"normalise": {}}, 'did you mean "normalize"'),
    ]
    for number, (output, why) in enumerate(cases):
        yield f"refused-{number}", "rgb-33x17.png", output, [], why


def all_jobs():
    # A fifth of the combinations still has each image, type and layout.
    plain = itertools.islice(plain_jobs(), 0, None, 5 if QUICK else 1)
    for job in itertools.chain(plain, channel_jobs(), photo_jobs(), listed_jobs()):
        yield *job, None
    yield from refused_jobs()
    yield "not-read", "array.npy", {"path": "x.png"}, [], "the input is a NumPy array"


def print_jobs():
    for job, image, output, ops, _ in all_jobs():
        outputs = [{"output": one, "ops": ops} for one in output] if isinstance(output, list) else []
        print(json.dumps({"id": job, "input": image, "background": BACKGROUND, "timeout_s": 50} |
                         ({"outputs": outputs} if outputs else {"output": output, "ops": ops})))


# ---- the expected tensors -----------------------------------------------------------------------

def flatten(image):
    base = Image.new("RGB", image.size, BACKGROUND)
    base.paste(image, mask=image.getchannel("A"))
    return base


def apply(image, ops):
    """Runs the few operations of the jobs above."""
    for op in ops:
        if op == "transpose":
            image = image.transpose(Image.TRANSPOSE)
        elif op["op"] == "crop":
            width, height = op["width"], op["height"]
            x = op.get("x", (image.width - width) // 2)
            y = op.get("y", (image.height - height) // 2)
            image = image.crop((x, y, x + width, y + height))
        else:
            scale = max(op["width"] / image.width, op["height"] / image.height)
            size = [int(side * scale + 0.5) for side in image.size]
            image = image.resize(size, Image.BILINEAR)
    return image


def expected(image, output, ops):
    channels = output.get("channels", "image")
    image = apply(image, ops)
    if image.mode == "RGBA" and channels != "image":
        image = flatten(image)
    if channels != "image":
        image = image.convert({"gray": "L", "rgb": "RGB"}[channels])
    pixels = numpy.asarray(image)
    values = pixels if pixels.ndim == 3 else pixels[..., None]
    if "normalize" in output:
        mean = numpy.array(output["normalize"].get("mean", [0]), numpy.float32)
        std = numpy.array(output["normalize"].get("std", [1]), numpy.float32)
        values = (values.astype(numpy.float32) / numpy.float32(255) - mean) / std
    if output.get("layout") == "chw":
        values = values.transpose(2, 0, 1)
    with numpy.errstate(over="ignore"):
        return numpy.ascontiguousarray(values.astype(TYPES[output.get("type", "u8")]))


def check_tensor(folder, output, want, told):
    path = f"{folder}/out/{output['path']}"
    name = output.get("format") or path.rsplit(".", 1)[1]
    with open(path, "rb") as file:
        content = file.read()
    text = io.BytesIO()
    numpy.save(text, want)
    assert content == (want.tobytes() if name == "raw" else text.getvalue()), "the bytes differ"
    if name == "npy":
        array = numpy.load(path, mmap_mode="r")
        assert array.shape == want.shape and array.dtype == want.dtype
    shape = want.shape if output.get("layout") != "chw" else want.shape[1:] + want.shape[:1]
    assert told["format"] == name and told["bytes"] == len(content), told
    assert (told["height"], told["width"]) == shape[:2], told
    assert told["dtype"] == str(want.dtype) and told["shape"] == list(want.shape), told


def check_job(folder, job, result):
    _, image, output, ops, why = job
    if why:
        assert result["status"] == "failed", result
        error = result.get("error") or result["outputs"][0]["error"]
        assert why in error["message"], error["message"]
        return
    assert result["status"] == "done", result
    if any(isinstance(op, dict) and op["op"] == "resize" for op in ops) and not RESIZES:
        return
    with Image.open(f"{folder}/in/{image}") as opened:
        for one, told in zip(output if isinstance(output, list) else [output], result["outputs"]):
            check_tensor(folder, one, expected(opened, one, ops), told)


def check(folder, results):
    with open(results, encoding="utf-8") as file:
        by_id = {result["id"]: result for result in map(json.loads, file)}
    count = wrong = 0
    for job in all_jobs():
        count += 1
        try:
            check_job(folder, job, by_id[job[0]])
        except Exception as error:  # pylint: disable=broad-except
            wrong += 1
            print(f"{job[0]}: {error!r}")
    print(f"{count} jobs, {wrong} wrong")
    return wrong == 0 and count > LEAST


def equal(folder, other):
    names = sorted(os.listdir(f"{folder}/out"))
    for name in names:
        if name.startswith("."):
            continue
        with open(f"{folder}/out/{name}", "rb") as one, open(f"{other}/out/{name}", "rb") as two:
            if one.read() != two.read():
                print(f"{name} differs")
                return False
    return len(names) > LEAST and names == sorted(os.listdir(f"{other}/out"))


def main(words):
    if words[0] == "make":
        make(words[1])
    elif words[0] == "jobs":
        print_jobs()
    elif words[0] == "resizes":
        sys.exit(not RESIZES)
    else:
        sys.exit(not {"check": check, "equal": equal}[words[0]](*words[1:]))


main(sys.argv[1:])
