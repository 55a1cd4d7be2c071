"""Places of images: paths, keys in Redis, URLs, and bytes that the client transfers through Redis."""
from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Literal, Sequence, Union


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
Color = Union[Sequence[int], Literal["transparent"]]
