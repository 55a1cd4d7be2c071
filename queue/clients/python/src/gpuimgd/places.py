"""Places of images: paths, keys in Redis, URLs, and bytes that the client transfers through Redis."""
from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Literal, Optional, Sequence, Union


@dataclass(frozen=True)
class Key:
    """A string in Redis. Its name begins with "NS:img:", NS being the namespace of the job's shard
    (Client.namespace_of)."""

    name: str


@dataclass(frozen=True)
class Url:
    """A URL that the option url_prefixes of the daemons allows."""

    url: str


@dataclass(frozen=True)
class Upload:
    """The bytes of an image file. The client stores them in Redis until the job has ended."""

    data: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.data, bytes):  # a bytearray, a memoryview
            object.__setattr__(self, "data", bytes(memoryview(self.data)))


@dataclass(frozen=True)
class Download:
    """An output that the client fetches from Redis: `data` of its entry in Result.outputs."""


Path = Union[str, "os.PathLike[str]"]
InputPlace = Union[Path, Key, Url, Upload]
OutputPlace = Union[Path, Key, Url, Download]
OverlayPlace = Union[Path, Key, Upload]


@dataclass(frozen=True)
class Folder:
    """The images of a folder below input_root, in the order of their names, for Job.inputs.

    pattern: a file's name must match it, or one of a list; `*` stands for any text, `?` for one
        byte. Default: the suffixes of images."""

    path: Path
    pattern: Optional[Union[str, Sequence[str]]] = None


@dataclass(frozen=True)
class Archive:
    """The images of a tar or zip, for Job.inputs.

    pattern: as that of Folder, for the whole name of a member."""

    place: InputPlace
    pattern: Optional[Union[str, Sequence[str]]] = None


Color = Union[Sequence[int], Literal["transparent"]]
