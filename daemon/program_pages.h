/*
 * program_pages.h - frees the memory that the program's constants take after the CUDA driver has
 * read them.
 */
#pragma once

/* To find the kernels for its devices, the CUDA driver reads the kernels of all architectures.
 * These are constants of the program. This function removes all constants from the resident memory;
 * the system reads a page again when it is used. Call it once, at the end of the start. Any
 * thread. */
void program_pages_release(void);
