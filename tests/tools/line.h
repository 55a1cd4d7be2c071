/*
 * line.h - a way to a Redis server that can be slow, cut, or silent: a small TCP proxy.
 *
 * It runs in a thread of the test. Commands and replies are parsed as they pass, so that the
 * reply to one certain command can be withheld and the connection cut in its place.
 */
#ifndef GPUIMGD_TESTS_TOOLS_LINE_H
#define GPUIMGD_TESTS_TOOLS_LINE_H

#include <stdbool.h>
#include <stddef.h>

struct line;

/* Listens on a free port of 127.0.0.1 and leads to the unix socket. Ends the program when that
 * fails. */
struct line *line_open(const char *socket);
/* NULL is fine. */
void line_close(struct line *line);
const char *line_address(const struct line *line); /* "127.0.0.1:port" */

/* At most so many bytes a millisecond from each client to the server; 0: as fast as they come. */
void line_slow(struct line *line, size_t bytes_per_ms);
/* Each byte by itself, both ways. */
void line_bytewise(struct line *line, bool on);
/* The connections that there are carry nothing any more, and nobody is told. New ones do. */
void line_silence(struct line *line);
/* Of the next `times` commands that hold the text the reply is withheld and the connection cut,
 * once the server has answered. */
void line_cut(struct line *line, const char *text, unsigned times);
/* How many replies were withheld; connections that were made. */
unsigned line_cuts(struct line *line);
unsigned line_connections(struct line *line);

#endif
