#!/usr/bin/env python3
"""Shards to tensors or JPEGs with other libraries: a peer of sets.py, which runs it.

    set_peers.py --peer NAME --shard FILE --out FOLDER [--what npy|jpeg] [--workers N]
                 [--seconds 3] [--expected FOLDER]

Each worker reads the shard again and again, and writes its images to a tar of its own, as WebDataset
does: decode, resize the shorter side to 256, crop 224 x 224 from the centre, and normalize to
float16 in the order CHW, or encode as JPEG. Only whole seconds of work are counted: imports and the
first images come before. Prints one line of JSON: images per second, CPU seconds per second, and how
far the first images are from those of --expected, which are 0.npy, 1.npy, ... or .jpg; or "missing",
and why.
"""
import argparse
import importlib.util
import io
import json
import multiprocessing
import os
import sys
import tarfile
import time

RESIZE, CROP = 256, 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
WARM_S = 0.5
SAMPLE = 64      # images that are compared
DEVICE_BATCH = 64
DEVICE_WORKERS = 4
JPEG_QUALITY = 85
MEMBERS_MAX = 1000 # of an output


def members(path):
    """Yields name and bytes of the members of the shard, again and again."""
    while True:
        with tarfile.open(path, "r|", bufsize=1 << 20) as tar:
            for member in tar:
                yield member.name, tar.extractfile(member).read()


def npy(array):
    import numpy
    file = io.BytesIO()
    numpy.save(file, array)
    return file.getvalue()


def tensor(pixels):
    """Returns the npy file of RGB pixels, with the arithmetic of gpu/OPERATIONS.md."""
    import numpy
    mean, std = numpy.float32(MEAN), numpy.float32(STD)
    values = (pixels.astype(numpy.float32) / numpy.float32(255) - mean) / std
    return npy(numpy.ascontiguousarray(values.transpose(2, 0, 1).astype(numpy.float16)))


def sides(width, height):
    scale = RESIZE / min(width, height)
    return int(width * scale + 0.5), int(height * scale + 0.5)


# ---- the peers: generators of lists of (name, file) ---------------------------------------------

def pillow(options):
    import numpy
    from PIL import Image
    for name, data in members(options.shard):
        image = Image.open(io.BytesIO(data)).convert("RGB")
        image = image.resize(sides(*image.size), Image.BILINEAR)
        x, y = (image.width - CROP) // 2, (image.height - CROP) // 2
        image = image.crop((x, y, x + CROP, y + CROP))
        if options.what == "npy":
            yield [(name, tensor(numpy.asarray(image)))]
        else:
            file = io.BytesIO()
            image.save(file, "JPEG", quality=JPEG_QUALITY)
            yield [(name, file.getvalue())]


def opencv(options):
    import cv2
    import numpy
    cv2.setNumThreads(1)
    for name, data in members(options.shard):
        image = cv2.imdecode(numpy.frombuffer(data, numpy.uint8), cv2.IMREAD_COLOR)
        # Its bilinear filter skips pixels; this one does not.
        image = cv2.resize(image, sides(image.shape[1], image.shape[0]),
                           interpolation=cv2.INTER_AREA)
        y, x = ((side - CROP) // 2 for side in image.shape[:2])
        image = image[y:y + CROP, x:x + CROP]
        if options.what == "npy":
            yield [(name, tensor(cv2.cvtColor(image, cv2.COLOR_BGR2RGB)))]
        else:
            quality = [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY]
            yield [(name, cv2.imencode(".jpg", image, quality)[1].tobytes())]


def torch_batches(options, device, count):
    """Decodes `count` images at once; equal sizes are resized at once."""
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms.v2 import functional
    torch.set_num_threads(1)
    mean, std = (torch.tensor(each, device=device).view(3, 1, 1) for each in (MEAN, STD))
    stream = members(options.shard)
    while True:
        names, files = zip(*(next(stream) for _ in range(count)))
        data = [torch.frombuffer(bytearray(file), dtype=torch.uint8) for file in files]
        images = decode_jpeg(data, mode=ImageReadMode.RGB, device=device)
        if len({image.shape for image in images}) == 1:
            images = [torch.stack(images)]
        made = []
        for image in images:
            size = sides(image.shape[-1], image.shape[-2])[::-1]
            image = functional.resize(image, size, antialias=True)
            y, x = ((side - CROP) // 2 for side in image.shape[-2:])
            image = image[..., y:y + CROP, x:x + CROP]
            values = ((image.float() / 255 - mean) / std).half()
            made.extend(values.view(-1, 3, CROP, CROP).cpu().numpy())
        yield [(name, npy(each)) for name, each in zip(names, made)]


def torchvision(options):
    return torch_batches(options, "cpu", 1)


def torchvision_cuda(options):
    return torch_batches(options, "cuda", DEVICE_BATCH)


def dali(options):
    import nvidia.dali.fn as fn
    from nvidia.dali import pipeline_def, types
    device = "gpu" if options.dali_device else "cpu"

    @pipeline_def(batch_size=DEVICE_BATCH, num_threads=options.threads,
                  device_id=0 if options.dali_device else None)
    def pipeline():
        data = fn.readers.webdataset(paths=[options.shard], ext=["jpg"],
                                     missing_component_behavior="error")
        images = fn.decoders.image(data, device="mixed" if device == "gpu" else "cpu",
                                   output_type=types.RGB)
        images = fn.resize(images, resize_shorter=RESIZE, interp_type=types.INTERP_LINEAR,
                           antialias=True)
        scale = [[255 * value for value in values] for values in (MEAN, STD)]
        return fn.crop_mirror_normalize(images, dtype=types.FLOAT16, output_layout="CHW",
                                        crop=(CROP, CROP), rounding="truncate", mean=scale[0],
                                        std=scale[1])

    pipe, number = pipeline(), 0
    pipe.build()
    while True:
        output, = pipe.run()
        batch = output.as_cpu() if device == "gpu" else output
        made = []
        for i in range(len(batch)):
            made.append((f"{number:06d}.jpg", npy(batch.at(i))))
            number += 1
        yield made


def has_nvjpeg():
    import torch
    return torch.cuda.is_available()


# Name: generator, modules, what installs them, outputs, workers (0: one per CPU).
PEERS = {
    "Pillow": (pillow, ("PIL", "numpy"), "python3-pil", ("npy", "jpeg"), 0),
    "OpenCV": (opencv, ("cv2", "numpy"), "opencv-python-headless", ("npy", "jpeg"), 0),
    "torchvision": (torchvision, ("torch", "torchvision", "numpy"), "torchvision", ("npy",), 0),
    "torchvision nvJPEG": (torchvision_cuda, ("torch", "torchvision", "numpy"), "torchvision",
                           ("npy",), DEVICE_WORKERS),
    "DALI": (dali, ("nvidia.dali", "numpy"), "nvidia-dali-cuda130", ("npy",), 1),
}


def missing(name, what):
    """Returns why a peer cannot run, or None."""
    _, modules, package, outputs, _ = PEERS[name]
    if what not in outputs:
        return f"no {what} row"
    for module in modules:
        try:
            found = importlib.util.find_spec(module)
        except ModuleNotFoundError: # the package that should hold it
            found = None
        if not found:
            return f"not installed (Python module {module}; pip install {package})"
    if name == "torchvision nvJPEG" and not has_nvjpeg():
        return "no CUDA device"
    return None


# ---- one measurement -----------------------------------------------------------------------------

class Writer:
    """Writes members to a tar, and begins a new one after MEMBERS_MAX. Old ones are removed."""

    def __init__(self, folder, number, suffix):
        self.path, self.suffix = os.path.join(folder, f"peer-{number}.tar"), suffix
        self.tar, self.count = None, 0

    def add(self, made):
        for name, data in made:
            if self.count % MEMBERS_MAX == 0:
                self.close()
                self.tar = tarfile.open(self.path, "w", format=tarfile.USTAR_FORMAT)
            info = tarfile.TarInfo(f"{name.rpartition('.')[0]}.{self.suffix}")
            info.size = len(data)
            self.tar.addfile(info, io.BytesIO(data))
            self.count += 1

    def close(self):
        if self.tar:
            self.tar.close()
            os.unlink(self.path)
        self.tar = None


def take_sample(made, sample):
    """Keeps the first images."""
    sample.extend(data for _, data in made[:SAMPLE - len(sample)])


def pixels_of(data, what):
    import numpy
    if what == "npy":
        return numpy.load(io.BytesIO(data)).astype(numpy.float64)
    from PIL import Image
    pixels = numpy.asarray(Image.open(io.BytesIO(data)).convert("RGB"), numpy.float64)
    return pixels / 255 / numpy.float64(STD)


def compare(sample, options):
    """Returns shares of equal files, and the mean difference in units of a normalized tensor."""
    same, difference, suffix = 0, 0.0, "npy" if options.what == "npy" else "jpg"
    for number, data in enumerate(sample):
        path = os.path.join(options.expected, f"{number % options.distinct}.{suffix}")
        with open(path, "rb") as file:
            expected = file.read()
        same += data == expected
        mine, other = pixels_of(data, options.what), pixels_of(expected, options.what)
        if mine.shape != other.shape:
            raise ValueError(f"image {number} has the shape {mine.shape}, not {other.shape}")
        difference += abs(mine - other).mean()
    return {"same": same / len(sample), "difference": difference / len(sample)}


def work(number, options, barrier, answers):
    """A worker: warms up, waits for the others, and counts for the wanted seconds."""
    try:
        stream, sample = PEERS[options.peer][0](options), []
        suffix = "npy" if options.what == "npy" else "jpg"
        writer, images = Writer(options.out, number, suffix), 0
        start = time.monotonic()
        while time.monotonic() < start + WARM_S or len(sample) < SAMPLE:
            made = next(stream)
            take_sample(made, sample)
            writer.add(made)
        agreement = compare(sample, options) if number == 0 and options.expected else {}
        barrier.wait(120)
        start, used = time.monotonic(), time.process_time()
        while (now := time.monotonic()) < start + options.seconds:
            made = next(stream)
            writer.add(made)
            images += len(made)
        writer.close()
        answers.put({"images_s": images / (now - start), **agreement,
                     "cores": (time.process_time() - used) / (now - start)})
    except BaseException as error: # the parent says it
        barrier.abort()
        answers.put({"failed": f"{type(error).__name__}: {error}"})


def measure(options):
    context = multiprocessing.get_context("spawn")
    workers = PEERS[options.peer][4] or options.workers
    barrier, answers = context.Barrier(workers), context.Queue()
    running = [context.Process(target=work, args=(number, options, barrier, answers))
               for number in range(workers)]
    for each in running:
        each.start()
    found = [answers.get(timeout=options.seconds + 300) for _ in running]
    for each in running:
        each.join()
    failed = [each["failed"] for each in found if "failed" in each]
    if failed: # a broken barrier is only the others' reason
        return {"failed": min(failed, key=lambda why: "BrokenBarrier" in why)}
    merged = {key: value for each in found for key, value in each.items()}
    return {**merged, "workers": workers, "images_s": sum(each["images_s"] for each in found),
            "cores": sum(each["cores"] for each in found)}


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--peer", choices=PEERS, required=True)
    parser.add_argument("--shard", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--what", choices=("npy", "jpeg"), default="npy")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--expected", help="folder with outputs of the daemon")
    parser.add_argument("--distinct", type=int, default=SAMPLE, help="images in that folder")
    parser.add_argument("--dali-device", action="store_true", help="DALI on the GPU")
    options = parser.parse_args()
    options.threads = options.workers
    return options


def main():
    options = read_options()
    why = missing(options.peer, options.what)
    print(json.dumps({"missing": why} if why else measure(options)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
