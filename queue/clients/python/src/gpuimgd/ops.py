# Made by queue/clients/generate.py (`make documents`); do not edit.
"""The operations of jobs. gpu/OPERATIONS.md defines each to the bit."""
from __future__ import annotations

from typing import Literal, Optional, Sequence

from .places import Color, OverlayPlace
from .steps import Operation

__all__ = [
    "grayscale",
    "sobel",
    "canny",
    "resize",
    "crop",
    "pad",
    "rotate",
    "flip",
    "transpose",
    "invert",
    "gamma",
    "levels",
    "threshold",
    "color_matrix",
    "to_srgb",
    "gaussian",
    "unsharp",
    "convolve",
    "median",
    "composite",
    "text",
    "equalize",
    "otsu",
    "histogram",
    "stats",
    "palette",
    "phash",
    "blurhash",
    "thumbhash",
]


def grayscale(
    *,
    weights: Optional[Sequence[int]] = None,
) -> Operation:
    """Converts to gray by ITU-R BT.601, as libjpeg does.

    weights: 3 integers of 0 to 65536; default: [19595, 38470, 7471]. The weights of red, green and
        blue, in 1/65536; their sum is 65536.
    """
    return Operation(
        "grayscale",
        weights=weights,
    )


def sobel(
    *,
    magnitude: Optional[Literal["half", "l1", "l2"]] = None,
    border: Optional[Literal["reflect101", "replicate", "zero"]] = None,
) -> Operation:
    """Finds the edges of gray with Sobel's 3 x 3 kernels.

    magnitude: half, l1, l2; default: half. The length of the gradient: (|Gx| + |Gy|) / 2, |Gx| +
        |Gy| or sqrt(Gx^2 + Gy^2).
    border: reflect101, replicate, zero; default: reflect101. The values of pixels outside the
        image; zero sets the outermost frame of the result to 0 instead.
    """
    return Operation(
        "sobel",
        magnitude=magnitude,
        border=border,
    )


def canny(
    *,
    low: Optional[float] = None,
    high: Optional[float] = None,
) -> Operation:
    """Sets thin edges of gray to 255, all else to 0, as OpenCV's Canny with aperture 3.

    low: 0 to 1530; default: 50. The gradient above which a pixel can be part of an edge; not above
        `high`.
    high: 0 to 1530; default: 150. The gradient above which a pixel starts an edge.
    """
    return Operation(
        "canny",
        low=low,
        high=high,
    )


def resize(
    *,
    width: Optional[int] = None,
    height: Optional[int] = None,
    fit: Optional[Literal["inside", "cover", "exact", "contain", "outside"]] = None,
    gravity: Optional[Literal["center", "north", "northeast", "east", "southeast", "south",
        "southwest", "west", "northwest", "attention"]] = None,
    focus: Optional[Sequence[float]] = None,
    filter: Optional[Literal["nearest", "box", "bilinear", "bicubic", "lanczos3"]] = None,
    enlarge: Optional[bool] = None,
    fast_shrink: Optional[bool] = None,
    color: Optional[Color] = None,
) -> Operation:
    """Changes the size, as Pillow's resize.

    width: an integer of 1 to 65500. With `fit` inside, `width` or `height` alone is enough.
    height: an integer of 1 to 65500.
    fit: inside, cover, exact, contain, outside; default: inside. inside keeps the aspect ratio and
        fits the result into this size; cover cuts out a part of the source, by default its centre,
        in the target's ratio and resizes it; exact gives exactly this size; contain fits as inside
        and then pads to exactly this size; outside keeps the aspect ratio and makes no side shorter
        than this size.
    gravity: center, north, northeast, east, southeast, south, southwest, west, northwest,
        attention; default: center. With `fit` cover: the side or corner of the source where the
        part is. With `fit` contain: the place of the resized image in the result. attention, for
        cover alone, chooses the part with the most edges and returns it as the value `attention`,
        [x,y,width,height] in pixels before the resize.
    focus: 2 numbers of 0 to 1. With `fit` cover, instead of `gravity`: a point of the source, [0,0]
        its upper left corner and [1,1] its lower right one. The part's centre is as near to it as
        possible.
    filter: nearest, box, bilinear, bicubic, lanczos3; default: lanczos3.
    enlarge: True or False. Whether the image may become larger; by default false with `fit` inside,
        else true.
    fast_shrink: True or False; default: True. A JPEG may be decoded at a fraction of its size
        before a strong reduction. The pixels then differ from those after a full decode. Ignored if
        the job has `outputs`.
    color: [red, green, blue] or [red, green, blue, alpha] of 0 to 255, or "transparent". With `fit`
        contain: the colour around the resized image; by default the job's `background`.
    """
    return Operation(
        "resize",
        width=width,
        height=height,
        fit=fit,
        gravity=gravity,
        focus=focus,
        filter=filter,
        enlarge=enlarge,
        fast_shrink=fast_shrink,
        color=color,
    )


def crop(
    *,
    width: int,
    height: int,
    x: Optional[int] = None,
    y: Optional[int] = None,
    gravity: Optional[Literal["center", "north", "northeast", "east", "southeast", "south",
        "southwest", "west", "northwest"]] = None,
) -> Operation:
    """Cuts out a rectangle, which must be inside the image.

    width: an integer of 1 to 65500; required.
    height: an integer of 1 to 65500; required.
    x: an integer of 0 to 65499. The rectangle's first column; requires `y`, not allowed with
        `gravity`.
    y: an integer of 0 to 65499. The rectangle's first row.
    gravity: center, north, northeast, east, southeast, south, southwest, west, northwest; default:
        center. The side or corner of the image where the rectangle is.
    """
    return Operation(
        "crop",
        width=width,
        height=height,
        x=x,
        y=y,
        gravity=gravity,
    )


def pad(
    *,
    width: Optional[int] = None,
    height: Optional[int] = None,
    gravity: Optional[Literal["center", "north", "northeast", "east", "southeast", "south",
        "southwest", "west", "northwest"]] = None,
    left: Optional[int] = None,
    top: Optional[int] = None,
    right: Optional[int] = None,
    bottom: Optional[int] = None,
    color: Optional[Color] = None,
) -> Operation:
    """Adds a border in one colour around the image.

    width: an integer of 1 to 65500. The width of the result, at least the image's; by default the
        image's.
    height: an integer of 1 to 65500. The height of the result, at least the image's; by default the
        image's.
    gravity: center, north, northeast, east, southeast, south, southwest, west, northwest; default:
        center. The place of the image in a result of this size.
    left: an integer of 0 to 65500. Columns before the image. The four sides are by default 0 and
        not allowed with `width`, `height` and `gravity`.
    top: an integer of 0 to 65500.
    right: an integer of 0 to 65500.
    bottom: an integer of 0 to 65500.
    color: [red, green, blue] or [red, green, blue, alpha] of 0 to 255, or "transparent". By default
        the job's `background`.
    """
    return Operation(
        "pad",
        width=width,
        height=height,
        gravity=gravity,
        left=left,
        top=top,
        right=right,
        bottom=bottom,
        color=color,
    )


def rotate(
    *,
    angle: Optional[float] = None,
    clockwise: Optional[bool] = None,
    expand: Optional[bool] = None,
    background: Optional[Color] = None,
) -> Operation:
    """Rotates by any angle, as Pillow's rotate with BICUBIC.

    angle: -360 to 360; default: 90. In degrees.
    clockwise: True or False; default: True.
    expand: True or False; default: True. Whether the result is large enough for the whole rotated
        image; false keeps the size.
    background: [red, green, blue] or [red, green, blue, alpha] of 0 to 255, or "transparent". The
        colour outside the rotated image; by default the job's `background`.
    """
    return Operation(
        "rotate",
        angle=angle,
        clockwise=clockwise,
        expand=expand,
        background=background,
    )


def flip(
    *,
    axis: Optional[Literal["horizontal", "vertical"]] = None,
) -> Operation:
    """Mirrors left and right, or top and bottom.

    axis: horizontal, vertical; default: horizontal. horizontal exchanges left and right, vertical
        exchanges top and bottom.
    """
    return Operation(
        "flip",
        axis=axis,
    )


def transpose(
) -> Operation:
    """Exchanges rows and columns."""
    return Operation(
        "transpose",
    )


def invert(
) -> Operation:
    """Inverts each colour: the negative."""
    return Operation(
        "invert",
    )


def gamma(
    *,
    gamma: float,
) -> Operation:
    """Applies a gamma curve to each colour.

    gamma: 0.01 to 100; required. Above 1 makes the image brighter.
    """
    return Operation(
        "gamma",
        gamma=gamma,
    )


def levels(
    *,
    in_black: Optional[int] = None,
    in_white: Optional[int] = None,
    gamma: Optional[float] = None,
    out_black: Optional[int] = None,
    out_white: Optional[int] = None,
) -> Operation:
    """Maps a range of each colour to another range.

    in_black: an integer of 0 to 255; default: 0. Must be below `in_white`.
    in_white: an integer of 0 to 255; default: 255.
    gamma: 0.01 to 100; default: 1. Above 1 makes the image brighter.
    out_black: an integer of 0 to 255; default: 0. If it is above `out_white`, the image is
        inverted.
    out_white: an integer of 0 to 255; default: 255.
    """
    return Operation(
        "levels",
        in_black=in_black,
        in_white=in_white,
        gamma=gamma,
        out_black=out_black,
        out_white=out_white,
    )


def threshold(
    *,
    value: Optional[int] = None,
    invert: Optional[bool] = None,
) -> Operation:
    """Sets gray to 255 above a value, else to 0.

    value: an integer of 0 to 255; default: 127.
    invert: True or False; default: False. true exchanges 255 and 0.
    """
    return Operation(
        "threshold",
        value=value,
        invert=invert,
    )


def color_matrix(
    *,
    matrix: Sequence[Sequence[float]],
) -> Operation:
    """Makes each colour a weighted sum of red, green, blue and 1.

    matrix: 3 rows of 4 numbers from -32 to 32; the last of a row from -4096 to 4096; required. A
        row [red,green,blue,offset] per colour.
    """
    return Operation(
        "color_matrix",
        matrix=matrix,
    )


def to_srgb(
    *,
    intent: Optional[Literal["relative", "perceptual"]] = None,
) -> Operation:
    """Converts from the input's ICC profile to sRGB, as lcms2.

    intent: relative, perceptual; default: relative. Which tables of the profile are used, if it has
        several: relative keeps the colours that sRGB has, perceptual compresses all of them.
    """
    return Operation(
        "to_srgb",
        intent=intent,
    )


def gaussian(
    *,
    ksize: Optional[int] = None,
    sigma: Optional[float] = None,
) -> Operation:
    """Blurs, as OpenCV's 8-bit GaussianBlur.

    ksize: an odd integer of 3 to 31; default: 5.
    sigma: 0 to 1000; default: 0. 0 means 0.3 ((ksize - 1) / 2 - 1) + 0.8.
    """
    return Operation(
        "gaussian",
        ksize=ksize,
        sigma=sigma,
    )


def unsharp(
    *,
    amount: Optional[float] = None,
    ksize: Optional[int] = None,
    sigma: Optional[float] = None,
) -> Operation:
    """Sharpens with an unsharp mask: v + amount (v - gaussian).

    amount: 0 to 16; default: 1.
    ksize: an odd integer of 3 to 31; default: 5.
    sigma: 0 to 1000; default: 0. 0 means 0.3 ((ksize - 1) / 2 - 1) + 0.8.
    """
    return Operation(
        "unsharp",
        amount=amount,
        ksize=ksize,
        sigma=sigma,
    )


def convolve(
    *,
    kernel: Sequence[Sequence[float]],
    scale: Optional[float] = None,
    offset: Optional[float] = None,
    border: Optional[Literal["reflect101", "replicate", "zero"]] = None,
) -> Operation:
    """Applies a kernel without mirroring it, as OpenCV's filter2D.

    kernel: rows of numbers from -1e9 to 1e9; odd numbers of rows and columns, at most 15; required.
    scale: -1e9 to 1e9. The divisor of the kernel, at least 1e-9 away from 0; by default the
        kernel's sum, or 1 if the sum is 0.
    offset: -255 to 255; default: 0. Added to the divided sum.
    border: reflect101, replicate, zero; default: reflect101. The values of pixels outside the
        image.
    """
    return Operation(
        "convolve",
        kernel=kernel,
        scale=scale,
        offset=offset,
        border=border,
    )


def median(
    *,
    size: Optional[int] = None,
) -> Operation:
    """Computes the median of 3 x 3 or 5 x 5 pixels, as OpenCV's medianBlur for 1 and 3 channels.

    size: 3 or 5; default: 3.
    """
    return Operation(
        "median",
        size=size,
    )


def composite(
    *,
    input: OverlayPlace,
    gravity: Optional[Literal["center", "north", "northeast", "east", "southeast", "south",
        "southwest", "west", "northwest"]] = None,
    x: Optional[int] = None,
    y: Optional[int] = None,
    opacity: Optional[float] = None,
    scale: Optional[float] = None,
    tile: Optional[bool] = None,
) -> Operation:
    """Lays another image over the image: a watermark.

    input: a path, a Key, or an Upload; required. The overlay: a path below `input_root`, or an
        object with `path` or `key`, as the `input` of a job. EXIF orientation is applied.
    gravity: center, north, northeast, east, southeast, south, southwest, west, northwest; default:
        center. The part of the image where the overlay is; northwest if only `x` or `y` is given.
    x: an integer of -65500 to 65500. Distance in pixels from the side or corner that `gravity`
        names, inwards; from the middle to the right.
    y: an integer of -65500 to 65500. The same for rows; from the middle downwards. Parts outside
        the image are cut off.
    opacity: 0 to 1; default: 1. A factor for the overlay's alpha.
    scale: 0.0001 to 1. Resizes the overlay to this part of the image's width. By default it keeps
        its size.
    tile: True or False; default: False. Repeats the overlay over the whole image.
    """
    return Operation(
        "composite",
        input=input,
        gravity=gravity,
        x=x,
        y=y,
        opacity=opacity,
        scale=scale,
        tile=tile,
    )


def text(
    *,
    text: str,
    font: Optional[str] = None,
    size: Optional[int] = None,
    color: Optional[Color] = None,
    width: Optional[int] = None,
    align: Optional[Literal["left", "center", "right"]] = None,
    spacing: Optional[int] = None,
    gravity: Optional[Literal["center", "north", "northeast", "east", "southeast", "south",
        "southwest", "west", "northwest"]] = None,
    x: Optional[int] = None,
    y: Optional[int] = None,
    opacity: Optional[float] = None,
    tile: Optional[bool] = None,
) -> Operation:
    """Draws text over the image, in any script and with colour emoji.

    text: 1 to 4096 bytes of UTF-8; required. The text. A line feed begins a new line; of other
        control characters only tabs are allowed. There is no markup.
    font: 1 to 128 bytes of UTF-8. Families of fonts, separated by commas, and words such as Bold,
        Italic or Condensed, as Pango describes a font: `Noto Serif, DejaVu Serif Bold`. By default
        Sans. If a family is not installed, the next one is used, and at last the one that
        `fc-match` names. Characters that the font lacks are taken from other fonts.
    size: an integer of 1 to 2000; default: 32. The size of the font in pixels (not points): the
        height of an em.
    color: [red, green, blue] or [red, green, blue, alpha] of 0 to 255, or "transparent". By default
        black. Emoji keep their own colours.
    width: an integer of 1 to 65500. Wraps lines that are longer than this many pixels, between
        words if possible. By default lines are not wrapped.
    align: left, center, right; default: left. The side on which the lines of a text of several
        lines are even. For paragraphs that begin with a letter of Arabic, Hebrew or another script
        that runs to the left, left and right are exchanged.
    spacing: an integer of 0 to 2000; default: 0. Pixels between two lines, besides the distance
        that the font asks for.
    gravity: center, north, northeast, east, southeast, south, southwest, west, northwest; default:
        center. The part of the image where the text is; northwest if only `x` or `y` is given.
    x: an integer of -65500 to 65500. As for `composite`: the distance in pixels from the side or
        corner.
    y: an integer of -65500 to 65500. The same for rows. Parts outside the image are cut off.
    opacity: 0 to 1; default: 1. A factor for the alpha of all pixels of the text, also of emoji.
    tile: True or False; default: False. Repeats the text over the whole image.
    """
    return Operation(
        "text",
        text=text,
        font=font,
        size=size,
        color=color,
        width=width,
        align=align,
        spacing=spacing,
        gravity=gravity,
        x=x,
        y=y,
        opacity=opacity,
        tile=tile,
    )


def equalize(
) -> Operation:
    """Equalizes the histogram of gray, as OpenCV's equalizeHist."""
    return Operation(
        "equalize",
    )


def otsu(
) -> Operation:
    """Sets gray to 255 above Otsu's threshold, else to 0, and returns the threshold."""
    return Operation(
        "otsu",
    )


def histogram(
    *,
    gray: Optional[bool] = None,
) -> Operation:
    """Returns an array per channel with the counts of the values 0 to 255.

    gray: True or False; default: False. true counts the gray of a colour image, with the default
        weights.
    """
    return Operation(
        "histogram",
        gray=gray,
    )


def stats(
) -> Operation:
    """Returns `mean`, `min` and `max`, each with a number per channel."""
    return Operation(
        "stats",
    )


def palette(
    *,
    colors: Optional[int] = None,
) -> Operation:
    """Returns the dominant colours, each as `color` and `share`, the most frequent first.

    colors: an integer of 1 to 16; default: 6. The most colours that are returned.
    """
    return Operation(
        "palette",
        colors=colors,
    )


def phash(
) -> Operation:
    """Returns a perceptual hash of 16 hexadecimal digits, as Python's imagehash.phash."""
    return Operation(
        "phash",
    )


def blurhash(
    *,
    components: Optional[Sequence[int]] = None,
) -> Operation:
    """Returns the BlurHash of the image, from which a blurred preview can be drawn.

    components: 2 integers of 1 to 9; default: [4, 3]. The number of components across and down.
    """
    return Operation(
        "blurhash",
        components=components,
    )


def thumbhash(
) -> Operation:
    """Returns the ThumbHash of the image in base64: a preview of about 25 bytes."""
    return Operation(
        "thumbhash",
    )
