/* Tests of the keys of a job that describe it: its priority, tag and trace context. */
#include "queue/job/client_labels.h"
#include "queue/job/job.h"
#include "tests/fixtures/job_rows.h"
#include "tests/fixtures/test.h"

TEST(test_priority)
{
#define JOB(value) "{\"input\":\"a\",\"output\":\"b\",\"priority\":" value "}"
    job_expect(JOB("0"), NULL, STATUS_OK, NULL);
    job_expect(JOB("9"), NULL, STATUS_OK, NULL);
    job_expect(JOB("10"), NULL, STATUS_BAD_JOB,
               "priority is 10; it must be an integer from 0 to 9");
    job_expect(JOB("-1"), NULL, STATUS_BAD_JOB, "priority is -1; it must be an integer");
    job_expect(JOB("4.5"), NULL, STATUS_BAD_JOB, "priority is 4.5; it must be an integer");
    job_expect(JOB("\"9\""), NULL, STATUS_BAD_JOB, "priority is \"9\"; it must be an integer");
#undef JOB
}

TEST(test_tag)
{
#define JOB(value) "{\"input\":\"a\",\"output\":\"b\",\"tag\":" value "}"
    static const char fault[] = "it must have 1 to 64 letters, digits and characters of \"._:/@-\"";
    job_expect(JOB("\"web-shop/eu.1:a_b@c\""), NULL, STATUS_OK, NULL);
    job_expect(JOB("\"0123456789012345678901234567890123456789012345678901234567890123\""), NULL,
               STATUS_OK, NULL);
    job_expect(JOB("\"01234567890123456789012345678901234567890123456789012345678901234\""), NULL,
               STATUS_BAD_JOB, fault);
    job_expect(JOB("\"\""), NULL, STATUS_BAD_JOB, fault);
    job_expect(JOB("\"a b\""), NULL, STATUS_BAD_JOB, fault);
    job_expect(JOB("\"\\u00e4\""), NULL, STATUS_BAD_JOB, fault);
    job_expect(JOB("\"a\\u000a\""), NULL, STATUS_BAD_JOB, fault);
    job_expect(JOB("\"<b>\""), NULL, STATUS_BAD_JOB, "tag is \"<b>\"; it must have");
    job_expect(JOB("7"), NULL, STATUS_BAD_JOB, "tag is 7; it must be a string");
    job_expect(JOB("null"), NULL, STATUS_BAD_JOB, "tag is null; it must be a string");
#undef JOB
}

#define TRACE  "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"

TEST(test_traceparent)
{
    static const struct {
        const char *text, *fault;
    } rows[] = {
        {"00-" TRACE "-" PARENT "-01", NULL},
        {"00-" TRACE "-" PARENT "-00", NULL},
        {"00-" TRACE "-" PARENT "-ff", NULL},
        {"cc-" TRACE "-" PARENT "-01", NULL},
        {"cc-" TRACE "-" PARENT "-01-what.the future/brings", NULL},
        {"cc-" TRACE "-" PARENT "-01x", "more than 55 bytes"},
        {"00-" TRACE "-" PARENT "-01-", "more than 55 bytes"},
        {"ff-" TRACE "-" PARENT "-01", "version ff"},
        {"", "hexadecimal"},
        {"00", "hexadecimal"},
        {"00-" TRACE "-" PARENT "-1", "hexadecimal"},
        {"0-" TRACE "-" PARENT "-011", "hexadecimal"},
        {"00-" TRACE "0-" PARENT "-01", "hexadecimal"},
        {"00-" TRACE "-" PARENT "0-01", "hexadecimal"},
        {"00_" TRACE "-" PARENT "-01", "hexadecimal"},
        {"00-0AF7651916CD43DD8448EB211C80319C-" PARENT "-01", "hexadecimal"},
        {"00-" TRACE "-b7ad6b716920333g-01", "hexadecimal"},
        {" 00-" TRACE "-" PARENT "-01", "hexadecimal"},
        {"00-00000000000000000000000000000000-" PARENT "-01", "id of zeros"},
        {"00-" TRACE "-0000000000000000-01", "id of zeros"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *fault = traceparent_fault(rows[i].text);
        if (!fault != !rows[i].fault || (fault && !strstr(fault, rows[i].fault)))
            fail_msg("\"%s\": %s", rows[i].text, fault ? fault : "good");
    }
    struct trace_context context;
    trace_context_read(&context, rows[0].text);
    assert_string_equal(context.trace_id, TRACE);
    assert_string_equal(context.parent_id, PARENT);
    trace_context_read(&context, NULL);
    assert_string_equal(context.trace_id, "");
}

TEST(test_tracestate)
{
    static const struct {
        const char *text, *fault;
    } rows[] = {
        {"a=1", NULL},
        {"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", NULL},
        {"a=1 , b= 2,\tc=3\t", NULL},
        {"a=1,,b=2,", NULL},
        {"0a@b-c=!\"#$%&'()*+-./:;<>?@[\\]^_`{|}~", NULL},
        {"a/b*c_d-e=x y", NULL},
        {"1=2", NULL},
        {"", "no member"},
        {" , ,", "no member"},
        {"a", "not key=value"},
        {"a=", "not key=value"},
        {"=1", "not key=value"},
        {"A=1", "not key=value"},
        {"a=1=2", "not key=value"},
        {"a b=1", "not key=value"},
        {"a@=1", "not key=value"},
        {"a@0=1", "not key=value"},
        {"a@b@c=1", "not key=value"},
        {"@a=1", "not key=value"},
        {"a@abcdefghijklmno=1", "not key=value"},
        {"a=\xc3\xa4", "not key=value"},
        {"a=1\x7f", "not key=value"},
        {"a=1,b=2,a=3", "key twice"},
        {"a0=1,a1=1,a2=1,a3=1,a4=1,a5=1,a6=1,a7=1,b0=1,b1=1,b2=1,b3=1,b4=1,b5=1,b6=1,b7=1,"
         "c0=1,c1=1,c2=1,c3=1,c4=1,c5=1,c6=1,c7=1,d0=1,d1=1,d2=1,d3=1,d4=1,d5=1,d6=1,d7=1",
         NULL},
        {"a0=1,a1=1,a2=1,a3=1,a4=1,a5=1,a6=1,a7=1,b0=1,b1=1,b2=1,b3=1,b4=1,b5=1,b6=1,b7=1,"
         "c0=1,c1=1,c2=1,c3=1,c4=1,c5=1,c6=1,c7=1,d0=1,d1=1,d2=1,d3=1,d4=1,d5=1,d6=1,d7=1,e=1",
         "more than 32"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *fault = tracestate_fault(rows[i].text);
        if (!fault != !rows[i].fault || (fault && !strstr(fault, rows[i].fault)))
            fail_msg("\"%s\": %s", rows[i].text, fault ? fault : "good");
    }
    char text[800] = "a=";
    memset(text + 2, 'x', 256);
    assert_null(tracestate_fault(text));
    text[258] = 'x';
    assert_non_null(tracestate_fault(text));
    memset(text, 'a', 256);
    text[256] = '=';
    text[257] = '1';
    text[258] = '\0';
    assert_null(tracestate_fault(text));
    strcat(text, ",b=1,c=");
    memset(text + strlen(text), 'x', 250);
    assert_non_null(strstr(tracestate_fault(text), "at most 512 bytes"));
}

TEST(test_trace_context_of_jobs)
{
#define JOB(more) "{\"input\":\"a\",\"output\":\"b\"," more "}"
    job_expect(JOB("\"traceparent\":\"00-" TRACE "-" PARENT "-01\",\"tracestate\":\"a=1\""), NULL,
               STATUS_OK, NULL);
    job_expect(JOB("\"traceparent\":1"), NULL, STATUS_BAD_JOB,
               "traceparent is 1; it must be a string");
    job_expect(JOB("\"traceparent\":\"00-1\""), NULL, STATUS_BAD_JOB,
               "traceparent is \"00-1\"; it must be 2, 32, 16 and 2 lower-case hexadecimal digits");
    job_expect(JOB("\"tracestate\":\"a=1\""), NULL, STATUS_BAD_JOB,
               "the job has a tracestate, but no traceparent");
    job_expect(JOB("\"traceparent\":\"\",\"tracestate\":\"a=1\""), NULL, STATUS_BAD_JOB,
               "traceparent is \"\"; it must be");
    job_expect(JOB("\"traceparent\":\"00-" TRACE "-" PARENT "-01\",\"tracestate\":[]"), NULL,
               STATUS_BAD_JOB, "tracestate is []; it must be a string");
#undef JOB
}

TEST_MAIN(.name = "job_labels")
