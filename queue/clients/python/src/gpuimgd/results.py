"""Results of jobs, and the errors that they stand for."""
from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, Literal, Mapping, Optional, Sequence, Tuple, Union

from .declared import ErrorCode

Status = Literal["done", "failed", "dead", "cancelled"]


class GpuimgdError(Exception):
    """The base of all errors of this package."""


class ClientClosed(GpuimgdError):
    """The client was closed before the job's result came. The job still runs."""


class DuplicateId(GpuimgdError, ValueError):
    """A job with this id was submitted by this client and has not ended."""


@dataclass(frozen=True)
class Failure:
    """Why a job or an output failed. code: an ErrorCode, or a text that a later daemon added."""

    code: Union[ErrorCode, str]
    message: str
    retryable: bool

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


@dataclass(frozen=True)
class Image:
    """An input or output as far as the result describes it."""

    path: Optional[str] = None
    key: Optional[str] = None
    url: Optional[str] = None
    format: Optional[str] = None
    width: Optional[int] = None
    height: Optional[int] = None
    bytes: Optional[int] = None


@dataclass(frozen=True)
class InputImage(Image):
    """The input; of a job with inputs, the Folder, or the Archive, whose format is tar or zip."""

    folder: Optional[str] = None


@dataclass(frozen=True)
class OutputImage(Image):
    """quality: if the job has max_bytes or names a similarity; ssim: the one that was reached. dtype
    and shape: of a tensor. data: the file, if the job's output is a Download. images: how many were
    written, if the job has inputs; the path, key or URL is then that of the job, with its %p and
    %n."""

    quality: Optional[int] = None
    ssim: Optional[float] = None
    encoder: Optional[str] = None
    dtype: Optional[str] = None
    shape: Optional[Sequence[int]] = None
    values: Mapping[str, Any] = field(default_factory=dict)
    error: Optional[Failure] = None
    images: Optional[int] = None
    data: Optional["bytes_"] = field(default=None, repr=False)


bytes_ = bytes  # Image has a member of this name


@dataclass(frozen=True)
class ImageFailure:
    """An image of a job with inputs that failed. image: its index from 0."""

    image: int
    name: Optional[str]
    error: Failure


@dataclass(frozen=True)
class ImageValues:
    """The values of one image for one output. Both are indexes from 0."""

    image: int
    output: int
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Images:
    """Counts of the images of a job with inputs. copied: members of the archive that were copied to a
    tar; skipped: links and special files of the input. errors has at most 4,096 entries; values lacks
    values_omitted ones. warning: why there was no image."""

    count: int = 0
    done: int = 0
    failed: int = 0
    copied: int = 0
    pixels: int = 0
    errors: Tuple[ImageFailure, ...] = ()
    errors_omitted: int = 0
    values: Tuple[ImageValues, ...] = ()
    values_omitted: int = 0
    skipped: int = 0
    warning: Optional[str] = None


@dataclass(frozen=True)
class Result:
    """How a job ended. `raw` is the JSON object as the daemon wrote it."""

    job: int
    status: Status
    id: Optional[str] = None
    shard: Optional[int] = None
    same_as: Optional[int] = None
    error: Optional[Failure] = None
    meta: Any = None
    priority: Optional[int] = None
    tag: Optional[str] = None
    traceparent: Optional[str] = None
    tracestate: Optional[str] = None
    input: Optional[InputImage] = None
    images: Optional[Images] = None
    text: Optional[str] = None
    outputs: Tuple[OutputImage, ...] = ()
    attempt: Optional[int] = None
    engine: Optional[str] = None
    decoder: Optional[str] = None
    daemon: Optional[str] = None
    ms: Mapping[str, float] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        return self.status == "done"

    def raise_for_status(self) -> "Result":
        """Returns the result of a job that is done; raises JobFailed, JobDead or JobCancelled."""
        if self.ok:
            return self
        raise {"dead": JobDead, "cancelled": JobCancelled}.get(self.status, JobFailed)(self)

    @staticmethod
    def from_json(text: Union[bytes, str, Mapping[str, Any]],
                  data: Optional[Mapping[str, Optional[bytes]]] = None) -> "Result":
        """data: the files of outputs, by key."""
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        raw: Mapping[str, Any] = json.loads(text) if isinstance(text, str) else text
        members: Dict[str, Any] = _known(Result, raw)
        members.update(
            raw=raw, error=_failure(raw), images=_images(raw.get("images")),
            input=InputImage(**_known(InputImage, raw.get("input") or {})),
            outputs=tuple(_output(output, data or {}) for output in raw.get("outputs", ())))
        if "input" not in raw:
            members["input"] = None
        return Result(**members)


def _known(kind: Any, raw: Mapping[str, Any]) -> Dict[str, Any]:
    return {k: v for k, v in raw.items() if k in kind.__dataclass_fields__}


def _failure(raw: Mapping[str, Any]) -> Optional[Failure]:
    if "error" not in raw:
        return None
    error = raw["error"]
    try:
        code: Union[ErrorCode, str] = ErrorCode(error["code"])
    except ValueError:
        code = error["code"]
    return Failure(code, error["message"], error["retryable"])


def _images(raw: Optional[Mapping[str, Any]]) -> Optional[Images]:
    if raw is None:
        return None
    members = _known(Images, raw)
    failures = [(row, _failure(row)) for row in raw.get("errors", ())]
    members.update(
        errors=tuple(ImageFailure(row["image"], row.get("name"), failure)
                     for row, failure in failures if failure),
        values=tuple(ImageValues(row["image"], row["output"], row["values"])
                     for row in raw.get("values", ())))
    return Images(**members)


def _output(raw: Mapping[str, Any], data: Mapping[str, Optional[bytes]]) -> OutputImage:
    members = _known(OutputImage, raw)
    members.update(error=_failure(raw), data=data.get(raw.get("key", "")))
    return OutputImage(**members)


class JobError(GpuimgdError):
    """A job that is not done. result: how it ended; code: its ErrorCode."""

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        self.result = result

    @property
    def code(self) -> Union[ErrorCode, str]:
        return self.result.error.code if self.result.error else ErrorCode.INTERNAL

    def __str__(self) -> str:
        name = f"job {self.result.id}" if self.result.id else f"job number {self.result.job}"
        return f"{name} is {self.result.status}: {self.result.error}"


class JobFailed(JobError):
    """A retry cannot help."""


class JobDead(JobError):
    """All attempts are used up."""


class JobCancelled(JobError):
    """A client cancelled the job."""
