"""Parts of a job: operations, outputs, and their JSON."""
from __future__ import annotations

import datetime
import json
import os
from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, TypedDict, Union

from .declared import DEPTH_MAX, JOB_BYTES_MAX, NUMBER_BYTES_MAX, OperationName
from .places import Archive, Download, Folder, Key, OutputPlace, Upload, Url

# A moment (datetime, or Unix seconds of Redis's clock), or a delay after the job's first fetch
# (timedelta, or a text like "+60").
Time = Union[datetime.datetime, datetime.timedelta, float, str]


class Headers(TypedDict, total=False):
    """Headers of an upload. metadata: {"user": "7"} is the header x-amz-meta-user: 7."""

    cache_control: str
    content_disposition: str
    metadata: Mapping[str, str]


class Normalize(TypedDict, total=False):
    """One number for all channels of a tensor, or one for each."""

    mean: Sequence[float]
    std: Sequence[float]


class Trim(TypedDict, total=False):
    """The colour of the borders, by default that of the pixel at the top left, and how far colours
    of borders may differ from it."""

    color: Sequence[int]
    threshold: int


class Strip(TypedDict):
    """The number of frames of an animation that are read as one image, side by side."""

    strip: int


class _QualityBounds(TypedDict, total=False):
    min: int
    max: int


class Quality(_QualityBounds):
    """The similarity (SSIM) of a file to its image, for which a quality is chosen, and the qualities
    that are allowed."""

    ssim: float


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


UNSET: Any = _Unset()  # the job does not have the key


class _Settings:
    """A name or place with settings. Those that are None are left out."""

    def __init__(self, subject: Any, settings: Mapping[str, Any]) -> None:
        self.subject = subject
        self.settings: Dict[str, Any] = {k: v for k, v in settings.items() if v is not None}

    def __eq__(self, other: object) -> bool:
        return (type(self) is type(other) and isinstance(other, _Settings)
                and (self.subject, self.settings) == (other.subject, other.settings))

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        settings = "".join(f", {k}={v!r}" for k, v in self.settings.items())
        return f"{type(self).__name__}({self.subject!r}{settings})"


class Operation(_Settings):
    """An operation with parameters. The functions of gpuimgd.ops make it."""

    def __init__(self, name: str, **parameters: Any) -> None:
        super().__init__(name, parameters)


class Output(_Settings):
    """A place with the settings of an encoder. The functions of gpuimgd.out make it."""

    def __init__(self, place: OutputPlace, **settings: Any) -> None:
        super().__init__(place, settings)


Step = Union[Operation, OperationName]


@dataclass(frozen=True)
class Variant:
    """One of several outputs of a job. Without an output, its operations must give values."""

    output: Optional[Union[OutputPlace, Output]] = None
    ops: Sequence[Step] = ()


def check_json(value: Any, depth: int = 1) -> None:
    """Raises ValueError for what the daemon does not read at all: then no result would have the id."""
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError(f"the job has a text with a zero byte: {value!r}")
    elif isinstance(value, int):
        if abs(value) >= 10 ** (NUMBER_BYTES_MAX - 1):
            raise ValueError(f"the job has a number of more than {NUMBER_BYTES_MAX} characters")
    elif isinstance(value, (dict, list, tuple)):
        if depth > DEPTH_MAX:
            raise ValueError(f"the job has more than {DEPTH_MAX} objects and lists in each other")
        for member in value:
            check_json(value[member] if isinstance(value, dict) else member, depth + 1)
            if isinstance(value, dict):
                if not isinstance(member, str):
                    raise ValueError(f"the job has the key {member!r}, which is no text")
                check_json(member)


def _refuse(value: Any) -> None:
    hint = "; give the bytes of an image as Upload(...)" if isinstance(value, bytes) else ""
    raise TypeError(f"the job has a {type(value).__name__}, which JSON has not{hint}: {value!r:.60}")


class Encoder:
    """Turns a job into JSON. upload and download give the key of bytes that go through Redis."""

    def __init__(self, upload: Callable[[bytes], str], download: Callable[[], str],
                 ttl_s: int) -> None:
        self._upload, self._download, self._ttl_s = upload, download, ttl_s

    def _place(self, place: Any) -> Dict[str, Any]:
        if isinstance(place, Key):
            return {"key": place.name}
        if isinstance(place, Url):
            return {"url": place.url}
        if isinstance(place, Upload):
            return {"key": self._upload(place.data)}
        if isinstance(place, Download):
            return {"key": self._download(), "ttl_s": self._ttl_s}
        return {"path": os.fspath(place)}

    def json(self, value: Any) -> Any:
        if isinstance(value, (Key, Url, Upload, Download)):
            return self._place(value)
        if isinstance(value, Operation):
            return {"op": value.subject, **self._members(value.settings)}
        if isinstance(value, Output):
            return {**self._place(value.subject), **self._members(value.settings)}
        if isinstance(value, Variant):
            return self._members({"output": value.output, "ops": value.ops or None})
        if isinstance(value, Folder):
            return self._members({"folder": os.fspath(value.path), "pattern": value.pattern})
        if isinstance(value, Archive):
            return self._members({"archive": value.place, "pattern": value.pattern})
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if isinstance(value, datetime.datetime):
            return value.timestamp()
        if isinstance(value, datetime.timedelta):
            return f"+{value.total_seconds():.3f}"
        if isinstance(value, Mapping):
            return {k: self.json(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.json(v) for v in value]
        return value

    def _members(self, members: Mapping[str, Any]) -> Dict[str, Any]:
        return {k: self.json(v) for k, v in members.items() if v is not None}

    def job(self, members: Mapping[str, Any]) -> bytes:
        """The text of a job. Its meta is not changed."""
        whole = {k: v if k == "meta" else self.json(v)
                 for k, v in members.items() if v is not UNSET and (v is not None or k == "meta")}
        check_json(whole)
        text = json.dumps(whole, ensure_ascii=False, allow_nan=False, default=_refuse,
                          separators=(",", ":")).encode("utf-8")
        if len(text) > JOB_BYTES_MAX:
            raise ValueError(f"the job has {len(text)} bytes; at most {JOB_BYTES_MAX} are allowed")
        return text
