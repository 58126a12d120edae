/* Checking and mapping of prepared datasets (block.h). */
#include "data/block.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "text/lang.h"
#include "text/tokenizer.h"

static const char MAGIC[8] = {'T', 'D', 'D', 'A', 'T', 'A', '\r', '\n'};

enum { CHECKED_FROM = offsetof(td_block_header, metadata), ALIGNMENT = 64 };

static_assert(sizeof(td_clip) == 64 && sizeof(td_block_row) == 128, "no padding");
static_assert(sizeof(td_block_header) == 168 && CHECKED_FROM == 32, "no padding");

static bool is_inside(const td_block_part *part, size_t item_bytes, size_t block_bytes)
{
    return part->at % ALIGNMENT == 0 && part->at >= sizeof(td_block_header) && part->at <= block_bytes &&
           part->count <= (block_bytes - part->at) / item_bytes;
}

static bool is_text(const td_block_view *view, td_block_text text)
{
    const uint64_t bytes = view->header->strings.count;
    return text.at < bytes && text.bytes < bytes - text.at && view->strings[text.at + text.bytes] == '\0' &&
           strlen(view->strings + text.at) == text.bytes;
}

static bool is_row(const td_block_view *view, const td_block_row *row)
{
    return is_text(view, row->id) && is_text(view, row->text) && row->first_token <= view->n_tokens &&
           row->n_tokens <= view->n_tokens - row->first_token && row->speaker < view->n_speakers &&
           row->lang < TD_LANG_COUNT && row->is_validation <= 1 && row->clip.state < TD_CLIP_STATES &&
           (row->clip.state != TD_CLIP_GOOD || (row->clip.rate_hz > 0 && row->clip.frames > 0));
}

static bool are_parts_sound(const td_block_view *view)
{
    bool sound = is_text(view, view->header->symbols) && view->n_speakers > 0 &&
                 view->header->token_kind <= TD_TOKENS_BPE && view->n_problems <= view->header->n_bad;
    for (size_t i = 0; i < view->n_speakers && sound; ++i)
        sound = is_text(view, view->speakers[i]);
    for (size_t i = 0; i < view->n_problems && sound; ++i)
        sound = is_text(view, view->problems[i].message);
    for (size_t i = 0; i < view->n_rows && sound; ++i)
        sound = is_row(view, &view->rows[i]);
    for (size_t i = 0; i < view->n_tokens && sound; ++i)
        sound = view->tokens[i] >= 0 && (uint32_t)view->tokens[i] < view->header->vocab_size;
    return sound;
}

const char *td_block_open(const void *data, size_t bytes, td_block_view *view)
{
    const td_block_header *h = data;
    const char *base = data;
    if (bytes < sizeof *h) return "it is cut short";
    if (memcmp(h->magic, MAGIC, sizeof MAGIC) != 0) return "it is not a prepared dataset";
    if (h->version != TD_BLOCK_VERSION || h->header_bytes != sizeof *h) return "it is of another version";
    if (h->block_bytes != bytes) return h->block_bytes > bytes ? "it is cut short" : "its size is wrong";
    if (h->checksum != td_hash64(base + CHECKED_FROM, bytes - CHECKED_FROM)) return "its checksum is wrong";
    if (!is_inside(&h->rows, sizeof(td_block_row), bytes) || !is_inside(&h->tokens, sizeof(int32_t), bytes) ||
        !is_inside(&h->problems, sizeof(td_block_problem), bytes) ||
        !is_inside(&h->speakers, sizeof(td_block_text), bytes) || !is_inside(&h->strings, 1, bytes))
        return "its parts overlap its end";
    *view = (td_block_view){
        .header = h,
        .rows = (const td_block_row *)(base + h->rows.at),
        .tokens = (const int32_t *)(base + h->tokens.at),
        .problems = (const td_block_problem *)(base + h->problems.at),
        .speakers = (const td_block_text *)(base + h->speakers.at),
        .strings = base + h->strings.at,
        .n_rows = h->rows.count,
        .n_tokens = h->tokens.count,
        .n_problems = h->problems.count,
        .n_speakers = h->speakers.count,
    };
    return are_parts_sound(view) ? NULL : "its content is not sound";
}

void td_block_seal(void *data, size_t bytes)
{
    td_block_header *h = data;
    memcpy(h->magic, MAGIC, sizeof MAGIC);
    h->version = TD_BLOCK_VERSION;
    h->header_bytes = sizeof *h;
    h->block_bytes = bytes;
    h->checksum = td_hash64((const char *)data + CHECKED_FROM, bytes - CHECKED_FROM);
}

void td_block_map(const char *path, td_data_block *out, td_block_view *view, const char **reason)
{
    struct stat info;
    *out = (td_data_block){0};
    /* O_NONBLOCK: a named pipe in the file's place must not hold us up. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        *reason = errno == ENOENT || errno == ENOTDIR ? "" : strerrordesc_np(errno);
        return;
    }
    *reason = "it is not a regular file";
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
        *reason = "it is cut short";
        void *data = info.st_size > 0
                         ? mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0)
                         : MAP_FAILED;
        if (data != MAP_FAILED) {
            *out = (td_data_block){.data = data, .bytes = (size_t)info.st_size, .is_mapped = true};
            *reason = td_block_open(out->data, out->bytes, view);
            if (*reason != NULL) td_block_release(out);
        }
    }
    close(fd);
}

td_status td_block_make_writable(td_data_block *block, td_block_view *view)
{
    void *copy;
    if (!block->is_mapped) return TD_OK;
    const td_status status = td_alloc_zeroed(1, block->bytes, (void *)&copy);
    if (status != TD_OK) return status;
    memcpy(copy, block->data, block->bytes);
    munmap(block->data, block->bytes);
    *block = (td_data_block){.data = copy, .bytes = block->bytes};
    (void)td_block_open(block->data, block->bytes, view);
    return TD_OK;
}

void td_block_release(td_data_block *block)
{
    if (block->is_mapped)
        munmap(block->data, block->bytes);
    else
        free(block->data);
    *block = (td_data_block){0};
}
