/* The progress line: formatting and cutting, plain output, and a pseudo-terminal (src/base/progress.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/progress.h"
#include "base/text.h"

static void check_line(td_progress_state state, size_t width, const char *expected)
{
    char out[512];
    td_progress_format(&state, width, out, sizeof out);
    assert_string_equal(out, expected);
}

static void test_line_content(void **state)
{
    (void)state;
    check_line((td_progress_state){"load", 42, 100, 0, NULL, 0}, 80, "load  42% 42/100");
    check_line((td_progress_state){"load", 29, 100, 0, "", 0}, 80, "load  29% 29/100");
    check_line((td_progress_state){"load", 0, 0, 0, "", 0}, 80, "load 0");
    check_line((td_progress_state){"load", 50, 100, 12.34, "loss 1.5", 0}, 80,
               "load  50% 50/100  12.3/s  ETA 4.1 s  loss 1.5");
    check_line((td_progress_state){"load", 7, 0, 3, "x", 0}, 80, "load 7  3.0/s  x");
    check_line((td_progress_state){"load", 10, 100, 0.25, "", 0}, 80,
               "load  10% 10/100  4 s each  ETA 6 min 00 s");
    check_line((td_progress_state){"load", 10, 100, 0.25, "", 90}, 80,
               "load  10% 10/100  4 s each  ETA 1 min 30 s");
    check_line((td_progress_state){"load", 10, 0, 0, "", 2.5}, 80, "load 10  ETA 2.5 s");
    check_line((td_progress_state){"load", 100, 100, 2, "", 0}, 80, "load 100% 100/100  2.0/s");
    check_line((td_progress_state){"load", 999999, 1000000, 0, "", 0}, 80, "load  99% 999999/1000000");
    check_line((td_progress_state){NULL, UINT64_MAX, UINT64_MAX, 0, NULL, 0}, 80,
               " 100% 18446744073709551615/18446744073709551615");
}

static void test_line_is_cut_to_the_width(void **state)
{
    (void)state;
    td_progress_state wide = {"load", 42, 100, 0, "tail", 0}; /* "load  42% 42/100  tail": 22 columns */
    check_line(wide, 22, "load  42% 42/100  tail");
    check_line(wide, 21, "load  42% 42/100  ta\xE2\x80\xA6");
    check_line(wide, 5, "load\xE2\x80\xA6");
    check_line(wide, 1, "\xE2\x80\xA6");
    check_line(wide, 0, "");
    /* Two columns each; a mark on the letter before takes none. */
    check_line((td_progress_state){"\xE6\x97\xA5\xE6\x9C\xAC", 1, 0, 0, "", 0}, 6,
               "\xE6\x97\xA5\xE6\x9C\xAC 1");
    check_line((td_progress_state){"\xE6\x97\xA5\xE6\x9C\xAC", 1, 0, 0, "", 0}, 4,
               "\xE6\x97\xA5\xE2\x80\xA6");
    check_line((td_progress_state){"e\xCC\x81", 1, 0, 0, "", 0}, 3, "e\xCC\x81 1");
}

static void test_line_stays_within_the_buffer(void **state)
{
    (void)state;
    td_progress_state line = {"\xC3\xA9\xC3\xA9\xC3\xA9", 1, 0, 0, "\xE6\x97\xA5\xE6\x9C\xAC", 0};
    for (size_t capacity = 0; capacity < 24; ++capacity) {
        char out[32];
        memset(out, '#', sizeof out);
        td_progress_format(&line, 80, out, capacity);
        for (size_t i = capacity; i < sizeof out; ++i)
            assert_int_equal(out[i], '#');
        if (capacity == 0) continue;
        assert_non_null(memchr(out, '\0', capacity));
        for (size_t left = strlen(out), at = 0; left > 0;) { /* whole characters only */
            uint32_t c;
            size_t length = td_text_utf8_next(out + at, left, &c);
            assert_int_not_equal(c, 0xFFFD);
            at += length;
            left -= length;
        }
    }
}

static void test_line_is_harmless(void **state)
{
    (void)state;
    check_line((td_progress_state){"a\nb\x1b[2J\t\x7f", 1, 0, 0, "\xFF\xC2\x9B", 0}, 80, "a b [2J   1  ? ");
}

static void test_plain_lines_are_rare(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    td_progress *progress;
    assert_int_equal(td_progress_create(file, "load", 1000, 3600, &progress), TD_OK);
    for (uint64_t i = 0; i <= 1000; ++i)
        td_progress_update(progress, i, "file %d", (int)i);
    td_progress_clear(progress); /* nothing to take off */
    fflush(file);
    assert_string_equal(text, "load   0% 0/1000  file 0\n");
    td_progress_destroy(progress);
    fclose(file);
    const char *second = strchr(text, '\n') + 1;
    assert_int_equal(strncmp(second, "load 100% 1000/1000  ", 21), 0);
    assert_non_null(strstr(second, "  file 1000\n"));
    assert_null(strchr(text, '\x1b'));
    assert_null(strchr(text, '\r'));
    assert_ptr_equal(strchr(second, '\n') + 1, text + bytes);
    free(text);
}

static void test_plain_lines_come_at_the_interval(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    td_progress *progress;
    assert_int_equal(td_progress_create(file, "load", 0, 0.02, &progress), TD_OK);
    td_progress_update(progress, 0, "%s", "");
    td_clock_sleep_until(td_clock_ns() + 30000000);
    td_progress_update(progress, 10, "%s", "");
    td_progress_destroy(progress); /* the last state is already there */
    fclose(file);
    double rate = 0;
    assert_int_equal(sscanf(text, "load 0\nload 10 %lf/s\n", &rate), 1);
    assert_true(rate > 1 && rate <= 10 / 0.03 + 1);
    assert_ptr_equal(strchr(strchr(text, '\n') + 1, '\n') + 1, text + bytes);
    free(text);
}

static void test_nothing_without_an_update(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    td_progress *progress;
    assert_int_equal(td_progress_create(file, "load", 10, 1, &progress), TD_OK);
    td_progress_destroy(progress);
    td_progress_destroy(NULL);
    fclose(file);
    assert_int_equal(bytes, 0);
    free(text);
}

typedef struct {
    int master;
    FILE *file;
} terminal;

static terminal open_terminal(unsigned short columns)
{
    terminal t = {.master = posix_openpt(O_RDWR | O_NOCTTY)};
    assert_true(t.master >= 0);
    assert_int_equal(grantpt(t.master), 0);
    assert_int_equal(unlockpt(t.master), 0);
    int slave = open(ptsname(t.master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0);
    struct termios settings;
    tcgetattr(slave, &settings);
    cfmakeraw(&settings);
    tcsetattr(slave, TCSANOW, &settings);
    ioctl(t.master, TIOCSWINSZ, &(struct winsize){.ws_col = columns, .ws_row = 24});
    fcntl(t.master, F_SETFL, O_NONBLOCK);
    t.file = fdopen(slave, "w");
    assert_non_null(t.file);
    return t;
}

static void check_shown(const terminal *t, const char *expected)
{
    char out[4096];
    ssize_t got = read(t->master, out, sizeof out - 1);
    out[got > 0 ? got : 0] = '\0';
    assert_string_equal(out, expected);
}

static void wait_for_redraw(void)
{
    td_clock_sleep_until(td_clock_ns() + 120000000);
}

static void test_terminal_line_is_redrawn_and_resized(void **state)
{
    (void)state;
    terminal t = open_terminal(20);
    td_progress *progress;
    assert_int_equal(td_progress_create(t.file, "load", 0, 3600, &progress), TD_OK);
    uint64_t drawn_ns = td_clock_ns();
    td_progress_update(progress, 5, "%s", "some long tail");
    check_shown(&t, "\rload 5  some long \xE2\x80\xA6\x1b[K"); /* 19 of 20 columns */
    td_progress_update(progress, 5, "%s", "too soon");
    if (td_clock_ns() - drawn_ns < 100000000) /* a computer too busy for that has redrawn by right */
        check_shown(&t, "");
    else
        tcflush(t.master, TCIFLUSH);
    wait_for_redraw();
    ioctl(t.master, TIOCSWINSZ, &(struct winsize){.ws_col = 9});
    td_progress_update(progress, 5, "%s", "narrow");
    check_shown(&t, "\rload 5 \xE2\x80\xA6\x1b[K");
    td_progress_clear(progress);
    check_shown(&t, "\r\x1b[K");
    td_progress_clear(progress);
    check_shown(&t, "");
    ioctl(t.master, TIOCSWINSZ, &(struct winsize){.ws_col = 0}); /* not known: 80 */
    td_progress_update(progress, 5, "%s", "at once after a clear");
    check_shown(&t, "\rload 5  at once after a clear\x1b[K");
    td_progress_update(progress, 5, "%s", "last");
    td_progress_destroy(progress);
    check_shown(&t, "\rload 5  last\x1b[K\n");
    fclose(t.file);
    close(t.master);
}

static void *update_often(void *arg)
{
    for (uint64_t i = 0; i < 1000; ++i)
        td_progress_update(arg, i, "%d", (int)i);
    td_progress_clear(arg);
    return NULL;
}

static void test_threads_may_update(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    td_progress *progress;
    pthread_t threads[3];
    assert_int_equal(td_progress_create(file, "load", 1000, 0, &progress), TD_OK);
    for (int i = 0; i < 3; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, update_often, progress), 0);
    for (int i = 0; i < 3; ++i)
        pthread_join(threads[i], NULL);
    td_progress_destroy(progress);
    fclose(file);
    int lines = 0;
    for (const char *at = text; at < text + bytes; at = strchr(at, '\n') + 1) {
        assert_int_equal(strncmp(at, "load ", 5), 0);
        lines++;
    }
    assert_int_equal(lines, 3000);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_content),
        cmocka_unit_test(test_line_is_cut_to_the_width),
        cmocka_unit_test(test_line_stays_within_the_buffer),
        cmocka_unit_test(test_line_is_harmless),
        cmocka_unit_test(test_plain_lines_are_rare),
        cmocka_unit_test(test_plain_lines_come_at_the_interval),
        cmocka_unit_test(test_nothing_without_an_update),
        cmocka_unit_test(test_terminal_line_is_redrawn_and_resized),
        cmocka_unit_test(test_threads_may_update),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
