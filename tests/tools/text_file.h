/*
 * text_file.h - whole small files, and folders that a test made.
 */
#ifndef GPUIMGD_TESTS_TOOLS_TEXT_FILE_H
#define GPUIMGD_TESTS_TOOLS_TEXT_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* The whole file with a NUL behind it, malloc'd; empty where it cannot be read. Never NULL. */
char *text_file_read(const char *path);
/* As above with its length; NULL where it cannot be read. */
unsigned char *text_file_bytes(const char *path, size_t *length);
/* Writes (or replaces) a file; false when that fails. */
bool text_file_write(const char *path, const void *bytes, size_t length);
/* Removes a folder and all in it, following no link. Missing is fine. */
void text_file_remove_folder(const char *path);
/* Counts the files (not folders) under a folder whose path holds `part`. */
size_t text_file_count(const char *folder, const char *part);

#endif
