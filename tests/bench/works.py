"""The works of host.py: kinds of jobs, each on a set of files."""
import json

from photos import (MP_MAX, MP_MIN, make_grays, make_large, make_phone, make_pngs,
                    make_small, make_web_progressives, write_logo)

EDGES = ["grayscale", "sobel"]
def fit(side):
    return [{"op": "resize", "width": side, "height": side}]


THUMBNAILS = fit(512)
def three_sizes(suffix):
    return [(suffix, fit(side)) for side in (1200, 640, 320)]


def with_logo(resize):
    return ["to_srgb", {"op": "resize", **resize},
            {"op": "composite", "input": "logo.png", "gravity": "southeast", "scale": 0.2}]


# The outputs of the job in README.md.
SITE_WEBP = ("webp", with_logo({"width": 1200}), {"quality": 75})
SITE_AVIF = ("avif", with_logo({"width": 640}), {"quality": 50, "effort": 1})
SITE_JPEG = ("jpg", with_logo({"width": 320, "height": 320, "fit": "cover",
                               "gravity": "attention"}),
             {"max_bytes": 15000, "metadata": ["copyright"]})
SITE_HASH = (None, ["to_srgb", {"op": "resize", "width": 64}, "blurhash"])
OUTPUTS = 256        # names of outputs, overwritten in turn
PROGRESSIVE_TURN = 3 # times as long, because a device needs up to half a second for such a file


class Work:
    """One kind of job on a set of files. outputs: suffix and operations of each output, and members
    of its "output" if it needs any; without a suffix, it only gives values. batch: a turn has a
    multiple of this number of jobs."""

    def __init__(self, name, ops, photos, alone=False, turn=1, outputs=None, batch=1):
        self.name, self.ops, self.photos, self.turn = name, ops, photos, turn
        self.alone, self.batch = alone, batch
        self.outputs = outputs or [("jpg", ops)]
        self.expected = None                # digests of the CPU engine's outputs

    @property
    def mp(self):
        return sum(photo.mp for photo in self.photos) / len(self.photos)

    @property
    def kept(self):
        """Jobs whose outputs are kept. A multiple of the number of files, so that an output always
        has the same input."""
        return len(self.photos) * max(1, OUTPUTS // len(self.photos))

    def outputs_of(self, number):
        return self.outputs

    def names(self, number):
        """The outputs' names."""
        base = f"{self.name.replace(' ', '-')}-{number % self.kept}"
        return [f"{base}-{i}.{suffix}" for i, (suffix, *_) in enumerate(self.outputs_of(number))
                if suffix]

    def job(self, number):
        names, outputs = iter(self.names(number)), []
        for suffix, ops, *settings in self.outputs_of(number):
            place = {"output": {"path": next(names), **dict(*settings)}} if suffix else {}
            outputs.append({**place, "ops": ops})
        return json.dumps({"input": self.photos[number % len(self.photos)].name,
                           **(outputs[0] if len(outputs) == 1 else {"outputs": outputs})})


def make_works(options, photos, folder):
    """Returns the works that are wanted, and prints why others are missing."""
    kinds = {kind: [photo for photo in photos if photo.kind == kind]
             for kind in ("baseline", "progressive")}
    works = [Work("baseline to edges", EDGES, kinds["baseline"]),
             Work("baseline to thumbnails", THUMBNAILS, kinds["baseline"]),
             Work("mixed to edges", EDGES, photos if all(kinds.values()) else [],
                  turn=PROGRESSIVE_TURN),
             Work("progressive to edges", EDGES, kinds["progressive"], turn=PROGRESSIVE_TURN)]
    similar = ("jpg", THUMBNAILS, {"quality": {"ssim": 0.98}})
    for name, outputs in [("thumbnails of one similarity", [similar]),
                          ("thumbnails as WebP", [("webp", THUMBNAILS)]),
                          ("thumbnails as AVIF", [("avif", THUMBNAILS, {"effort": 1})]),
                          ("thumbnails as smaller AVIF", [("avif", THUMBNAILS)]),
                          ("thumbnails as PNG", [("png", THUMBNAILS)]),
                          ("edges as PNG", [("png", EDGES)]),
                          ("WebP", [("webp", [])]),
                          ("three sizes", three_sizes("jpg")),
                          ("three sizes as WebP", three_sizes("webp")),
                          ("photo site without AVIF", [SITE_WEBP, SITE_JPEG, SITE_HASH]),
                          ("photo site", [SITE_WEBP, SITE_AVIF, SITE_JPEG, SITE_HASH])]:
        works.append(Work(f"baseline to {name}", None, kinds["baseline"], outputs=outputs))
    write_logo(folder)
    makers = [("PNG to edges as PNG", make_pngs, {"outputs": [("png", EDGES)]}),
              ("PNG to thumbnails", make_pngs, {"outputs": [("jpg", THUMBNAILS)]}),
              ("phone to three sizes", make_phone, {"outputs": three_sizes("jpg")}),
              ("web progressive to edges", make_web_progressives, {"turn": PROGRESSIVE_TURN}),
              ("gray baseline to PNG", make_grays, {"outputs": [("png", [])]}),
              ("256 x 256 to edges", make_small, {}),
              ("50 MP alone", make_large, {"alone": True})]
    for name, make, how in makers:
        if is_wanted(options, name) and kinds["baseline"]:
            try:
                works.append(Work(name, EDGES, make(options, kinds["baseline"], folder), **how))
            except Exception as error: # the other works go on
                print(f"{name}: the files cannot be made: {error}")
    for work in works:
        if not work.photos:
            print(f"{work.name}: the folder has no such photographs of {MP_MIN} to {MP_MAX} MP")
    return [work for work in works if work.photos and is_wanted(options, work.name)]


def is_wanted(options, name):
    return not options.only or any(word in name for word in options.only.split(","))
