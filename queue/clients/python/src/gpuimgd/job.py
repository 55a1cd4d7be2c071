# Made by queue/clients/generate.py (`make documents`); do not edit.
"""A job."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Optional, Sequence, Union

from .places import Archive, Folder, InputPlace, OutputPlace
from .steps import UNSET, Output, Step, Strip, Time, Trim, Variant


@dataclass(frozen=True)
class Job:
    """A job. It has either input or inputs, and either output and ops, or outputs. The client sets
    reply_to and pushed, and an id if there is none; then the job is also unique, unless this says
    otherwise.

    input: The image: a path below input_root, a Key, a Url, or an Upload with its bytes.
    output: Where the result goes: a path below output_root, a Key, a Url, a Download, or one of
        these with the settings of an encoder (gpuimgd.out).
    ops: At most 32 operations in their order (gpuimgd.ops, or names).
    outputs: Instead of output and ops: 1 to 16 outputs, each with its own operations. The input is
        decoded once.
    inputs: Instead of input: a list of 1 to 1024 images, or those of a Folder or of an Archive. The
        path, key or URL of an output then has %p or %n, unless all images share it: a path that
        ends in .tar, or one with pack.
    on_error: With inputs: whether an image that fails is left out, which is the default, or the job
        fails.
    id: 1 to 128 bytes without control characters. The result repeats it.
    timeout_s: Seconds of work for one attempt, above 0 and at most job_timeout_s.
    background: [red, green, blue], 0 to 255: the colour under transparent pixels. Default: white.
    orient: Whether the EXIF orientation is applied first. Default: true.
    trim: Removes the borders of one colour around the input, before all operations.
    page: The frame of an animation, or the page, that is read. Default: 0, the first.
    frames: What becomes of an input with several frames: one is read, which is the default; the
        input fails; a Strip of them is one image; or all are read, as the images of a job with
        inputs. An output whose path ends in .webp or .avif is then an animation.
    meta: Any JSON value. The result repeats it.
    unique: Whether one job with this id at a time runs, and others get its result.
    not_before: The job does not start before this time.
    expires: The job does not start after this time.
    priority: 0 to 9, the most urgent.
    tag: The client or the kind of work, for metrics: 1 to 64 letters, digits and characters of
        ._:/@-.
    traceparent: The job's place in a trace of the client (W3C Trace Context).
    tracestate: More of W3C Trace Context; requires traceparent.
    """

    input: Optional[InputPlace] = None
    output: Optional[Union[OutputPlace, Output]] = None
    ops: Sequence[Step] = ()
    outputs: Optional[Sequence[Variant]] = None
    inputs: Optional[Union[Sequence[InputPlace], Folder, Archive]] = None
    on_error: Optional[Literal["skip", "fail"]] = None
    id: Optional[str] = None
    timeout_s: Optional[float] = None
    background: Optional[Sequence[int]] = None
    orient: Optional[bool] = None
    trim: Optional[Trim] = None
    page: Optional[int] = None
    frames: Optional[Union[Literal["first", "refuse", "all"], Strip]] = None
    meta: Any = UNSET
    unique: Optional[bool] = None
    not_before: Optional[Time] = None
    expires: Optional[Time] = None
    priority: Optional[int] = None
    tag: Optional[str] = None
    traceparent: Optional[str] = None
    tracestate: Optional[str] = None

    def __post_init__(self) -> None:
        if (self.input is None) == (self.inputs is None):
            raise TypeError("a job has either input or inputs")
