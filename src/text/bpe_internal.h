/* The tables that bpe_json.c fills and bpe.c uses. */
#ifndef TD_TEXT_BPE_INTERNAL_H
#define TD_TEXT_BPE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "text/bpe.h"
#include "text/buffer.h"

/* Open addressing, at most half full; slot 0 of `text` marks an empty one with bytes == 0. */
typedef struct td_bpe_piece {
    uint32_t text; /* offset in td_bpe.text */
    uint32_t bytes;
    int32_t id;
} td_bpe_piece;

typedef struct td_bpe_merge {
    int32_t left, right; /* ids; left == -1: an empty slot */
    int32_t rank;
    int32_t id;
} td_bpe_merge;

struct td_bpe {
    td_buffer text; /* all pieces, one after another */
    td_bpe_piece *pieces;
    size_t n_piece_slots; /* powers of two */
    td_bpe_merge *merges;
    size_t n_merge_slots;
    td_bpe_piece *added; /* longest first */
    size_t n_added;
    bool added_start[256]; /* first bytes of added tokens */
    int32_t unknown;       /* id, or -1: unknown characters are dropped */
    bool fuse_unknown;
    int32_t max_id;
};

/* Where the piece is, or the empty slot where it belongs. */
td_bpe_piece *td_bpe_piece_slot(const td_bpe *bpe, const char *text, size_t bytes);
td_bpe_merge *td_bpe_merge_slot(const td_bpe *bpe, int32_t left, int32_t right);

#endif
