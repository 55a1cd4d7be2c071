/*
 * test_tls.c - Redis with TLS: one server, Sentinels, a Cluster; certificates that are refused;
 * connections that end. And redis:// URLs.
 */
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fixtures/authority.h"
#include "tests/fixtures/ctl.h"
#include "tests/fixtures/reference.h"
#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

#define PASSWORD      "SECRET%word"
#define IN_URL        ":SECRET%%25word@" /* in a format */
#define file_of(name) text_of("%s/%s", certificates, name)

static char certificates[] = "/tmp/gpuimgd-tls-XXXXXX";

/* The arguments of a server with this certificate, and no port without TLS. */
#define TLS_SERVER(name, clients)                                                                  \
    "--port", "0", "--tls-port", REDIS_SERVER_PORT, "--tls-cert-file", file_of(name ".pem"),       \
        "--tls-key-file", file_of(name ".key"), "--tls-ca-cert-file", file_of("ours.pem"),         \
        "--tls-auth-clients", clients

static int open_tls(void **state)
{
    world_open(
        w, redis_server_start(TLS_SERVER("server", "optional"), "--requirepass", PASSWORD, NULL));
    freeReplyObject(redis_command(w->client, "AUTH %s", PASSWORD));
    world_put_photo(w, "p.jpg", 160, 120);
    return 0;
}

static int empty_tls(void **state)
{
    return empty_world(state);
}

/* Starts a daemon of the server with this URL and extra options, which may not become ready. Its
 * log begins without the lines of an earlier daemon. */
#define start_at(url, ...)                                                                         \
    (unlink(text_of("%s/daemon0.err", w->folder)),                                                 \
     world_start(w, 0, text_of("--redis=%s", url),                                                 \
                 text_of("--redis_tls_ca_file=%s", file_of("ours.pem")), "--connect_timeout_s=2",  \
                 __VA_ARGS__, NULL))

static const char *url_of(const char *host)
{
    return text_of("rediss://" IN_URL "%s:%d", host, w->redis->port);
}

static void check_log_has_no_secret(struct process *daemon)
{
    char *log = process_log(daemon);
    if (strstr(log, "SECRET"))
        fail_msg("%s", log);
    free(log);
}

static void finish(struct process *daemon)
{
    check_log_has_no_secret(daemon);
    check_stop(daemon);
    check_clean(w);
}

/* ---- one server ------------------------------------------------------------------------------ */

TEST(test_jobs)
{
    struct process *daemon = check_ready(start_at(url_of("localhost"), "--workers=2"));
    push_jobs(0, 50);
    take_jobs(50);
    /* Idle, the daemon waits for a push. */
    process_sleep(patience(0.5));
    double begin = process_now();
    check_done(check_answer(w, "{'input':'p.jpg','output':'x.png'}"));
    assert_true(process_now() - begin < patience(1.5));
    finish(daemon);
}

/* Commands and replies of several MB, which TLS cuts into records. */
TEST(test_large_values)
{
    struct process *daemon = check_ready(start_at(url_of("127.0.0.1"), "--workers=2"));
    put_png("noise.png", .width = 1500, .height = 1000, .colour_type = 2, .seed = 5);
    for (int i = 0; i < 6; i++) {
        world_set_picture(w, text_of("gpuimgd:img:in%d", i),
                          make_png(.width = 1500, .height = 1000, .colour_type = 2, .seed = 5));
        world_push(w,
                   "{'id':'%d','input':{'key':'gpuimgd:img:in%d'},'output':{'key':"
                   "'gpuimgd:img:out%d','format':'png'}}",
                   i, i, i);
    }
    double begin = process_now();
    for (int i = 0; i < 6; i++)
        check_done(check_next(w));
    assert_true(process_now() - begin < patience(15)); /* nothing waits for a timeout */
    redisReply *first = redis_command(w->client, "GET gpuimgd:img:out0");
    assert_true(first->len > 1000000);
    struct raster expected = world_load_in(w, "noise.png", RASTER_COLOUR);
    for (int i = 0; i < 6; i++) {
        redisReply *reply = redis_command(w->client, "GET gpuimgd:img:out%d", i);
        struct raster got = raster_decode((uint8_t *)reply->str, reply->len, RASTER_COLOUR);
        assert_int_equal(got.width, expected.width);
        assert_memory_equal(reply->str, first->str, first->len);
        raster_clear(&got);
        freeReplyObject(reply);
    }
    raster_clear(&expected);
    freeReplyObject(first);
    for (int i = 0; i < 6; i++)
        redis_integer(w->client, "DEL gpuimgd:img:in%d gpuimgd:img:out%d", i, i);
    finish(daemon);
}

TEST(test_reconnect)
{
    struct process *daemon = check_ready(start_at(url_of("localhost"), "--workers=2"));
    for (int i = 0; i < 5; i++) {
        push_jobs(10 * i, 10 * i + 10);
        redis_integer(w->client, "CLIENT KILL TYPE normal SKIPME yes");
        take_jobs(10);
    }
    redis_server_kill9(w->redis);
    assert_true(process_logged(daemon, 0, "trying again", 20));
    redis_server_restart(w->redis);
    world_reconnect(w);
    freeReplyObject(redis_command(w->client, "AUTH %s", PASSWORD));
    assert_true(await(20, strcmp(redis_text(w->client, "PING"), "PONG") == 0)); /* it is loaded */
    push_jobs(100, 110);
    take_jobs(10);
    finish(daemon);
}

TEST(test_ctl)
{
    const char *at =
        text_of("--redis=%s --redis_tls_ca_file=%s", url_of("localhost"), file_of("ours.pem"));
    struct ctl_run run = ctl_run(w, "ctl status -c /dev/null %s", at);
    assert_int_equal(run.status, 0);
    assert_non_null(strstr(run.out, "rediss://localhost:"));
    assert_null(strstr(run.out, "SECRET"));
    run = ctl_run(w, "ctl status --json -c /dev/null %s", at);
    assert_int_equal(run.status, 0);
    assert_null(strstr(run.out, "SECRET"));
    run =
        ctl_run(w, "ctl status -c /dev/null %s --redis_tls_ca_file=%s", at, file_of("theirs.pem"));
    assert_int_equal(run.status, 69);
    assert_non_null(strstr(run.err, "certificate"));
    assert_null(strstr(run.err, "SECRET"));
}

/* ---- servers that are refused ---------------------------------------------------------------- */

/* A job waits until the daemon gets right options. */
TEST(test_refused)
{
    static const struct {
        const char *host, *option, *file, *reason;
    } rows[] = {
        {"localhost", "redis_tls_ca_file", "theirs.pem", "certificate of the server is refused: "},
        {"localhost", "redis_tls_name", "other.example", "refused: hostname mismatch"},
        {"127.0.0.1", "redis_tls_name", "127.0.0.2", "refused: IP address mismatch"},
        {"localhost", "redis_tls_ca_file", "none.pem", "redis_tls_ca_file: cannot open"},
        {"localhost", "redis_tls_ca_file", "ours.key", "no certificate in PEM format"},
        {"localhost", "redis_tls_ca_file", "fifo", "it is a pipe to which no process writes"},
        {"localhost", "redis_tls_ca_file", ".", "it is a folder"},
    };
    assert_int_equal(mkfifo(file_of("fifo"), 0600), 0);
    push_jobs(0, 1);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool is_name = strstr(rows[i].option, "name") != NULL;
        struct process *daemon =
            start_at(url_of(rows[i].host), text_of("--%s=%s", rows[i].option,
                                                   is_name ? rows[i].file : file_of(rows[i].file)));
        if (!process_logged(daemon, 0, rows[i].reason, 10))
            fail_msg("%s: %s", rows[i].reason, process_log(daemon));
        check_log_has_no_secret(daemon);
        process_clear(daemon);
        assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:jobs"), 1);
    }
    struct process *daemon = check_ready(start_at(url_of("localhost"), "--workers=2"));
    take_jobs(1);
    finish(daemon);
}

static void check_server(const char *reason, struct redis_server *server, const char *option)
{
    struct process *daemon = start_at(text_of("rediss://localhost:%d", server->port), option);
    if (!process_logged(daemon, 0, reason, 10))
        fail_msg("%s: %s", reason, process_log(daemon));
    process_clear(daemon);
    redis_server_stop(server);
}

TEST(test_refused_servers)
{
    check_server("refused: certificate has expired",
                 redis_server_start(TLS_SERVER("expired", "no"), NULL), NULL);
    check_server("refused: hostname mismatch", redis_server_start(TLS_SERVER("other", "no"), NULL),
                 NULL);
    /* Redis 7 waits for the end of a line, Redis 8 answers. */
    check_server("speak TLS on this port", redis_server_start(NULL), "--connect_timeout_s=0.5");
    check_server("TLS: ", redis_server_start(TLS_SERVER("server", "yes"), NULL), NULL);
}

TEST(test_certificate_of_the_client)
{
    struct redis_server *server = redis_server_start(TLS_SERVER("server", "yes"), NULL);
    const char *own = text_of("--redis_tls_cert_file=%s", file_of("client.pem"));
    const char *key = text_of("--redis_tls_key_file=%s", file_of("client.key"));
    struct process *daemon = start_at(text_of("rediss://localhost:%d", server->port), own, key);
    assert_true(process_logged(daemon, 0, ": connected", 10));
    process_clear(daemon);
    daemon = start_at(text_of("rediss://localhost:%d", server->port), own,
                      text_of("--redis_tls_key_file=%s", file_of("server.key")));
    assert_true(process_logged(daemon, 0, "has no key without a password that fits", 10));
    process_clear(daemon);
    daemon = start_at("rediss://localhost", own);
    assert_int_equal(process_wait(daemon, 20), 78);
    assert_true(process_logged(daemon, 0, "must both be set", 1));
    process_clear(daemon);
    redis_server_stop(server);
}

/* ---- several servers ------------------------------------------------------------------------- */

static void check_runs_at(const char *address, redisContext *client)
{
    struct process *daemon = start_at(address, "--namespace={t}", "--workers=1");
    assert_true(process_logged(daemon, 0, ": connected", 20));
    redis_integer(client, "LPUSH {t}:jobs %s", "{\"input\":\"p.jpg\",\"output\":\"f.png\"}");
    redisReply *reply = redis_command(client, "BRPOP {t}:results 20");
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    assert_non_null(strstr(reply->element[1]->str, "\"status\":\"done\""));
    freeReplyObject(reply);
    check_stop(daemon);
}

TEST(test_sentinel)
{
    struct redis_server *server =
        redis_server_start(TLS_SERVER("server", "no"), "--tls-replication", "yes", NULL);
    const char *const args[] = {TLS_SERVER("server", "no"), "--tls-replication", "yes", NULL};
    struct redis_server *sentinel = redis_sentinel_start_with("m", server->port, args);
    redisContext *client = redis_server_connect(server);
    check_runs_at(text_of("sentinels://m@localhost:%d", sentinel->port), client);
    redisFree(client);
    redis_server_stop(sentinel);
    redis_server_stop(server);
}

/* The first node owns no slot: it names the other one. */
TEST(test_cluster)
{
    struct redis_server *nodes[2];
    redisContext *clients[2];
    for (int i = 0; i < 2; i++) {
        nodes[i] = redis_server_start(TLS_SERVER("server", "no"), "--cluster-enabled", "yes",
                                      "--tls-cluster", "yes", NULL);
        clients[i] = redis_server_connect(nodes[i]);
    }
    redisReply *reply = redis_command(clients[1], "CLUSTER ADDSLOTSRANGE 0 16383");
    if (reply->type == REDIS_REPLY_ERROR) { /* Redis 6 */
        print_message("this Redis has no ADDSLOTSRANGE\n");
        skip();
    }
    freeReplyObject(reply);
    freeReplyObject(redis_command(clients[0], "CLUSTER MEET 127.0.0.1 %d", nodes[1]->port));
    for (int i = 0; i < 2; i++)
        assert_true(
            await(20, strstr(redis_text(clients[i], "CLUSTER INFO"), "cluster_state:ok") != NULL));
    check_runs_at(text_of("rediss://localhost:%d", nodes[0]->port), clients[1]);
    for (int i = 0; i < 2; i++) {
        redisFree(clients[i]);
        redis_server_stop(nodes[i]);
    }
}

/* ---- redis:// -------------------------------------------------------------------------------- */

TEST(test_urls_without_tls)
{
    struct redis_server *server = redis_server_start(NULL);
    redisContext *client = redis_server_connect(server);
    freeReplyObject(redis_command(client, "ACL SETUSER work:er on >SECRET@/:word ~* &* +@all"));
    freeReplyObject(redis_command(client, "ACL SETUSER default resetpass >other"));
    freeReplyObject(redis_command(client, "AUTH other"));
    freeReplyObject(redis_command(client, "SELECT 3"));
    const char *url =
        text_of("redis://work%%3aer:SECRET%%40%%2F:word@localhost:%d/3", server->port);
    check_runs_at(url, client);
    freeReplyObject(redis_command(client, "ACL SETUSER work:er resetpass >changed"));
    struct process *daemon = start_at(url, "--redis_database=5");
    assert_true(process_logged(daemon, 0, "WRONGPASS", 10));
    check_log_has_no_secret(daemon);
    process_clear(daemon);
    redisFree(client);
    redis_server_stop(server);
}

static void make_certificates(void)
{
    static const char names[] = "DNS:localhost,IP:127.0.0.1";
    if (!mkdtemp(certificates))
        abort();
    authority_make(certificates, "ours");
    authority_make(certificates, "theirs");
    authority_issue(certificates, "ours", "server", names, 86400);
    authority_issue(certificates, "ours", "expired", names, -60);
    authority_issue(certificates, "ours", "other", "DNS:other.example,IP:127.0.0.2", 86400);
    authority_issue(certificates, "ours", "client", "DNS:client", 86400);
}

int main(void)
{
    authority_skip();
    make_certificates();
    int failed =
        run_all(.name = "tls", .setup = open_tls, .teardown = close_world, .each_setup = empty_tls);
    text_file_remove_folder(certificates);
    return failed;
}
