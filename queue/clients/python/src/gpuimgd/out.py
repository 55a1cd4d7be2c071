# Made by queue/clients/generate.py (`make documents`); do not edit.
"""The settings of outputs: one function per format."""
from __future__ import annotations

from typing import Literal, Optional, Sequence, Union

from .places import OutputPlace
from .steps import Headers, Normalize, Output, Quality

Format = Literal["jpeg", "png", "webp", "avif", "jxl", "npy", "raw"]
Metadata = Literal["icc", "exif", "xmp", "copyright", "density"]

__all__ = [
    "Format",
    "Metadata",
    "avif",
    "image",
    "jpeg",
    "jxl",
    "npy",
    "png",
    "raw",
    "webp",
]


def jpeg(
    place: OutputPlace,
    *,
    quality: Optional[Union[int, Quality]] = None,
    progressive: Optional[bool] = None,
    subsampling: Optional[Literal["420", "422", "444", "gray"]] = None,
    optimize: Optional[bool] = None,
    max_bytes: Optional[int] = None,
    recompress: Optional[bool] = None,
    metadata: Optional[Union[Literal["none"], Sequence[Metadata]]] = None,
    ttl_s: Optional[int] = None,
    headers: Optional[Headers] = None,
    pack: Optional[Literal["tar", "array"]] = None,
) -> Output:
    """Writes a JPEG.

    quality: 1 to 100; default: 85. Or an object such as {"ssim": 0.98, "min": 30, "max": 95}: a
        quality of min to max, by default 1 to 100, whose file has at least this structural
        similarity (SSIM) to the image, of 0.000001 to 0.999999, while the next lower quality has
        not: of photographs the lowest such one. If no quality reaches it, max is taken. The result
        names the quality and the similarity. Only luma is compared, in windows of 8 x 8 pixels;
        with alpha, over black and over white, and the lower similarity counts. Each trial encodes
        and decodes the image; there are at most nine, usually four. Devices encode only JPEGs
        without max_bytes so. The CPU needs memory for a file and its pixels. max_bytes may lower
        the quality further. An error together with lossless.
    progressive: True or False; default: False.
    subsampling: 420, 422, 444, gray; default: 420. How Cb and Cr are stored: 420 at half the width
        and height, 422 at half the width, 444 in full; gray writes no colours, as after the
        operation grayscale.
    optimize: True or False; default: False. Computes Huffman tables for the image: files are some
        percent smaller, encoding takes longer, and needs 2 to 6 bytes of memory per pixel. A
        progressive file always has such tables. The CPU encodes an output that is progressive, or
        has this or max_bytes.
    max_bytes: 0 to 2147483647; default: 0. The largest size of the file in bytes; 0: any size. If
        the file would be larger, a search finds the highest lower quality that fits, or one whose
        file has almost this size. The image is encoded at most six times, as AVIF or JPEG XL at
        most nine times. The result names the quality. The output fails if even quality 1 makes a
        larger file.
    recompress: True or False; default: False. true makes a JPEG XL of an input JPEG, on average a
        fifth smaller, from which the same JPEG can be made again, byte for byte; or that JPEG of
        such a JPEG XL. No pixel is decoded, all metadata stays, and the orientation is not applied:
        the output has no operations, no metadata and no parameter but effort. Before the JPEG XL is
        written, it is turned back and compared with the JPEG. The output fails if the JPEG is
        damaged, CMYK or has arithmetic codes, or if the JPEG XL was not made like this.
    metadata: What the output keeps of the input's metadata: a list of icc, exif, xmp, copyright,
        density, or "none". Default: ["icc"].
    ttl_s: Seconds until an output with a key expires; 0 (the default): it does not.
    headers: Headers of the upload to a Url.
    pack: With inputs: writes all images to the path, as one tar, or as one array of npy or raw.
    """
    return Output(
        place,
        format="jpeg",
        quality=quality,
        progressive=progressive,
        subsampling=subsampling,
        optimize=optimize,
        max_bytes=max_bytes,
        recompress=recompress,
        metadata=metadata,
        ttl_s=ttl_s,
        headers=headers,
        pack=pack,
    )


def png(
    place: OutputPlace,
    *,
    compression: Optional[int] = None,
    colors: Optional[int] = None,
    depth: Optional[Literal[8, 16]] = None,
    metadata: Optional[Union[Literal["none"], Sequence[Metadata]]] = None,
    ttl_s: Optional[int] = None,
    headers: Optional[Headers] = None,
    pack: Optional[Literal["tar", "array"]] = None,
) -> Output:
    """Writes a PNG.

    compression: 0 to 9; default: 3. Levels 1 to 3 give the same result, unless there is a palette,
        and suit photographs and edges. Levels 4 to 9 try all filters and search for repetitions:
        they take ten to hundreds of times as long, and make smaller files of drawings and
        screenshots.
    colors: 2 to 256; default: none. Writes a palette of at most this many colours, with 1 to 8 bits
        per pixel. If the image has no more colours, none is changed; otherwise a median cut chooses
        them, without dithering. A gray image stays gray if that takes no more bits. Without this
        key, pixels have 8 bits per channel, or 1 bit after otsu and threshold.
    depth: 8 or 16; default: 8. The bits of a sample. With 16, gray and RGB of more than 8 bits in a
        PNG or a TIFF keep them; a TIFF of 9 to 15 bits is scaled to 16. Of all other inputs,
        samples of 8 bits are multiplied by 257. With 16, an output may have the operations resize,
        crop, pad, flip, transpose and rotate by multiples of 90 degrees; with any other one, it
        fails. A colour profile is kept, not applied. Colours of 8 bits in the job are multiplied by
        257, too. The CPU decodes and encodes such files, and devices compute the operations. An
        error together with colors.
    metadata: What the output keeps of the input's metadata: a list of icc, exif, xmp, copyright,
        density, or "none". Default: ["icc"].
    ttl_s: Seconds until an output with a key expires; 0 (the default): it does not.
    headers: Headers of the upload to a Url.
    pack: With inputs: writes all images to the path, as one tar, or as one array of npy or raw.
    """
    return Output(
        place,
        format="png",
        compression=compression,
        colors=colors,
        depth=depth,
        metadata=metadata,
        ttl_s=ttl_s,
        headers=headers,
        pack=pack,
    )


def webp(
    place: OutputPlace,
    *,
    quality: Optional[Union[int, Quality]] = None,
    max_bytes: Optional[int] = None,
    lossless: Optional[bool] = None,
    effort: Optional[int] = None,
    metadata: Optional[Union[Literal["none"], Sequence[Metadata]]] = None,
    ttl_s: Optional[int] = None,
    headers: Optional[Headers] = None,
    pack: Optional[Literal["tar", "array"]] = None,
) -> Output:
    """Writes a WebP.

    quality: 1 to 100; default: 80. Or an object such as {"ssim": 0.98, "min": 30, "max": 95}: a
        quality of min to max, by default 1 to 100, whose file has at least this structural
        similarity (SSIM) to the image, of 0.000001 to 0.999999, while the next lower quality has
        not: of photographs the lowest such one. If no quality reaches it, max is taken. The result
        names the quality and the similarity. Only luma is compared, in windows of 8 x 8 pixels;
        with alpha, over black and over white, and the lower similarity counts. Each trial encodes
        and decodes the image; there are at most nine, usually four. Devices encode only JPEGs
        without max_bytes so. The CPU needs memory for a file and its pixels. max_bytes may lower
        the quality further. An error together with lossless.
    max_bytes: 0 to 2147483647; default: 0. The largest size of the file in bytes; 0: any size. If
        the file would be larger, a search finds the highest lower quality that fits, or one whose
        file has almost this size. The image is encoded at most six times, as AVIF or JPEG XL at
        most nine times. The result names the quality. The output fails if even quality 1 makes a
        larger file.
    lossless: True or False; default: False. true keeps every pixel, and quality is not used. A JPEG
        XL with quality 100 is lossless, too. An error together with max_bytes.
    effort: 0 to 6; default: 2. Higher levels take longer, and make smaller files of most images. In
        WebP it is the method of cwebp, and devices encode only 2. In AVIF, 1 to 3 are gpuimgd's own
        encoder, for images without alpha or with an opaque one, and for a quality of at most 99;
        devices encode only 1. libaom encodes all else, with the speed of avifenc that is 10 less
        this. In JPEG XL it is the effort of cjxl less 1: 4 needs a third less bytes than 2 at the
        same quality and takes three times as long, 5 and 6 gain nothing. Without loss, 2 is fast,
        and 4 takes six times as long for 5% less. It needs about 80 bytes of memory per pixel, and
        with alpha up to 96, of three eighths of host_bytes : 10 megapixels with its default on up
        to 16 CPUs, and 50 with 13G. An output that needs more fails with over_budget. Colours of an
        AVIF have half the resolution (4:2:0).
    metadata: What the output keeps of the input's metadata: a list of icc, exif, xmp, copyright,
        density, or "none". Default: ["icc"].
    ttl_s: Seconds until an output with a key expires; 0 (the default): it does not.
    headers: Headers of the upload to a Url.
    pack: With inputs: writes all images to the path, as one tar, or as one array of npy or raw.
    """
    return Output(
        place,
        format="webp",
        quality=quality,
        max_bytes=max_bytes,
        lossless=lossless,
        effort=effort,
        metadata=metadata,
        ttl_s=ttl_s,
        headers=headers,
        pack=pack,
    )


def avif(
    place: OutputPlace,
    *,
    quality: Optional[Union[int, Quality]] = None,
    max_bytes: Optional[int] = None,
    effort: Optional[int] = None,
    metadata: Optional[Union[Literal["none"], Sequence[Metadata]]] = None,
    ttl_s: Optional[int] = None,
    headers: Optional[Headers] = None,
    pack: Optional[Literal["tar", "array"]] = None,
) -> Output:
    """Writes an AVIF.

    quality: 1 to 100; default: 60. Or an object such as {"ssim": 0.98, "min": 30, "max": 95}: a
        quality of min to max, by default 1 to 100, whose file has at least this structural
        similarity (SSIM) to the image, of 0.000001 to 0.999999, while the next lower quality has
        not: of photographs the lowest such one. If no quality reaches it, max is taken. The result
        names the quality and the similarity. Only luma is compared, in windows of 8 x 8 pixels;
        with alpha, over black and over white, and the lower similarity counts. Each trial encodes
        and decodes the image; there are at most nine, usually four. Devices encode only JPEGs
        without max_bytes so. The CPU needs memory for a file and its pixels. max_bytes may lower
        the quality further. An error together with lossless.
    max_bytes: 0 to 2147483647; default: 0. The largest size of the file in bytes; 0: any size. If
        the file would be larger, a search finds the highest lower quality that fits, or one whose
        file has almost this size. The image is encoded at most six times, as AVIF or JPEG XL at
        most nine times. The result names the quality. The output fails if even quality 1 makes a
        larger file.
    effort: 0 to 6; default: 2. Higher levels take longer, and make smaller files of most images. In
        WebP it is the method of cwebp, and devices encode only 2. In AVIF, 1 to 3 are gpuimgd's own
        encoder, for images without alpha or with an opaque one, and for a quality of at most 99;
        devices encode only 1. libaom encodes all else, with the speed of avifenc that is 10 less
        this. In JPEG XL it is the effort of cjxl less 1: 4 needs a third less bytes than 2 at the
        same quality and takes three times as long, 5 and 6 gain nothing. Without loss, 2 is fast,
        and 4 takes six times as long for 5% less. It needs about 80 bytes of memory per pixel, and
        with alpha up to 96, of three eighths of host_bytes : 10 megapixels with its default on up
        to 16 CPUs, and 50 with 13G. An output that needs more fails with over_budget. Colours of an
        AVIF have half the resolution (4:2:0).
    metadata: What the output keeps of the input's metadata: a list of icc, exif, xmp, copyright,
        density, or "none". Default: ["icc"].
    ttl_s: Seconds until an output with a key expires; 0 (the default): it does not.
    headers: Headers of the upload to a Url.
    pack: With inputs: writes all images to the path, as one tar, or as one array of npy or raw.
    """
    return Output(
        place,
        format="avif",
        quality=quality,
        max_bytes=max_bytes,
        effort=effort,
        metadata=metadata,
        ttl_s=ttl_s,
        headers=headers,
        pack=pack,
    )


def jxl(
    place: OutputPlace,
    *,
    quality: Optional[Union[int, Quality]] = None,
    max_bytes: Optional[int] = None,
    lossless: Optional[bool] = None,
    effort: Optional[int] = None,
    recompress: Optional[bool] = None,
    metadata: Optional[Union[Literal["none"], Sequence[Metadata]]] = None,
    ttl_s: Optional[int] = None,
    headers: Optional[Headers] = None,
    pack: Optional[Literal["tar", "array"]] = None,
) -> Output:
    """Writes a JPEG XL.

    quality: 1 to 100; default: 90. Or an object such as {"ssim": 0.98, "min": 30, "max": 95}: a
        quality of min to max, by default 1 to 100, whose file has at least this structural
        similarity (SSIM) to the image, of 0.000001 to 0.999999, while the next lower quality has
        not: of photographs the lowest such one. If no quality reaches it, max is taken. The result
        names the quality and the similarity. Only luma is compared, in windows of 8 x 8 pixels;
        with alpha, over black and over white, and the lower similarity counts. Each trial encodes
        and decodes the image; there are at most nine, usually four. Devices encode only JPEGs
        without max_bytes so. The CPU needs memory for a file and its pixels. max_bytes may lower
        the quality further. An error together with lossless.
    max_bytes: 0 to 2147483647; default: 0. The largest size of the file in bytes; 0: any size. If
        the file would be larger, a search finds the highest lower quality that fits, or one whose
        file has almost this size. The image is encoded at most six times, as AVIF or JPEG XL at
        most nine times. The result names the quality. The output fails if even quality 1 makes a
        larger file.
    lossless: True or False; default: False. true keeps every pixel, and quality is not used. A JPEG
        XL with quality 100 is lossless, too. An error together with max_bytes.
    effort: 0 to 6; default: 4. Higher levels take longer, and make smaller files of most images. In
        WebP it is the method of cwebp, and devices encode only 2. In AVIF, 1 to 3 are gpuimgd's own
        encoder, for images without alpha or with an opaque one, and for a quality of at most 99;
        devices encode only 1. libaom encodes all else, with the speed of avifenc that is 10 less
        this. In JPEG XL it is the effort of cjxl less 1: 4 needs a third less bytes than 2 at the
        same quality and takes three times as long, 5 and 6 gain nothing. Without loss, 2 is fast,
        and 4 takes six times as long for 5% less. It needs about 80 bytes of memory per pixel, and
        with alpha up to 96, of three eighths of host_bytes : 10 megapixels with its default on up
        to 16 CPUs, and 50 with 13G. An output that needs more fails with over_budget. Colours of an
        AVIF have half the resolution (4:2:0).
    recompress: True or False; default: False. true makes a JPEG XL of an input JPEG, on average a
        fifth smaller, from which the same JPEG can be made again, byte for byte; or that JPEG of
        such a JPEG XL. No pixel is decoded, all metadata stays, and the orientation is not applied:
        the output has no operations, no metadata and no parameter but effort. Before the JPEG XL is
        written, it is turned back and compared with the JPEG. The output fails if the JPEG is
        damaged, CMYK or has arithmetic codes, or if the JPEG XL was not made like this.
    metadata: What the output keeps of the input's metadata: a list of icc, exif, xmp, copyright,
        density, or "none". Default: ["icc"].
    ttl_s: Seconds until an output with a key expires; 0 (the default): it does not.
    headers: Headers of the upload to a Url.
    pack: With inputs: writes all images to the path, as one tar, or as one array of npy or raw.
    """
    return Output(
        place,
        format="jxl",
        quality=quality,
        max_bytes=max_bytes,
        lossless=lossless,
        effort=effort,
        recompress=recompress,
        metadata=metadata,
        ttl_s=ttl_s,
        headers=headers,
        pack=pack,
    )


def npy(
    place: OutputPlace,
    *,
    type: Optional[Literal["u8", "f16", "f32"]] = None,
    layout: Optional[Literal["hwc", "chw"]] = None,
    channels: Optional[Literal["image", "gray", "rgb"]] = None,
    normalize: Optional[Normalize] = None,
    ttl_s: Optional[int] = None,
    headers: Optional[Headers] = None,
    pack: Optional[Literal["tar", "array"]] = None,
) -> Output:
    """Writes a NumPy array.

    type: u8, f16, f32; default: u8. The numbers, in little-endian order: unsigned bytes, or IEEE
        754 floats of 16 or 32 bits. Floats are 0 to 255, or what normalize makes of them.
    layout: hwc, chw; default: hwc. The axes in C order: hwc has the shape (height, width,
        channels), chw (channels, height, width). A gray image has one channel.
    channels: image, gray, rgb; default: image. image keeps 1, 3 or 4 channels; gray makes one, as
        the operation grayscale ; rgb makes three: gray is repeated, and alpha is flattened over
        background.
    normalize: Makes (v / 255 - mean) / std of a value v. Requires type f16 or f32.
    ttl_s: Seconds until an output with a key expires; 0 (the default): it does not.
    headers: Headers of the upload to a Url.
    pack: With inputs: writes all images to the path, as one tar, or as one array of npy or raw.
    """
    return Output(
        place,
        format="npy",
        type=type,
        layout=layout,
        channels=channels,
        normalize=normalize,
        ttl_s=ttl_s,
        headers=headers,
        pack=pack,
    )


def raw(
    place: OutputPlace,
    *,
    type: Optional[Literal["u8", "f16", "f32"]] = None,
    layout: Optional[Literal["hwc", "chw"]] = None,
    channels: Optional[Literal["image", "gray", "rgb"]] = None,
    normalize: Optional[Normalize] = None,
    ttl_s: Optional[int] = None,
    headers: Optional[Headers] = None,
    pack: Optional[Literal["tar", "array"]] = None,
) -> Output:
    """Writes a raw tensor.

    type: u8, f16, f32; default: u8. The numbers, in little-endian order: unsigned bytes, or IEEE
        754 floats of 16 or 32 bits. Floats are 0 to 255, or what normalize makes of them.
    layout: hwc, chw; default: hwc. The axes in C order: hwc has the shape (height, width,
        channels), chw (channels, height, width). A gray image has one channel.
    channels: image, gray, rgb; default: image. image keeps 1, 3 or 4 channels; gray makes one, as
        the operation grayscale ; rgb makes three: gray is repeated, and alpha is flattened over
        background.
    normalize: Makes (v / 255 - mean) / std of a value v. Requires type f16 or f32.
    ttl_s: Seconds until an output with a key expires; 0 (the default): it does not.
    headers: Headers of the upload to a Url.
    pack: With inputs: writes all images to the path, as one tar, or as one array of npy or raw.
    """
    return Output(
        place,
        format="raw",
        type=type,
        layout=layout,
        channels=channels,
        normalize=normalize,
        ttl_s=ttl_s,
        headers=headers,
        pack=pack,
    )


def image(
    place: OutputPlace,
    *,
    quality: Optional[Union[int, Quality]] = None,
    compression: Optional[int] = None,
    colors: Optional[int] = None,
    depth: Optional[Literal[8, 16]] = None,
    progressive: Optional[bool] = None,
    subsampling: Optional[Literal["420", "422", "444", "gray"]] = None,
    optimize: Optional[bool] = None,
    max_bytes: Optional[int] = None,
    lossless: Optional[bool] = None,
    effort: Optional[int] = None,
    recompress: Optional[bool] = None,
    type: Optional[Literal["u8", "f16", "f32"]] = None,
    layout: Optional[Literal["hwc", "chw"]] = None,
    channels: Optional[Literal["image", "gray", "rgb"]] = None,
    format: Optional[Union[Format, Literal["auto"], Sequence[Format]]] = None,
    normalize: Optional[Normalize] = None,
    metadata: Optional[Union[Literal["none"], Sequence[Metadata]]] = None,
    ttl_s: Optional[int] = None,
    headers: Optional[Headers] = None,
    pack: Optional[Literal["tar", "array"]] = None,
) -> Output:
    """Writes the format of the suffix, or else that of the input. An encoder's key for another
    format is an error of the job.

    quality: 1 to 100. Or an object such as {"ssim": 0.98, "min": 30, "max": 95}: a quality of min
        to max, by default 1 to 100, whose file has at least this structural similarity (SSIM) to
        the image, of 0.000001 to 0.999999, while the next lower quality has not: of photographs the
        lowest such one. If no quality reaches it, max is taken. The result names the quality and
        the similarity. Only luma is compared, in windows of 8 x 8 pixels; with alpha, over black
        and over white, and the lower similarity counts. Each trial encodes and decodes the image;
        there are at most nine, usually four. Devices encode only JPEGs without max_bytes so. The
        CPU needs memory for a file and its pixels. max_bytes may lower the quality further. An
        error together with lossless.
    compression: 0 to 9. Levels 1 to 3 give the same result, unless there is a palette, and suit
        photographs and edges. Levels 4 to 9 try all filters and search for repetitions: they take
        ten to hundreds of times as long, and make smaller files of drawings and screenshots.
    colors: 2 to 256. Writes a palette of at most this many colours, with 1 to 8 bits per pixel. If
        the image has no more colours, none is changed; otherwise a median cut chooses them, without
        dithering. A gray image stays gray if that takes no more bits. Without this key, pixels have
        8 bits per channel, or 1 bit after otsu and threshold.
    depth: 8 or 16. The bits of a sample. With 16, gray and RGB of more than 8 bits in a PNG or a
        TIFF keep them; a TIFF of 9 to 15 bits is scaled to 16. Of all other inputs, samples of 8
        bits are multiplied by 257. With 16, an output may have the operations resize, crop, pad,
        flip, transpose and rotate by multiples of 90 degrees; with any other one, it fails. A
        colour profile is kept, not applied. Colours of 8 bits in the job are multiplied by 257,
        too. The CPU decodes and encodes such files, and devices compute the operations. An error
        together with colors.
    progressive: True or False.
    subsampling: 420, 422, 444, gray. How Cb and Cr are stored: 420 at half the width and height,
        422 at half the width, 444 in full; gray writes no colours, as after the operation
        grayscale.
    optimize: True or False. Computes Huffman tables for the image: files are some percent smaller,
        encoding takes longer, and needs 2 to 6 bytes of memory per pixel. A progressive file always
        has such tables. The CPU encodes an output that is progressive, or has this or max_bytes.
    max_bytes: 0 to 2147483647. The largest size of the file in bytes; 0: any size. If the file
        would be larger, a search finds the highest lower quality that fits, or one whose file has
        almost this size. The image is encoded at most six times, as AVIF or JPEG XL at most nine
        times. The result names the quality. The output fails if even quality 1 makes a larger file.
    lossless: True or False. true keeps every pixel, and quality is not used. A JPEG XL with quality
        100 is lossless, too. An error together with max_bytes.
    effort: 0 to 6. Higher levels take longer, and make smaller files of most images. In WebP it is
        the method of cwebp, and devices encode only 2. In AVIF, 1 to 3 are gpuimgd's own encoder,
        for images without alpha or with an opaque one, and for a quality of at most 99; devices
        encode only 1. libaom encodes all else, with the speed of avifenc that is 10 less this. In
        JPEG XL it is the effort of cjxl less 1: 4 needs a third less bytes than 2 at the same
        quality and takes three times as long, 5 and 6 gain nothing. Without loss, 2 is fast, and 4
        takes six times as long for 5% less. It needs about 80 bytes of memory per pixel, and with
        alpha up to 96, of three eighths of host_bytes : 10 megapixels with its default on up to 16
        CPUs, and 50 with 13G. An output that needs more fails with over_budget. Colours of an AVIF
        have half the resolution (4:2:0).
    recompress: True or False. true makes a JPEG XL of an input JPEG, on average a fifth smaller,
        from which the same JPEG can be made again, byte for byte; or that JPEG of such a JPEG XL.
        No pixel is decoded, all metadata stays, and the orientation is not applied: the output has
        no operations, no metadata and no parameter but effort. Before the JPEG XL is written, it is
        turned back and compared with the JPEG. The output fails if the JPEG is damaged, CMYK or has
        arithmetic codes, or if the JPEG XL was not made like this.
    type: u8, f16, f32. The numbers, in little-endian order: unsigned bytes, or IEEE 754 floats of
        16 or 32 bits. Floats are 0 to 255, or what normalize makes of them.
    layout: hwc, chw. The axes in C order: hwc has the shape (height, width, channels), chw
        (channels, height, width). A gray image has one channel.
    channels: image, gray, rgb. image keeps 1, 3 or 4 channels; gray makes one, as the operation
        grayscale ; rgb makes three: gray is repeated, and alpha is flattened over background.
    format: By default that of the suffix of the path or URL, or else that of the input, if it is
        written. With a quality that names a similarity, also a list of formats, of which the
        smallest file is written, or "auto": jpeg, webp and avif.
    normalize: Makes (v / 255 - mean) / std of a value v. Requires type f16 or f32.
    metadata: What the output keeps of the input's metadata: a list of icc, exif, xmp, copyright,
        density, or "none". Default: ["icc"].
    ttl_s: Seconds until an output with a key expires; 0 (the default): it does not.
    headers: Headers of the upload to a Url.
    pack: With inputs: writes all images to the path, as one tar, or as one array of npy or raw.
    """
    return Output(
        place,
        format=format,
        quality=quality,
        compression=compression,
        colors=colors,
        depth=depth,
        progressive=progressive,
        subsampling=subsampling,
        optimize=optimize,
        max_bytes=max_bytes,
        lossless=lossless,
        effort=effort,
        recompress=recompress,
        type=type,
        layout=layout,
        channels=channels,
        normalize=normalize,
        metadata=metadata,
        ttl_s=ttl_s,
        headers=headers,
        pack=pack,
    )
