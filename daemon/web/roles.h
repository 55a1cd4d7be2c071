/*
 * roles.h - gets the keys of roles, and gets new ones before they end.
 *
 * A role that url_prefixes names is asked for keys at once, and again 15 minutes before its keys
 * end, or after half of their time if they last less than 30 minutes. If that fails, it is asked
 * again after 1, 2, 4, 8 and then every 10 seconds, and the old keys are used until their end. If
 * they have ended while the host was suspended, the next transfer that needs keys asks. All
 * requests run on the loop and end within 5 s; transfers that need keys wait for them (transfer.h).
 * Loop thread only.
 */
#pragma once

#include <uv.h>

#include "conf/options.h"
#include "daemon/web/prefixes.h"
#include "daemon/web/web_loop.h"

struct roles;

/* errors: counts the times that a role gave no keys. changed: called when a role has been asked.
 * NULL: out of memory. */
struct roles *roles_create(const struct options *options, uint64_t *errors,
                           void (*changed)(void *context), void *context);
/* Opens the timers. Call it once, before all other functions but roles_destroy. */
void roles_start(struct roles *roles, uv_loop_t *loop, struct web_loop *web);

/* Sets which roles are used, and asks each of them now; the others forget their keys. first: for
 * each role the first prefix that uses it, or NULL. Messages name it, and its region is that of
 * STS. */
void roles_use(struct roles *roles, const struct prefix *const first[AWS_ROLE_COUNT]);

enum roles_answer {
    ROLES_READY,   /* there are keys */
    ROLES_AWAITED, /* there are none, and the role is asked: `changed` will be called */
    ROLES_FAILED   /* there are none; the role will be asked again later */
};
/* keys: valid until the loop runs again. error: set if there are no keys; it names the server. */
enum roles_answer roles_keys(struct roles *roles, enum aws_role role, const struct aws_keys **keys,
                             struct error *error);

/* Why the role gave no keys when it was asked last, or "". */
const char *roles_failure(const struct roles *roles, enum aws_role role);

/* Ends all requests and closes the timers. Run the loop once more, then call roles_destroy. */
void roles_stop(struct roles *roles);
void roles_destroy(struct roles *roles); /* NULL is allowed */
