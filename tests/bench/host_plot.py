#!/usr/bin/env python3
"""Draws the results of host.py as an SVG, the mixes first: host_plot.py RESULTS.json FILE.svg"""
import json
import sys

import chart

# Unit, key of a row, scale and format.
IMAGES = ("images per second", "images_s", 1, ",.0f")
GIGAPIXELS = ("gigapixels per second", "mp_s", 1e-3, ".1f")
PANELS = [("web proxy", "Web proxy: small files of all formats, one size each", IMAGES),
          ("uploads", "Uploads of 12 MP: four sizes, BlurHash and pHash each", IMAGES),
          ("baseline to three sizes", "Photographs to three JPEGs", GIGAPIXELS),
          ("phone to three sizes", "Files of a phone to three JPEGs", GIGAPIXELS),
          ("baseline to thumbnails", "Photographs to thumbnails of 512 pixels", GIGAPIXELS),
          ("baseline to edges", "Photographs to edges", GIGAPIXELS),
          ("mixed to edges", "The same, 30% of the pixels in progressive files", GIGAPIXELS),
          ("progressive to edges", "Progressive photographs to edges", GIGAPIXELS),
          ("web progressive to edges", "Progressive files of 0.2 to 1 MP to edges", GIGAPIXELS),
          ("256 x 256 to edges", "256 x 256 to edges", IMAGES)]
ORDER = ["all devices", "device 0", "CPU engine", "libvips"]


def main():
    source, target = sys.argv[1:]
    with open(source) as file:
        rows = json.load(file)["rows"]
    panels = []
    for work, head, (unit, key, scale, digits) in PANELS:
        found = {row["contestant"]: row[key] * scale for row in rows
                 if row["work"] == work and row.get(key) and row["contestant"] in ORDER}
        if found:
            panels.append((f"{head}: {unit}", [(name, found[name], format(found[name], digits))
                                               for name in ORDER if name in found]))
    chart.bars(target, "From Redis to files: gpuimgd on devices and on CPUs, and libvips", panels)


main()
