"""Jobs with many inputs in the Python package: their JSON, and their results as objects."""
import dataclasses
import json
import pathlib

import rig
from gpuimgd import (Archive, ErrorCode, Failure, Folder, ImageFailure, Images, ImageValues, Job, Key, Result,
                     Upload, Url, Variant, ops, out)
from gpuimgd.steps import Encoder
from rig import equal, raises


def text_of(job):
    encoder = Encoder(lambda data: f"gpuimgd:img:{len(data)}", lambda: "gpuimgd:img:down", 60)
    return json.loads(encoder.job({f.name: getattr(job, f.name) for f in dataclasses.fields(job)}))


def test_lists():
    """a list of paths, keys, URLs and bytes"""
    equal(text_of(Job(inputs=["a.jpg", pathlib.Path("b/c.png"), Key("gpuimgd:img:d"), Url("https://h/e"),
                              Upload(b"12345")], output="edges/%p.jpg", ops=["sobel"], on_error="fail")),
          {"inputs": ["a.jpg", "b/c.png", {"key": "gpuimgd:img:d"}, {"url": "https://h/e"},
                      {"key": "gpuimgd:img:5"}],
           "output": "edges/%p.jpg", "ops": ["sobel"], "on_error": "fail"})


def test_sets():
    """folders and archives, tars and arrays"""
    equal(text_of(Job(inputs=Folder(pathlib.Path("photos/2026"), "*.jpg"),
                      output=out.npy("all.npy", pack="array", channels="rgb"), ops=[ops.resize(width=8)])),
          {"inputs": {"folder": "photos/2026", "pattern": "*.jpg"},
           "output": {"path": "all.npy", "format": "npy", "channels": "rgb", "pack": "array"},
           "ops": [{"op": "resize", "width": 8}]})
    equal(text_of(Job(inputs=Archive(Url("https://h/1.tar"), ["*.jpg", "*.png"]),
                      outputs=[Variant(out.jpeg("1.tar", quality=70)), Variant(ops=["phash"])])),
          {"inputs": {"archive": {"url": "https://h/1.tar"}, "pattern": ["*.jpg", "*.png"]}, "ops": [],
           "outputs": [{"output": {"path": "1.tar", "format": "jpeg", "quality": 70}}, {"ops": ["phash"]}]})
    equal(text_of(Job(inputs=Archive("1.zip"), output=out.image("1", pack="tar"))),
          {"inputs": {"archive": "1.zip"}, "output": {"path": "1", "pack": "tar"}, "ops": []})


def test_either():
    """a job has either input or inputs"""
    for members in ({}, {"input": "a", "inputs": ["b"]}):
        error = raises(TypeError, lambda: Job(output="x.png", **members))
        equal(str(error), "a job has either input or inputs")


def test_results():
    """results of jobs with many inputs"""
    error = {"code": "decode_failed", "message": "cut off", "retryable": False}
    failure = Failure(ErrorCode.DECODE_FAILED, "cut off", False)
    result = Result.from_json(json.dumps({
        "job": 7, "status": "done", "input": {"path": "1.tar", "format": "tar", "bytes": 20480},
        "images": {"count": 3, "done": 1, "failed": 2, "copied": 4, "pixels": 99, "values_omitted": 5,
                   "errors": [{"image": 1, "name": "a/b.jpg", "error": error}, {"image": 2, "error": error}],
                   "values": [{"image": 0, "output": 1, "values": {"otsu": 7}}], "of_a_later_daemon": 1},
        "outputs": [{"path": "e/%p.npy", "format": "npy", "images": 1, "bytes": 9, "shape": [1, 2, 3, 4]}]}))
    equal((result.input.path, result.input.format, result.input.folder), ("1.tar", "tar", None))
    equal(result.images, Images(3, 1, 2, 4, 99, (ImageFailure(1, "a/b.jpg", failure), ImageFailure(2, None, failure)),
                                0, (ImageValues(0, 1, {"otsu": 7}),), 5))
    empty = {"count": 0, "done": 0, "failed": 0, "copied": 0, "skipped": 3, "pixels": 0, "warning": "there was no image"}
    equal(Result.from_json({"job": 1, "status": "done", "images": empty}).images,
          Images(skipped=3, warning="there was no image"))
    equal((result.outputs[0].images, result.outputs[0].shape), (1, [1, 2, 3, 4]))
    equal(Result.from_json({"job": 1, "status": "done", "input": {"folder": "a/b"}}).input.folder, "a/b")
    equal(Result.from_json({"job": 1, "status": "done", "input": {"path": "a"}}).images, None)


rig.run(globals())
