/* Reads a tokenizer.json (bpe.h). Files come from strangers: every count, length, id and reference is checked
 * before it is used. Covered by tests/text/test_tokenizer.c and tests/fuzz/fuzz_tokenizer_json.c.
 */
#include <cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "text/bpe_internal.h"
#include "text/unicode.h"

static td_status get_id(const cJSON *item, const char *what, int32_t *out)
{
    if (!cJSON_IsNumber(item)) return TD_FAIL(TD_ERR_FORMAT, "%s is not a number", what);
    if (!(item->valuedouble >= 0 && item->valuedouble <= TD_BPE_MAX_ID))
        return TD_FAIL(TD_ERR_LIMIT, "%s is outside 0..%d", what, TD_BPE_MAX_ID);
    *out = (int32_t)item->valuedouble;
    if ((double)*out != item->valuedouble) return TD_FAIL(TD_ERR_FORMAT, "%s is not whole", what);
    return TD_OK;
}

/* Stores a piece's text; *piece: where. */
static td_status keep_text(td_bpe *bpe, const char *text, const char *what, td_bpe_piece *piece)
{
    size_t bytes = strlen(text);
    if (bytes == 0) return TD_FAIL(TD_ERR_FORMAT, "%s is empty", what);
    if (bytes > TD_BPE_MAX_PIECE_BYTES)
        return TD_FAIL(TD_ERR_LIMIT, "%s has %zu bytes, more than %d", what, bytes, TD_BPE_MAX_PIECE_BYTES);
    td_status status = td_unicode_check(text, bytes, NULL);
    if (status != TD_OK) return td_error_context("%s", what);
    piece->text = (uint32_t)bpe->text.size;
    piece->bytes = (uint32_t)bytes;
    return td_buffer_append(&bpe->text, text, bytes);
}

static size_t choose_slots(int count)
{
    size_t slots = 16;
    while (slots < (size_t)count * 2)
        slots *= 2;
    return slots;
}

static td_status check_count(const cJSON *list, int limit, const char *what)
{
    int count = 0;
    for (const cJSON *item = list->child; item != NULL; item = item->next)
        if (++count > limit) return TD_FAIL(TD_ERR_LIMIT, "%s has more than %d entries", what, limit);
    return TD_OK;
}

/* `owner`: which ids are taken, indexed by id. */
static td_status read_vocab(td_bpe *bpe, const cJSON *vocab, bool *owner)
{
    TD_REFUSE_IF(!cJSON_IsObject(vocab), TD_ERR_FORMAT, "model.vocab is missing or not an object");
    TD_CHECK(check_count(vocab, TD_BPE_MAX_PIECES, "model.vocab"));
    bpe->n_piece_slots = choose_slots(cJSON_GetArraySize(vocab));
    TD_CHECK(TD_NEW_ARRAY(&bpe->pieces, bpe->n_piece_slots));
    for (const cJSON *item = vocab->child; item != NULL; item = item->next) {
        td_bpe_piece piece = {0};
        TD_CHECK(get_id(item, "an id of model.vocab", &piece.id));
        TD_REFUSE_IF(owner[piece.id], TD_ERR_FORMAT, "model.vocab has the id %d twice", piece.id);
        owner[piece.id] = true;
        TD_CHECK(keep_text(bpe, item->string, "a piece of model.vocab", &piece));
        td_bpe_piece *slot = td_bpe_piece_slot(bpe, item->string, piece.bytes);
        TD_REFUSE_IF(slot->bytes != 0, TD_ERR_FORMAT, "model.vocab has a piece twice (id %d)", piece.id);
        *slot = piece;
        if (piece.id > bpe->max_id) bpe->max_id = piece.id;
    }
    return TD_OK;
}

/* "a b", or ["a", "b"]: *left and *right are cut out of `scratch`. */
static td_status split_merge(const cJSON *item, td_buffer *scratch, const char **left, const char **right)
{
    const cJSON *first = cJSON_IsArray(item) ? item->child : NULL;
    const cJSON *second = first != NULL ? first->next : NULL;
    td_buffer_clear(scratch);
    if (second != NULL && cJSON_IsString(first) && cJSON_IsString(second) && second->next == NULL) {
        *left = first->valuestring;
        *right = second->valuestring;
        return TD_OK;
    }
    const char *space = cJSON_IsString(item) ? strchr(item->valuestring, ' ') : NULL;
    if (space == NULL) return TD_FAIL(TD_ERR_FORMAT, "an entry of model.merges is not a pair");
    td_status status = td_buffer_append(scratch, item->valuestring, strlen(item->valuestring));
    if (status != TD_OK) return status;
    size_t cut = (size_t)(space - item->valuestring);
    scratch->data[cut] = '\0';
    *left = scratch->data;
    *right = scratch->data + cut + 1;
    return TD_OK;
}

static td_status read_merge(td_bpe *bpe, const cJSON *item, int32_t rank, td_buffer *scratch,
                            td_buffer *joined)
{
    const char *left = NULL;
    const char *right = NULL;
    TD_CHECK(split_merge(item, scratch, &left, &right));
    td_buffer_clear(joined);
    TD_CHECK(td_buffer_append(joined, left, strlen(left)));
    TD_CHECK(td_buffer_append(joined, right, strlen(right)));
    int32_t ids[3] = {td_bpe_find(bpe, left), td_bpe_find(bpe, right), td_bpe_find(bpe, joined->data)};
    TD_REFUSE_IF(ids[0] < 0 || ids[1] < 0 || ids[2] < 0, TD_ERR_FORMAT,
                 "merge %d of model.merges names a piece that model.vocab does not have", rank);
    td_bpe_merge *slot = td_bpe_merge_slot(bpe, ids[0], ids[1]);
    TD_REFUSE_IF(slot->left >= 0, TD_ERR_FORMAT, "merge %d of model.merges is there twice", rank);
    *slot = (td_bpe_merge){.left = ids[0], .right = ids[1], .rank = rank, .id = ids[2]};
    return TD_OK;
}

static td_status read_merges(td_bpe *bpe, const cJSON *merges)
{
    td_status status = TD_OK;
    td_buffer scratch = {0};
    td_buffer joined = {0};
    TD_FAIL_IF(!cJSON_IsArray(merges), TD_ERR_FORMAT, "model.merges is missing or not a list");
    TD_TRY(check_count(merges, TD_BPE_MAX_PIECES, "model.merges"));
    bpe->n_merge_slots = choose_slots(cJSON_GetArraySize(merges));
    TD_TRY(TD_NEW_ARRAY(&bpe->merges, bpe->n_merge_slots));
    for (size_t i = 0; i < bpe->n_merge_slots; ++i)
        bpe->merges[i].left = -1;
    int32_t rank = 0;
    for (const cJSON *item = merges->child; item != NULL; item = item->next)
        TD_TRY(read_merge(bpe, item, rank++, &scratch, &joined));
fail:
    td_buffer_free(&scratch);
    td_buffer_free(&joined);
    return status;
}

static int compare_added(const void *a, const void *b)
{
    const td_bpe_piece *x = a;
    const td_bpe_piece *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static td_status read_added_token(td_bpe *bpe, const cJSON *item, bool *owner)
{
    const cJSON *content = cJSON_GetObjectItemCaseSensitive(item, "content");
    td_bpe_piece *piece = &bpe->added[bpe->n_added];
    TD_REFUSE_IF(!cJSON_IsString(content), TD_ERR_FORMAT, "an entry of added_tokens has no content");
    TD_CHECK(get_id(cJSON_GetObjectItemCaseSensitive(item, "id"), "an id of added_tokens", &piece->id));
    TD_CHECK(keep_text(bpe, content->valuestring, "a token of added_tokens", piece));
    /* The vocabulary may hold the token as well, under the same id. */
    const td_bpe_piece *known = td_bpe_piece_slot(bpe, content->valuestring, piece->bytes);
    bool same = known->bytes != 0 && known->id == piece->id;
    TD_REFUSE_IF(!same && (known->bytes != 0 || owner[piece->id]), TD_ERR_FORMAT,
                 "added_tokens gives the id %d to two tokens, or two ids to one", piece->id);
    owner[piece->id] = true;
    for (size_t i = 0; i < bpe->n_added; ++i) {
        bool twice = bpe->added[i].id == piece->id;
        TD_REFUSE_IF(twice, TD_ERR_FORMAT, "added_tokens has the id %d twice", piece->id);
    }
    bpe->added_start[(unsigned char)content->valuestring[0]] = true;
    if (piece->id > bpe->max_id) bpe->max_id = piece->id;
    ++bpe->n_added;
    return TD_OK;
}

static td_status read_added(td_bpe *bpe, const cJSON *added, bool *owner)
{
    if (added == NULL || cJSON_IsNull(added)) return TD_OK;
    TD_REFUSE_IF(!cJSON_IsArray(added), TD_ERR_FORMAT, "added_tokens is not a list");
    TD_CHECK(check_count(added, TD_BPE_MAX_ADDED, "added_tokens"));
    TD_CHECK(TD_NEW_ARRAY(&bpe->added, (size_t)cJSON_GetArraySize(added) + 1));
    for (const cJSON *item = added->child; item != NULL; item = item->next)
        TD_CHECK(read_added_token(bpe, item, owner));
    qsort(bpe->added, bpe->n_added, sizeof *bpe->added, compare_added);
    return TD_OK;
}

static bool is_absent(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return item == NULL || cJSON_IsNull(item) || cJSON_IsFalse(item) ||
           (cJSON_IsString(item) && item->valuestring[0] == '\0');
}

/* What this reader cannot do must not be in the file. */
static td_status check_features(const cJSON *root, const cJSON *model)
{
    static const char *const refused[] = {"continuing_subword_prefix", "end_of_word_suffix", "byte_fallback",
                                          "ignore_merges"};
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(model, "type");
    TD_REFUSE_IF(!cJSON_IsObject(model), TD_ERR_FORMAT,
                 "there is no model object: this is not a tokenizer.json; take the one that Hugging Face's "
                 "tokenizers save");
    TD_REFUSE_IF(type != NULL && (!cJSON_IsString(type) || strcmp(type->valuestring, "BPE") != 0),
                 TD_ERR_UNSUPPORTED, "model.type is not BPE");
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; ++i) {
        TD_REFUSE_IF(!is_absent(model, refused[i]), TD_ERR_UNSUPPORTED, "model.%s is not supported",
                     refused[i]);
    }
    TD_REFUSE_IF(!is_absent(root, "normalizer"), TD_ERR_UNSUPPORTED, "a normalizer is not supported");
    const cJSON *cut = cJSON_GetObjectItemCaseSensitive(root, "pre_tokenizer");
    const cJSON *how = cJSON_GetObjectItemCaseSensitive(cut, "type");
    TD_REFUSE_IF(!cJSON_IsString(how) || strcmp(how->valuestring, "Whitespace") != 0, TD_ERR_UNSUPPORTED,
                 "the pre_tokenizer is not Whitespace");
    return TD_OK;
}

static td_status read_root(td_bpe *bpe, const cJSON *root)
{
    td_status status = TD_OK;
    bool *owner = NULL;
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(root, "model");
    TD_TRY(check_features(root, model));
    TD_TRY(TD_NEW_ARRAY(&owner, TD_BPE_MAX_ID + 1));
    TD_TRY(td_buffer_append(&bpe->text, "", 0));
    TD_TRY(read_vocab(bpe, cJSON_GetObjectItemCaseSensitive(model, "vocab"), owner));
    TD_TRY(read_merges(bpe, cJSON_GetObjectItemCaseSensitive(model, "merges")));
    TD_TRY(read_added(bpe, cJSON_GetObjectItemCaseSensitive(root, "added_tokens"), owner));
    bpe->fuse_unknown = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(model, "fuse_unk"));
    bpe->unknown = -1;
    const cJSON *unknown = cJSON_GetObjectItemCaseSensitive(model, "unk_token");
    if (cJSON_IsString(unknown)) {
        bpe->unknown = td_bpe_find(bpe, unknown->valuestring);
        TD_FAIL_IF(bpe->unknown < 0, TD_ERR_FORMAT, "model.unk_token is not in the vocabulary");
    }
fail:
    free(owner);
    return status;
}

td_status td_bpe_parse(const char *json, size_t bytes, const char *name, td_bpe **out)
{
    td_status status = TD_OK;
    td_bpe *bpe = NULL;
    cJSON *root = NULL;
    TD_FAIL_IF(bytes > TD_BPE_MAX_FILE_BYTES, TD_ERR_LIMIT,
               "%s: %zu bytes are more than the %d of a tokenizer", name, bytes, TD_BPE_MAX_FILE_BYTES);
    const char *stop = NULL;
    root = cJSON_ParseWithLengthOpts(json, bytes, &stop, 0);
    TD_FAIL_IF(
        root == NULL, TD_ERR_FORMAT,
        "%s: no valid JSON near byte %zu; name a tokenizer.json or vocab.json of Hugging Face's tokenizers",
        name, stop != NULL && stop >= json ? (size_t)(stop - json) : 0);
    TD_TRY(TD_NEW(&bpe));
    status = read_root(bpe, root);
    if (status != TD_OK) {
        td_error_context("%s", name);
        goto fail;
    }
    *out = bpe;
    bpe = NULL;
fail:
    cJSON_Delete(root);
    td_bpe_destroy(bpe);
    return status;
}

td_status td_bpe_open(const char *path, td_bpe **out)
{
    char *json = NULL;
    size_t bytes = 0;
    td_status status = td_file_read(path, TD_BPE_MAX_FILE_BYTES, &json, &bytes);
    if (status == TD_OK) status = td_bpe_parse(json, bytes, path, out);
    free(json);
    return status;
}
