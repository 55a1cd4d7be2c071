"""A client of gpuimgd, the image-processing daemon.

    import redis
    from gpuimgd import Client, Job, ops

    with Client(redis.Redis()) as client:
        result = client.run(Job("cat.jpg", "small/cat.webp", [ops.resize(width=512)]))
        print(result.raise_for_status().outputs[0].width)

README.md of the package has more examples."""
from __future__ import annotations

from . import ops, out
from .aio import AsyncClient
from .client import Client, Handle
from .core import Progress
from .declared import VERSION as __version__
from .declared import ErrorCode
from .job import Job
from .places import Archive, Download, Folder, Key, Upload, Url
from .results import (ClientClosed, DuplicateId, Failure, GpuimgdError, Image, ImageFailure, Images,
                      ImageValues, InputImage, JobCancelled, JobDead, JobError, JobFailed,
                      OutputImage, Result)
from .schemas import job_schema, result_schema
from .steps import Operation, Output, Variant

__all__ = [
    "Archive", "AsyncClient", "Client", "ClientClosed", "Download", "DuplicateId", "ErrorCode",
    "Failure", "Folder", "GpuimgdError", "Handle", "Image", "ImageFailure", "ImageValues", "Images",
    "InputImage", "Job", "JobCancelled", "JobDead", "JobError", "JobFailed", "Key", "Operation",
    "Output", "OutputImage", "Progress", "Result", "Upload", "Url", "Variant", "__version__",
    "job_schema", "ops", "out", "result_schema",
]
