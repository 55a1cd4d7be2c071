/*
 * gain_map.h - whether a file has a gain map: a second image from which screens with a high dynamic
 * range compute how much brighter they show each pixel of the first one.
 *
 * Only the first image is decoded, and no output has a gain map, so results say that the input had
 * one. ISO 21496-1 defines gain maps. Found are those of ISO 21496-1 and of Android ("Ultra HDR")
 * and Adobe in JPEGs, those of Apple in JPEGs and HEICs, and the derived images "tmap" (ISO/IEC
 * 23008-12) in AVIFs and HEICs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads only headers: of a JPEG the segments before its first scan, and the beginning of each
 * further image that they name. Any thread. */
bool gain_map_is_in(const uint8_t *file, size_t length);
