"""Writes PNG files without filters, for the inputs of benches."""
import struct
import zlib

GRAY_ALPHA, RGB, RGBA = 4, 2, 6


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, colour_type, rows):
    """rows: each begins with a zero byte. Returns the file."""
    return (b"\x89PNG\r\n\x1a\n" +
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))
