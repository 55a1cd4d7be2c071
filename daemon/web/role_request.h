/*
 * role_request.h - where the keys of a role come from, and the requests for them.
 *
 * A role is one of AWS's ways to give temporary keys to a program. The environment says where its
 * server is, as for AWS's own programs. Only the operator chooses these servers: a role is used if
 * the option url_prefixes names it, and no job can change it. Loop thread only: reading a small
 * file blocks the loop for a short time.
 */
#pragma once

#include "daemon/web/url.h"

enum aws_role {
    AWS_ROLE_NONE,
    AWS_ROLE_INSTANCE,     /* "@instance": of an EC2 instance, by instance metadata version 2 */
    AWS_ROLE_WEB_IDENTITY, /* "@web-identity": STS gives keys for a token in a file */
    AWS_ROLE_CONTAINER,    /* "@container": the endpoint of ECS or of EKS pod identity */
    AWS_ROLE_COUNT
};

/* Only the instance metadata needs the first two. */
enum role_step { ROLE_STEP_TOKEN, ROLE_STEP_NAME, ROLE_STEP_KEYS };

#define ROLE_WORD_BYTES   1024 /* longest token of the instance metadata, and longest name */
#define ROLE_HEADER_BYTES 8192 /* with the token of a container */

struct role_request {
    const char *method;
    struct url url;
    char header[ROLE_HEADER_BYTES]; /* "Name: value", or "" */
    char *body;                     /* of a POST, malloc'd; or NULL */
};

/* "instance" and the like; AWS_ROLE_NONE: there is no such role. */
enum aws_role aws_role_by_name(const char *name);
const char *aws_role_name(enum aws_role role);
enum role_step role_first_step(enum aws_role role);

/* Whether the environment has what the role needs. false: error has the reason, which continues
 * "aws:REGION:@ROLE of URL ...". region: where STS is asked. */
bool role_check(enum aws_role role, const char *region, struct error *error) MUST_CHECK;
/* Makes the request of a step. Files with tokens are read each time, because others replace them.
 * token: of the step ROLE_STEP_TOKEN; name: of ROLE_STEP_NAME. Errors: as role_check. Call
 * role_request_clear in any case. */
bool role_request_make(struct role_request *request, enum aws_role role, enum role_step step,
                       const char *region, const char *token, const char *name,
                       struct error *error) MUST_CHECK;
/* Whether the token of a container or of a web identity may go there: with TLS, to this host, or to
 * an address of ECS or EKS. */
bool role_url_is_safe(const struct url *url);
void role_request_clear(struct role_request *request); /* idempotent */
