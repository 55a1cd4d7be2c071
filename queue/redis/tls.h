/* tls.h - the TLS session of one connection: encrypts commands to records, decrypts replies.
 *
 * It has no socket: link.c sends and receives the records. The certificate of the server is always
 * verified, with its chain, its dates and its name. Loop thread only, except tls_is_built. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "conf/errors.h"
#include "conf/options.h"

struct tls;

/* Whether this build has OpenSSL. Without it, only tls_check_files may be called. */
bool tls_is_built(void);

/* Adds an error for each file of the options redis_tls_* that tls_new would refuse. Checks nothing
 * without OpenSSL. */
void tls_check_files(const struct options *conf, struct errors *errors);
/* Reads the files of the options redis_tls_*. Returns NULL with an error if one is wrong or memory
 * is short. */
struct tls *tls_new(const struct options *conf, const char *host, struct error *error);
void tls_free(struct tls *tls); /* NULL is allowed */

/* Goes on with the handshake. Returns true when it is complete. Returns false with error->status
 * STATUS_OK if the caller must first send or receive records. */
bool tls_handshake(struct tls *tls, struct error *error);

/* Adds received bytes of records. Returns false if memory is short. */
bool tls_receive(struct tls *tls, const char *records, size_t length);
/* Decrypts at most `size` bytes of replies, and returns their number. 0: no record is complete, or
 * the error is set. */
size_t tls_read(struct tls *tls, char *bytes, size_t size, struct error *error);

/* Turns at most TLS_PIECE_BYTES of a command into records. Returns false after a fault. */
#define TLS_PIECE_BYTES (16 * 1024)
bool tls_write(struct tls *tls, const char *bytes, size_t length);
/* The number of bytes of records to send; tls_take copies and removes the first `length` of them.
 */
size_t tls_waiting(const struct tls *tls);
void tls_take(struct tls *tls, char *records, size_t length);
