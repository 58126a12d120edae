/* The progress line: composing, cutting to columns, drawing. See progress.h. Covered by
 * tests/unit/test_progress.c. */
#include "base/progress.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"

enum { LINE_BYTES = 1024, TAIL_BYTES = 256, DEFAULT_COLUMNS = 80, PLAIN_COLUMNS = 200 };

#define REDRAW_INTERVAL_S 0.1
#define RATE_MEMORY_S 5.0 /* how far back the shown rate remembers */

struct td_progress {
    pthread_mutex_t lock;
    FILE *file;
    bool is_terminal;
    double interval_s;
    td_progress_state state; /* its tail is `tail` */
    char tail[TAIL_BYTES];
    bool has_state;
    bool is_drawn; /* the last state is on the screen */
    bool is_open;  /* terminal: the cursor stands in our line */
    uint64_t drawn_ns;
    uint64_t sampled_ns; /* the rate's last sample */
    uint64_t sampled_done;
};

typedef struct code_range {
    uint32_t first, last;
} code_range;

static bool is_in(uint32_t c, const code_range *ranges, size_t n)
{
    for (size_t i = 0; i < n; ++i)
        if (c >= ranges[i].first && c <= ranges[i].last) return true;
    return false;
}

/* Columns of a character, the common cases: marks that sit on the letter before take none, East Asian and
 * emoji take two. The C library's table depends on the locale. */
static size_t count_columns(uint32_t c)
{
    static const code_range NONE[] = {{0x300, 0x36F},   {0x483, 0x489},   {0x591, 0x5BD},   {0x610, 0x61A},
                                      {0x64B, 0x65F},   {0x900, 0x902},   {0x93C, 0x93C},   {0x941, 0x948},
                                      {0xE31, 0xE31},   {0xE34, 0xE3A},   {0xE47, 0xE4E},   {0x200B, 0x200F},
                                      {0x202A, 0x202E}, {0x20D0, 0x20FF}, {0x3099, 0x309A}, {0xFE00, 0xFE0F}};
    static const code_range TWO[] = {{0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},
                                     {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},
                                     {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F},
                                     {0x1F680, 0x1F6FF}, {0x1F900, 0x1FAFF}, {0x20000, 0x3FFFD}};
    if (c < 0x300) return 1;
    if (is_in(c, NONE, sizeof NONE / sizeof *NONE)) return 0;
    return is_in(c, TWO, sizeof TWO / sizeof *TWO) ? 2 : 1;
}

/* Copies `text`, made harmless for a terminal, as far as it fits; where it does not, an ellipsis ends it. */
static void fit_line(const char *text, size_t width, char *out, size_t capacity)
{
    static const char ELLIPSIS[] = "\xE2\x80\xA6";
    size_t used = 0, columns = 0;
    size_t cut = 0; /* the last place where the ellipsis still fits */
    for (size_t left = strlen(text); left > 0;) {
        uint32_t c;
        size_t length = td_text_utf8_next(text, left, &c);
        char plain = td_text_is_control(c) ? ' ' : c == 0xFFFD ? '?' : '\0';
        size_t bytes = plain ? 1 : length;
        size_t wide = plain ? 1 : count_columns(c);
        if (columns + wide > width || used + bytes >= capacity) {
            used = cut;
            if (width >= 1 && used + sizeof ELLIPSIS <= capacity) {
                memcpy(out + used, ELLIPSIS, sizeof ELLIPSIS - 1);
                used += sizeof ELLIPSIS - 1;
            }
            break;
        }
        memcpy(out + used, plain ? &plain : text, bytes);
        used += bytes;
        columns += wide;
        if (columns < width && used + sizeof ELLIPSIS <= capacity) cut = used;
        text += length;
        left -= length;
    }
    if (capacity > 0) out[used] = '\0';
}

/* "12.3/s", or for slow work "4.2 s each". */
static void format_rate(double per_second, char out[TD_TEXT_FORMAT_BYTES])
{
    if (per_second >= 1 && per_second < 1e15) {
        uint64_t tenths = (uint64_t)(per_second * 10 + 0.5);
        snprintf(out, TD_TEXT_FORMAT_BYTES, "%" PRIu64 ".%u/s", tenths / 10, (unsigned)(tenths % 10));
    } else {
        char each[TD_TEXT_FORMAT_BYTES];
        td_text_format_duration(1 / per_second, each);
        snprintf(out, TD_TEXT_FORMAT_BYTES, "%.20s each", each);
    }
}

void td_progress_format(const td_progress_state *state, size_t width, char *out, size_t capacity)
{
    char line[LINE_BYTES], share[64], rate[64] = "", left[64] = "";
    char text[TD_TEXT_FORMAT_BYTES];
    if (state->total > 0) {
        double percent = floor(100 * (double)state->done / (double)state->total);
        snprintf(share, sizeof share, "%3.0f%% %" PRIu64 "/%" PRIu64, percent, state->done, state->total);
    } else {
        snprintf(share, sizeof share, "%" PRIu64, state->done);
    }
    if (state->rate_per_second > 0) {
        format_rate(state->rate_per_second, text);
        snprintf(rate, sizeof rate, "  %s", text);
    }
    double left_s = state->left_s;
    if (!(left_s > 0) && state->rate_per_second > 0 && state->done < state->total)
        left_s = (double)(state->total - state->done) / state->rate_per_second;
    if (left_s > 0) {
        td_text_format_duration(left_s, text);
        snprintf(left, sizeof left, "  ETA %s", text);
    }
    bool has_tail = state->tail && *state->tail;
    snprintf(line, sizeof line, "%s %s%s%s%s%s", state->label ? state->label : "", share, rate, left,
             has_tail ? "  " : "", has_tail ? state->tail : "");
    fit_line(line, width, out, capacity);
}

td_status td_progress_create(FILE *file, const char *label, uint64_t total, double plain_interval_s,
                             td_progress **out)
{
    td_status status = TD_NEW(out);
    if (status != TD_OK) return status;
    td_progress *progress = *out;
    pthread_mutex_init(&progress->lock, NULL);
    progress->file = file;
    progress->is_terminal = isatty(fileno(file)) == 1;
    progress->interval_s = progress->is_terminal ? REDRAW_INTERVAL_S : plain_interval_s;
    progress->state = (td_progress_state){.label = label, .total = total, .tail = progress->tail};
    return TD_OK;
}

/* Asked at each drawing, so that a resized window needs no signal. The last column stays free: a character
 * there makes some terminals wrap. */
static size_t find_width(const td_progress *progress)
{
    struct winsize size;
    if (!progress->is_terminal) return PLAIN_COLUMNS;
    if (ioctl(fileno(progress->file), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return DEFAULT_COLUMNS - 1;
    return size.ws_col - 1u;
}

static void draw_line(td_progress *progress, uint64_t now_ns)
{
    char line[LINE_BYTES];
    td_progress_format(&progress->state, find_width(progress), line, sizeof line);
    fprintf(progress->file, progress->is_terminal ? "\r%s\x1b[K" : "%s\n", line);
    fflush(progress->file);
    progress->is_drawn = true;
    progress->is_open = progress->is_terminal;
    progress->drawn_ns = now_ns;
}

/* Smooths exponentially over time, so that uneven updates weigh by how long they took. */
static void sample_rate(td_progress *progress, uint64_t now_ns)
{
    double elapsed_s = (double)(now_ns - progress->sampled_ns) * 1e-9;
    if (elapsed_s <= 0 || progress->state.done < progress->sampled_done) return;
    double rate = (double)(progress->state.done - progress->sampled_done) / elapsed_s;
    double weight = progress->state.rate_per_second > 0 ? 1 - exp(-elapsed_s / RATE_MEMORY_S) : 1;
    progress->state.rate_per_second += weight * (rate - progress->state.rate_per_second);
    progress->sampled_ns = now_ns;
    progress->sampled_done = progress->state.done;
}

void td_progress_update(td_progress *progress, uint64_t done, const char *tail_format, ...)
{
    va_list args;
    va_start(args, tail_format);
    pthread_mutex_lock(&progress->lock);
    vsnprintf(progress->tail, sizeof progress->tail, tail_format, args);
    uint64_t now_ns = td_clock_ns();
    progress->state.done = done;
    progress->is_drawn = false;
    if (!progress->has_state) {
        progress->has_state = true;
        progress->sampled_ns = now_ns;
        progress->sampled_done = done;
        draw_line(progress, now_ns);
    } else if ((double)(now_ns - progress->drawn_ns) * 1e-9 >= progress->interval_s) {
        sample_rate(progress, now_ns);
        draw_line(progress, now_ns);
    }
    pthread_mutex_unlock(&progress->lock);
    va_end(args);
}

void td_progress_tell_left(td_progress *progress, double left_s)
{
    pthread_mutex_lock(&progress->lock);
    progress->state.left_s = isfinite(left_s) ? left_s : 0;
    pthread_mutex_unlock(&progress->lock);
}

void td_progress_clear(td_progress *progress)
{
    pthread_mutex_lock(&progress->lock);
    if (progress->is_open) {
        fputs("\r\x1b[K", progress->file);
        fflush(progress->file);
        progress->is_open = false;
        progress->is_drawn = false;
        progress->drawn_ns = 0;
    }
    pthread_mutex_unlock(&progress->lock);
}

void td_progress_destroy(td_progress *progress)
{
    if (!progress) return;
    if (progress->has_state && !progress->is_drawn) {
        uint64_t now_ns = td_clock_ns();
        sample_rate(progress, now_ns);
        draw_line(progress, now_ns);
    }
    if (progress->is_open) fputc('\n', progress->file);
    fflush(progress->file);
    pthread_mutex_destroy(&progress->lock);
    free(progress);
}
