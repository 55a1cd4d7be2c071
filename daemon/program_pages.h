/*
 * program_pages.h - gives back the resident pages of the program's constants.
 */
#pragma once

/* To find the kernels of its devices, the CUDA driver reads the kernels of all architectures in the
 * program. Removes these constants from resident memory; the system maps a page again when it is
 * read. Call it once, at the end of the start. Any thread. */
void program_pages_release(void);
