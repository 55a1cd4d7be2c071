"""Makes the images and shards of sets.py.

The daemon makes the images with the CPU engine, from crops of photographs: the same photographs
give the same files. A shard is a tar in which a few hundred distinct images repeat, and its copies
are hard links: many shards take the memory of one.
"""
import io
import json
import os
import random
import tarfile

from rig import Rig

OUTPUTS_MAX = 16               # of a job
SAMPLES = 64                   # images from which the quality is chosen
QUALITIES = (50, 60, 67, 73, 78, 82, 85, 88, 90, 92, 93, 94, 95, 96, 97, 98)


class Kind:
    """Distinct images of one size in a folder, as 0.jpg, 1.jpg, ...; bytes is their mean size."""

    def __init__(self, name, width, height, target):
        self.name, self.width, self.height, self.target = name, width, height, target
        self.quality, self.count, self.bytes = None, 0, 0

    @property
    def pixels(self):
        return self.width * self.height

    def file(self, number):
        return f"{self.name}/{number % self.count}.jpg"


def kinds():
    """Small images of about 10 KB, and images like ImageNet's, of about 110 KB."""
    return [Kind("small", 256, 256, 10e3), Kind("imagenet", 500, 375, 110e3)]


def crop_job(kind, photo, chance):
    """Returns the operations that make an image of this kind from a part of the photograph."""
    widest = min(photo.width, photo.height * kind.width // kind.height)
    width = chance.randint(min(kind.width, widest), widest)
    height = max(1, width * kind.height // kind.width)
    return [{"op": "crop", "width": width, "height": height,
             "x": chance.randint(0, photo.width - width),
             "y": chance.randint(0, photo.height - height)},
            {"op": "resize", "width": kind.width, "height": kind.height, "fit": "exact"}]


def choose_quality(kind, photos, folder, rig):
    """Sets the quality with which the mean size of a few images is nearest to the target."""
    chance, jobs, sums = random.Random(1), [], dict.fromkeys(QUALITIES, 0)
    for number in range(SAMPLES):
        photo = photos[number % len(photos)]
        ops = crop_job(kind, photo, chance)
        jobs.append(json.dumps({"input": photo.name, "outputs": [
            {"output": {"path": f"{kind.name}/try-{number}-{quality}.jpg", "quality": quality},
             "ops": ops} for quality in QUALITIES]}))
    rig.run(jobs)
    for number in range(SAMPLES):
        for quality in QUALITIES:
            path = os.path.join(folder, f"{kind.name}/try-{number}-{quality}.jpg")
            sums[quality] += os.path.getsize(path)
            os.unlink(path)
    kind.quality = min(QUALITIES, key=lambda each: abs(sums[each] / SAMPLES - kind.target))


def make_images(kind, count, photos, folder, build):
    """Makes `count` images of a kind. A job makes several from one photograph."""
    chance, jobs, made = random.Random(2), [], 0
    os.makedirs(os.path.join(folder, kind.name), exist_ok=True)
    with Rig(f"{build}/gpuimgd", folder, f"--output_root={folder}") as rig:
        choose_quality(kind, photos, folder, rig)
        each = min(OUTPUTS_MAX, -(-count // len(photos)))
        while made < count:
            photo, outputs = photos[len(jobs) % len(photos)], []
            for _ in range(min(each, count - made)):
                outputs.append({"output": {"path": f"{kind.name}/{made}.jpg",
                                           "quality": kind.quality},
                                "ops": crop_job(kind, photo, chance)})
                made += 1
            jobs.append(json.dumps({"input": photo.name, "outputs": outputs}))
        rig.run(jobs)
    kind.count = count
    kind.bytes = sum(os.path.getsize(os.path.join(folder, kind.file(i)))
                     for i in range(count)) / count


def member_name(number, suffix):
    return f"{number:06d}.{suffix}"


def make_shard(kind, members, copies, folder):
    """Writes a shard and its copies. Returns their names."""
    names = [f"{kind.name}-{members}-{copy:03d}.tar" for copy in range(copies)]
    images = []
    for number in range(kind.count):
        with open(os.path.join(folder, kind.file(number)), "rb") as file:
            images.append(file.read())
    with tarfile.open(os.path.join(folder, names[0]), "w", format=tarfile.USTAR_FORMAT) as tar:
        for number in range(members):
            info = tarfile.TarInfo(member_name(number, "jpg"))
            info.size = len(images[number % kind.count])
            tar.addfile(info, io.BytesIO(images[number % kind.count]))
    for name in names[1:]:
        os.link(os.path.join(folder, names[0]), os.path.join(folder, name))
    return names
