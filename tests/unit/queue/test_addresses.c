/* Tests of how the queue finds its Redis: names with several addresses, and dead resolvers. */
#include "queue/redis/address.h"
#include "tests/fixtures/queue/queue_bench.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- a fake resolver ------------------------------------------------------------------------- */

#ifdef GPUIMGD_TLS
#define HAS_TLS true
#else
#define HAS_TLS false
#endif

#define DEAD_NAME "dead.test" /* no answer before release_resolver */

static sem_t resolver_release;
static atomic_int resolver_waits;

/* Replaces the C library's function. "A+B" is a name with these two addresses. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
    char text[256], *save;
    struct addrinfo **last = found;
    if (strcmp(name, DEAD_NAME) == 0) {
        atomic_fetch_add(&resolver_waits, 1);
        sem_wait(&resolver_release);
        atomic_fetch_sub(&resolver_waits, 1);
        return EAI_AGAIN;
    }
    *found = NULL;
    snprintf(text, sizeof text, "%s", name);
    for (char *at = strtok_r(text, "+", &save); at; at = strtok_r(NULL, "+", &save)) {
        struct {
            struct addrinfo info;
            struct sockaddr_in address;
        } *one = calloc(1, sizeof *one);
        one->info.ai_family = one->address.sin_family = AF_INET;
        one->info.ai_socktype = SOCK_STREAM;
        one->info.ai_addr = (struct sockaddr *)&one->address;
        one->info.ai_addrlen = sizeof one->address;
        one->address.sin_port = htons((uint16_t)atoi(service));
        inet_pton(AF_INET, at, &one->address.sin_addr);
        *last = &one->info;
        last = &one->info.ai_next;
    }
    return *found ? 0 : EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *info)
{
    while (info) {
        struct addrinfo *next = info->ai_next;
        free(info);
        info = next;
    }
}

static void release_resolver(void)
{
    while (atomic_load(&resolver_waits) > 0) {
        sem_post(&resolver_release);
        usleep(1000);
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* A listener at fds[0] that accepts no connection, so clients that connect to it get no answer. */
static void open_black_hole(const char *ip, int port, int fds[4])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, ip, &address.sin_addr);
    for (int i = 0; i < 4; i++)
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fds[0], (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fds[0], 0), 0);
    for (int i = 1; i < 4; i++) /* they fill its backlog */
        connect(fds[i], (struct sockaddr *)&address, sizeof address);
}

TEST(test_each_address_of_a_name_is_tried)
{
    static const char *const names[] = {
        "127.0.0.3+127.0.0.1",                 /* refused */
        "255.255.255.255+127.0.0.1",           /* unreachable, known immediately */
        "127.0.0.2+127.0.0.1",                 /* silent */
        "255.255.255.255+127.0.0.2+127.0.0.3+127.0.0.1",
    };
    struct redis_server *server = redis_server_start(NULL);
    int fds[4];
    open_black_hole("127.0.0.2", server->port, fds);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct bench *bench = set_up(server);
        const char *name = text_of("%s:%d", names[i], server->port);
        bench->config.redis = (char *)name;
        bench->config.connect_timeout_s = 1; /* the silent address takes a part of it */
        start_queue(bench);
        run_until(bench, queue_view(bench->queue)->state == QUEUE_READY);
        bench->server = NULL; /* the next bench uses the same server */
        tear_down(bench);
    }
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    redis_server_stop(server);
}

/* Exit does not wait for a resolver that does not answer, and each connection has one lookup. */
TEST(test_a_dead_resolver_delays_no_exit)
{
    struct bench *bench = set_up(NULL);
    bench->config.redis = DEAD_NAME;
    bench->config.connect_timeout_s = 0.05;
    start_queue(bench);
    run_until(bench, strstr(queue_view(bench->queue)->reason, "not found within") != NULL);
    run_until(bench, atomic_load(&resolver_waits) == 2);
    run_ms(bench, 500);
    assert_int_equal(atomic_load(&resolver_waits), 2); /* one for each connection */
    tear_down(bench);
    assert_int_equal(atomic_load(&resolver_waits), 2);
    release_resolver();
}

TEST(test_addresses)
{
    static char host_256[320], hosts_256[320], host_too_long[320], socket_200[320], master_128[320];
    static const struct {
        const char *text;
        bool good;
    } cases[] = {
        {"localhost:6379", true}, {"localhost", true}, {"127.0.0.1:1", true}, {"[::1]:6379", true},
        {"[::1]", true}, {"unix:/run/redis.sock", true}, {"h:65535", true},
        {"h:65536", false}, {"h:0", false}, {"h:", false}, {"h:6a", false}, {":1", false},
        {"", false}, {"::1", false}, {"[::1", false}, {"[]:1", false}, {"[::1]x", false},
        {"unix:relative", false}, {"http://h:1", false}, {"redis://h:1", true},
        {"a:1,b:2,[::1]:3", true}, {"a,b", true}, {"a:1,", false}, {",a:1", false},
        {"a:1,,b:1", false}, {"a:1,unix:/s", false}, {"a:1, b:1", true},
        {"a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a", true}, {"a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a", false},
        {"sentinel://m@h", true}, {"sentinel://m@h:1,[::1],g:2", true},
        {"sentinel://m@unix:/s", false}, {"sentinel://h:1", false}, {"sentinel://@h:1", false},
        {"sentinel://m@", false}, {"sentinel://m@h:x", false}, {"sentinel://", false},
        {"/run/redis.sock", false},
        {host_256, false}, {hosts_256, false}, {host_too_long, false}, {socket_200, false},
        {master_128, false},
    };
    uv_loop_t loop;
    snprintf(host_256, sizeof host_256, "%0256d:1", 0);
    snprintf(hosts_256, sizeof hosts_256, "a:1,%0256d:1", 0);
    snprintf(host_too_long, sizeof host_too_long, "%0300d:1", 0);
    snprintf(socket_200, sizeof socket_200, "unix:/%0200d", 0);
    snprintf(master_128, sizeof master_128, "sentinel://%0128d@h:1", 0);
    uv_loop_init(&loop);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct options config = {.redis = (char *)cases[i].text, .namespace = "t"};
        struct queue_events events = {0};
        struct error error = {0};
        struct queue *queue = queue_create(&loop, &config, "i", &events, &error);
        if (!queue != !cases[i].good)
            fail_msg("\"%s\": %s", cases[i].text, error.text);
        assert_int_equal(error.status == STATUS_OK, cases[i].good);
        if (queue)
            queue_destroy(queue);
    }
    assert_int_equal(uv_loop_close(&loop), 0);
}

static bool parses(const char *text)
{
    struct redis_address address;
    struct error error = {0};
    bool good = redis_address_parse(&address, text, &error) == STATUS_OK;
    assert_true(good == (error.status == STATUS_OK));
    return good;
}

TEST(test_forms_of_urls)
{
    static const char *const good[] = {
        "REDIS://h",     "redis://:p@h:1/0", "redis://u:p@[::1]:1,b:2/15",
        "redis://p@h",   "redis://h/",       "redis://:a%40b@h",
    };
    static const char *const bad[] = {
        "redis://h/x",     "redis://h/1?a=b", "redis://@h", "redis://u:@h",   "redis://:%zz@h",
        "redis://:%4@h",   "redis://:%00@h",  "redis://",   "redis:///1",     "redis://h#f",
        "redis://unix:/s", "sentinels://h",   "rediss://",  "redis://h:0/1",  "redis://h/12345678",
    };
    static const char *const tls[] = {"rediss://h:1", "rediss://:p@a:1,b:2", "sentinels://m@h"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!parses(good[i]))
            fail_msg("%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (parses(bad[i]))
            fail_msg("%s", bad[i]);
    for (size_t i = 0; i < sizeof tls / sizeof *tls; i++)
        assert_true(parses(tls[i]) == HAS_TLS);
}

TEST(test_urls)
{
    struct redis_address address;
    struct error error = {0};
    assert_int_equal(redis_address_parse(&address, "redis://us%65r:p%40%3A:/@[::1]:1,b/12", &error),
                     STATUS_OK);
    assert_string_equal(address.user, "user");
    assert_string_equal(address.password, "p@::/");
    assert_int_equal(address.database, 12);
    assert_int_equal(address.count, 2);
    assert_string_equal(address.endpoints[0].host, "::1");
    assert_string_equal(address.endpoints[1].port, "6379");
    assert_false(address.tls);
    assert_int_equal(redis_address_parse(&address, "h:1", &error), STATUS_OK);
    assert_string_equal(address.password, "");
    assert_int_equal(address.database, -1);
    /* No message has the password, and a build without OpenSSL says what to do. */
    assert_int_equal(redis_address_parse(&address, "redis://u:SECRET@h:0", &error),
                     STATUS_BAD_JOB);
    assert_null(strstr(error.text, "SECRET"));
    error_clear(&error);
    if (!HAS_TLS) {
        assert_int_equal(redis_address_parse(&address, "rediss://h", &error), STATUS_BAD_JOB);
        assert_non_null(strstr(error.text, "built without OpenSSL"));
        assert_non_null(strstr(error.text, "the stunnel recipe of gpuimgd.conf(5)"));
    }
}

/* A URL whose scheme is missing or misspelt may have a user and a password, too. */
TEST(test_passwords_in_wrong_addresses)
{
    static const char *const wrong[] = {
        "user:SECRET@h:6379",
        ":SECRET@h:1",
        "redis:/user:SECRET@h:1",
        "rediss//u:SECRET@h:1",
        "redis;//u:SECRET@h:1",
        "sentinel://u:SECRET@m@h:1",
        "sentinel://m@u:SECRET@h:1",
        "redis://u:SECRET",
        "redis://u:123456",
        "rediss//u:SECRET",
        "unix://u:SECRET@/tmp/x",
        "redis-sentinel://u:SECRET@h:1",
        "valkey://u:SECRET@h:1",
        "redis://u:SECRET@h:1#SECRET",
        "redis://u:SECRET@[h]:1@x:y",
        "h:1,redis://u:SECRET@h:1",
        "u:SECRET,h:1",
        "m@u:SECRET",
    };
    struct redis_address address;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct error error = {0};
        assert_int_equal(redis_address_parse(&address, wrong[i], &error), STATUS_BAD_JOB);
        if (strstr(error.text, "SECRET") || strstr(error.text, "123456"))
            fail_msg("%s", error.text);
    }
    /* What is no secret is shown. */
    struct error error = {0};
    assert_int_equal(redis_address_parse(&address, "fe80::1:6379", &error), STATUS_BAD_JOB);
    assert_non_null(strstr(error.text, "\"fe80::1:6379\" is an IPv6 address"));
    error_clear(&error);
    assert_int_equal(redis_address_parse(&address, "redis://u:SECRET@h:0", &error), STATUS_BAD_JOB);
    assert_non_null(strstr(error.text, "\"h:0\" must end in a port"));
}

TEST(test_servers_on_this_host)
{
    static const struct {
        const char *text;
        bool local;
    } cases[] = {
        {"127.0.0.1:6379", true}, {"127.1.2.3", true}, {"localhost:1", true}, {"[::1]", true},
        {"unix:/run/redis.sock", true}, {"10.0.0.1:6379", false}, {"redis.example:6379", false},
        {"[2001:db8::1]:6379", false}, {"localhost.example", false}, {"[::127.0.0.1]", false},
        {"10.0.0.1,127.0.0.1", true}, {"10.0.0.1,10.0.0.2", false}, {"sentinel://m@[::1]", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct redis_address address;
        struct error error = {0};
        assert_int_equal(redis_address_parse(&address, cases[i].text, &error), STATUS_OK);
        if (redis_address_is_local(&address) != cases[i].local)
            fail_msg("%s is%s local", cases[i].text, cases[i].local ? " not" : "");
    }
}

int main(void)
{
    sem_init(&resolver_release, 0, 0);
    return run_all(.name = "addresses");
}
