"""A user's program, which `mypy --strict` accepts, but for the lines that are marked `wrong`."""
from __future__ import annotations

import asyncio
import datetime
from typing import Dict, Iterator, List, Optional

from gpuimgd import (Archive, AsyncClient, Client, Download, ErrorCode, Folder, Job, JobError, Key, Progress,
                     Result, Upload, Url, Variant, ops, out)


def jobs(names: List[str]) -> Iterator[Job]:
    for name in names:
        yield Job(name, out.webp(f"small/{name}", quality=70), [ops.resize(width=320, fit="inside"), "invert"],
                  meta={"name": name}, expires=datetime.timedelta(hours=1))
    yield Job(Upload(b""), Download(), [ops.composite(input=Key("gpuimgd:img:logo"), opacity=0.5)])
    yield Job(Url("https://host/a.jpg"), outputs=[Variant("a.png"), Variant(ops=["stats"])], priority=9)
    yield Job("a.jpg", out.avif("a.avif", quality={"ssim": 0.98, "max": 80}))
    yield Job(inputs=names, output="edges/%p.jpg", ops=["sobel"], on_error="fail")
    yield Job(inputs=Folder("photos", "*.jpg"), output=out.npy("all.npy", pack="array"))
    yield Job(inputs=Archive(Url("https://host/1.tar"), ["*.jpg"]), output="1.tar")
    yield Job(inputs=names, output="1.tar", on_error="stop")  # wrong
    yield Job(inputs=Folder("photos", "*.jpg"), output=out.npy("all.npy", pack="zip"))  # wrong
    yield Job("a.jpg", ops=[ops.resize(widht=320)])  # wrong
    yield Job("a.jpg", ops=["resise"])  # wrong
    yield Job("a.jpg", ops=[ops.resize(width="320")])  # wrong
    yield Job("a.jpg", ops=[ops.resize(width=3, fit="fill")])  # wrong
    yield Job("a.jpg", out.png("a.png", quality=3))  # wrong
    yield Job("a.jpg", out.jpeg("a.jpg", quality={"max": 80}))  # wrong
    yield Job("a.jpg", prioritiy=9)  # wrong
    yield Job("a.jpg", ops=["crop"])  # wrong


def show(state: Progress) -> None:
    print(state.done, state.running)


def run(client: Client, names: List[str]) -> Dict[str, Optional[int]]:
    widths: Dict[str, Optional[int]] = {}
    for result in client.map(jobs(names), window=8, progress=show, ordered=True):
        widths[str(result.meta)] = result.outputs[0].width
    try:
        data: Optional[bytes] = client.run(Job(Upload(b"x"), Download())).raise_for_status().outputs[0].data
        print(data)
    except JobError as error:
        print(error.code is ErrorCode.DECODE_FAILED, error.result.status)
        if error.result.status == "ded":  # wrong
            raise
    kept: Optional[Result] = client.submit({"input": "a.jpg", "ops": ["otsu"]}).result(timeout=3)
    assert kept and kept.images
    print(kept.images.done, [failure.error.code for failure in kept.images.errors])
    return widths


async def main(client: AsyncClient) -> List[Result]:
    handle = await client.submit(Job("a.jpg", "b.jpg"))
    first: Result = await handle
    return [first] + [result async for result in client.map(jobs(["c.jpg"]))]


if __name__ == "__main__":
    asyncio.run(main(AsyncClient(None)))
