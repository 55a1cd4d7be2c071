#include "queue/redis/tls.h"

#ifdef GPUIMGD_TLS

#include <arpa/inet.h>
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "conf/content.h"

struct tls {
    SSL *ssl;
    BIO *in, *out; /* owned by ssl: records from and to the server */
};

bool tls_is_built(void)
{
    return true;
}

/* ---- files ---------------------------------------------------------------------------------- */

/* A password callback without a password: the callback of OpenSSL would ask on the terminal. */
static int no_password(char *to, int size, int writes, void *context)
{
    (void)to;
    (void)size;
    (void)writes;
    (void)context;
    return 0;
}

/* Returns the content of a file as a BIO, or NULL with the error set. */
static BIO *open_file(const char *option, const char *path, char **content, struct error *error)
{
    struct error fault = {0};
    size_t length;
    *content = content_read(path, 0, &length, &fault);
    BIO *bio = *content ? BIO_new_mem_buf(*content, (int)length) : NULL;
    if (!bio)
        error_refuse(error, "option %s: %s", option, *content ? "out of memory" : fault.text);
    return bio;
}

static bool fail_file(const char *option, const char *path, const char *lacks, struct error *error)
{
    return error_refuse(error, "option %s: %.150s has no %s in PEM format", option, path, lacks);
}

static bool take_authorities(SSL_CTX *context, const char *path, struct error *error)
{
    static const char option[] = "redis_tls_ca_file";
    char *content;
    BIO *bio = open_file(option, path, &content, error);
    int count = 0;
    for (X509 *one; bio && (one = PEM_read_bio_X509(bio, NULL, no_password, NULL));) {
        count += X509_STORE_add_cert(SSL_CTX_get_cert_store(context), one);
        X509_free(one);
    }
    BIO_free(bio);
    free(content);
    return bio && (count > 0 || fail_file(option, path, "certificate", error));
}

/* Loads the client's certificate, and those of the intermediate authorities that follow it. */
static bool take_certificate(SSL_CTX *context, const char *path, struct error *error)
{
    static const char option[] = "redis_tls_cert_file";
    char *content;
    BIO *bio = open_file(option, path, &content, error);
    X509 *own = bio ? PEM_read_bio_X509(bio, NULL, no_password, NULL) : NULL;
    bool good = own && SSL_CTX_use_certificate(context, own) == 1;
    for (X509 *one; good && (one = PEM_read_bio_X509(bio, NULL, no_password, NULL));)
        if (!SSL_CTX_add_extra_chain_cert(context, one)) /* uncovered: memory */
            X509_free(one);
    X509_free(own);
    BIO_free(bio);
    free(content);
    return bio && (good || fail_file(option, path, "certificate", error));
}

static bool take_key(SSL_CTX *context, const char *path, struct error *error)
{
    static const char option[] = "redis_tls_key_file";
    char *content;
    BIO *bio = open_file(option, path, &content, error);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
    bool good = key && SSL_CTX_use_PrivateKey(context, key) == 1;
    EVP_PKEY_free(key);
    BIO_free(bio);
    if (content)
        explicit_bzero(content, strlen(content));
    free(content);
    return bio && (good || fail_file(option, path,
                                     "key without a password that fits "
                                     "redis_tls_cert_file",
                                     error));
}

static bool take_files(SSL_CTX *context, const struct options *conf, struct error *error)
{
    if (!*conf->redis_tls_ca_file)
        SSL_CTX_set_default_verify_paths(context);
    else if (!take_authorities(context, conf->redis_tls_ca_file, error))
        return false;
    return !*conf->redis_tls_cert_file ||
           (take_certificate(context, conf->redis_tls_cert_file, error) &&
            take_key(context, conf->redis_tls_key_file, error));
}

void tls_check_files(const struct options *conf, struct errors *errors)
{
    const char *ca = conf->redis_tls_ca_file, *own = conf->redis_tls_cert_file;
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    struct error authorities = {0}, certificate = {0}, key = {0};
    if (!context) /* uncovered: memory */
        errors_addf(errors, "out of memory for the files of the options redis_tls_*");
    if (context && *ca && !take_authorities(context, ca, &authorities))
        errors_add(errors, &authorities);
    if (context && *own && !take_certificate(context, own, &certificate))
        errors_add(errors, &certificate);
    if (context && *own && *conf->redis_tls_key_file &&
        !take_key(context, conf->redis_tls_key_file, &key))
        errors_add(errors, &key);
    SSL_CTX_free(context);
    ERR_clear_error();
}

/* ---- the handshake -------------------------------------------------------------------------- */

/* Sets the name that the certificate must have, and sends it (SNI), because some servers choose
 * their certificate by it. */
static bool expect_name(SSL *ssl, const char *name)
{
    unsigned char address[16];
    if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    X509_VERIFY_PARAM_set_hostflags(SSL_get0_param(ssl), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

static bool begin(struct tls *tls, SSL_CTX *context, const char *name)
{
    tls->ssl = SSL_new(context);
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    if (!tls->ssl || !tls->in || !tls->out) { /* uncovered: memory */
        BIO_free(tls->in);
        BIO_free(tls->out);
        return false;
    }
    BIO_set_mem_eof_return(tls->in, -1); /* an empty BIO means: wait for more records */
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    SSL_set_connect_state(tls->ssl);
    return expect_name(tls->ssl, name);
}

struct tls *tls_new(const struct options *conf, const char *host, struct error *error)
{
    struct tls *tls = calloc(1, sizeof *tls);
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    bool good = tls && context;
    if (good) {
        SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
        good = take_files(context, conf, error) &&
               begin(tls, context, *conf->redis_tls_name ? conf->redis_tls_name : host);
    }
    if (!good)
        error_refuse(error, "out of memory for a TLS connection"); /* or the error is set */
    SSL_CTX_free(context);                                         /* ssl holds a reference */
    ERR_clear_error();
    if (good)
        return tls;
    tls_free(tls);
    return NULL;
}

void tls_free(struct tls *tls)
{
    if (tls)
        SSL_free(tls->ssl);
    free(tls);
}

/* Sets `error` after a failed call of OpenSSL. */
static void explain(const struct tls *tls, struct error *error)
{
    long verified = SSL_get_verify_result(tls->ssl);
    unsigned long code = ERR_peek_error();
    const char *reason = ERR_reason_error_string(code);
    if (verified != X509_V_OK)
        error_refuse(error, "TLS: the certificate of the server is refused: %s",
                     X509_verify_cert_error_string(verified));
    else if (ERR_GET_REASON(code) == SSL_R_WRONG_VERSION_NUMBER)
        error_refuse(error, "TLS: the server does not speak TLS on this port");
    else
        error_refuse(error, "TLS: %s", reason ? reason : "the server broke the protocol");
    ERR_clear_error();
}

/* Whether a call of OpenSSL that returned `result` only needs more records. */
static bool is_waiting(const struct tls *tls, int result)
{
    int why = SSL_get_error(tls->ssl, result);
    return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
}

bool tls_handshake(struct tls *tls, struct error *error)
{
    ERR_clear_error();
    int result = SSL_do_handshake(tls->ssl);
    if (result != 1 && !is_waiting(tls, result))
        explain(tls, error);
    return result == 1;
}

/* ---- bytes ---------------------------------------------------------------------------------- */

bool tls_receive(struct tls *tls, const char *records, size_t length)
{
    return BIO_write(tls->in, records, (int)length) == (int)length;
}

size_t tls_read(struct tls *tls, char *bytes, size_t size, struct error *error)
{
    ERR_clear_error();
    int count = SSL_read(tls->ssl, bytes, (int)size);
    if (count > 0)
        return (size_t)count;
    if (SSL_get_error(tls->ssl, count) == SSL_ERROR_ZERO_RETURN)
        error_refuse(error, "the server closed the connection");
    else if (!is_waiting(tls, count))
        explain(tls, error);
    return 0;
}

bool tls_write(struct tls *tls, const char *bytes, size_t length)
{
    assert(length > 0 && length <= TLS_PIECE_BYTES);
    ERR_clear_error();
    return SSL_write(tls->ssl, bytes, (int)length) == (int)length;
}

size_t tls_waiting(const struct tls *tls)
{
    return BIO_ctrl_pending(tls->out);
}

void tls_take(struct tls *tls, char *records, size_t length)
{
    int taken = BIO_read(tls->out, records, (int)length);
    assert(taken == (int)length);
    (void)taken;
}

#else

bool tls_is_built(void)
{
    return false;
}

void tls_check_files(const struct options *conf, struct errors *errors)
{
    (void)conf;
    (void)errors;
}

struct tls *tls_new(const struct options *conf, const char *host, struct error *error)
{
    (void)conf;
    (void)host;
    error_refuse(error, "this build has no OpenSSL");
    return NULL;
}

void tls_free(struct tls *tls)
{
    (void)tls;
}

bool tls_handshake(struct tls *tls, struct error *error)
{
    (void)tls;
    (void)error;
    return false;
}

bool tls_receive(struct tls *tls, const char *records, size_t length)
{
    (void)tls;
    (void)records;
    (void)length;
    return false;
}

size_t tls_read(struct tls *tls, char *bytes, size_t size, struct error *error)
{
    (void)tls;
    (void)bytes;
    (void)size;
    (void)error;
    return 0;
}

bool tls_write(struct tls *tls, const char *bytes, size_t length)
{
    (void)tls;
    (void)bytes;
    (void)length;
    return false;
}

size_t tls_waiting(const struct tls *tls)
{
    (void)tls;
    return 0;
}

void tls_take(struct tls *tls, char *records, size_t length)
{
    (void)tls;
    (void)records;
    (void)length;
}

#endif
