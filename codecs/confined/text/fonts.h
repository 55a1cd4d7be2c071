/*
 * fonts.h - the font files of this host, for a process that can open no files.
 *
 * FreeType and HarfBuzz open a font when a text needs it, but the confined process may not. So all
 * files of fonts are opened before, and fonts.c defines access, open and fstat in the place of the
 * C library's: they give the libraries the descriptor of the font. The libraries map the file and
 * close the descriptor, which the kernel refuses, so that it stays open for the next time.
 *
 * Builds without confinement (confine.h) leave the functions of the C library in their place.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Reads fontconfig's configuration and opens the fonts. Fonts that cannot be opened are left out.
 * Returns the number of fonts; -1: fontconfig cannot be used. */
int fonts_open(void);
/* Call it last before the process is confined: from then on only fonts can be opened. */
void fonts_close_rest(void);
/* Whether a font has the character. */
bool fonts_have(uint32_t character);
