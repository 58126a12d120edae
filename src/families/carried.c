/* See carried.h. */
#include "families/carried.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Without "param." or "state.". */
static const char *get_plain(const char *name)
{
    return strncmp(name, "param.", 6) == 0 || strncmp(name, "state.", 6) == 0 ? name + 6 : name;
}

static bool has_tensor(const td_carried *c, const char *name)
{
    for (size_t i = 0; i < c->n_tensors; ++i) {
        const char *prefix = c->tensors[i].prefix;
        const bool is_spoken =
            *prefix == '\0' || strcmp(prefix, "param.") == 0 || strcmp(prefix, "state.") == 0;
        if (is_spoken && strcmp(get_plain(c->tensors[i].name), name) == 0) return true;
    }
    return false;
}

static bool has_pair(const td_carried *c, const char *key)
{
    for (size_t i = 0; i < c->n_pairs; ++i)
        if (strcmp(c->pairs[i].key, key) == 0) return true;
    return false;
}

/* Files have wide elements before narrow ones, since nothing pads between tensors. */
static void add_of_width(td_checkpoint_tensor_data *to, size_t *n, const td_checkpoint_tensor_data *from,
                         size_t count, size_t bytes)
{
    for (size_t i = 0; i < count; ++i)
        if (td_safetensors_dtype_bytes(from[i].dtype) == bytes) to[(*n)++] = from[i];
}

static td_status join_tensors(const td_checkpoint *rest, td_carried *c)
{
    const td_safetensors *file = rest != NULL ? td_checkpoint_file(rest) : NULL;
    const size_t n_file = file != NULL ? td_safetensors_count(file) : 0;
    td_status status = TD_OK;
    td_checkpoint_tensor_data *further = NULL;
    size_t n_further = 0, n = 0;
    TD_TRY(TD_NEW_ARRAY(&further, n_file + 1));
    for (size_t i = 0; i < n_file; ++i) {
        const td_safetensors_tensor *t = td_safetensors_at(file, i);
        if (!td_checkpoint_is_spoken(t, t->name) || has_tensor(c, get_plain(t->name))) continue;
        td_checkpoint_tensor_data *to = &further[n_further++];
        *to = (td_checkpoint_tensor_data){.prefix = "",
                                          .name = t->name,
                                          .dtype = t->dtype,
                                          .rank = t->rank,
                                          .data = t->data,
                                          .bytes = t->bytes};
        memcpy(to->dims, t->dims, sizeof to->dims);
    }
    TD_TRY(TD_NEW_ARRAY(&c->all_tensors, c->n_tensors + n_further + 1));
    for (size_t bytes = sizeof(uint64_t); bytes > 0; bytes /= 2) {
        add_of_width(c->all_tensors, &n, c->tensors, c->n_tensors, bytes);
        add_of_width(c->all_tensors, &n, further, n_further, bytes);
    }
    c->tensors = c->all_tensors;
    c->n_tensors = n;
fail:
    free(further);
    return status;
}

static td_status join_pairs(const td_checkpoint *rest, td_carried *c)
{
    td_status status = TD_OK;
    td_safetensors_pair *kept = NULL;
    size_t n_kept, n = c->n_pairs;
    TD_TRY(td_checkpoint_list_kept(rest, &kept, &n_kept));
    TD_TRY(TD_NEW_ARRAY(&c->all_pairs, c->n_pairs + n_kept + 1));
    if (n > 0) memcpy(c->all_pairs, c->pairs, n * sizeof *c->pairs);
    for (size_t i = 0; i < n_kept; ++i)
        if (!has_pair(c, kept[i].key)) c->all_pairs[n++] = kept[i];
    c->pairs = c->all_pairs;
    c->n_pairs = n;
fail:
    free(kept);
    return status;
}

td_status td_carried_join(const td_checkpoint *rest, td_carried *c)
{
    TD_CHECK(join_tensors(rest, c));
    return rest != NULL ? join_pairs(rest, c) : TD_OK;
}

void td_carried_free(td_carried *c)
{
    free(c->all_pairs);
    free(c->all_tensors);
}

uint64_t td_carried_bytes(const td_checkpoint *rest)
{
    const td_safetensors *file = td_checkpoint_file(rest);
    uint64_t bytes = 0;
    for (size_t i = 0; i < td_safetensors_count(file); ++i) {
        const td_safetensors_tensor *t = td_safetensors_at(file, i);
        if (td_checkpoint_is_spoken(t, t->name)) bytes += t->bytes;
    }
    return bytes;
}

bool td_carried_has(const td_checkpoint *rest, const char *name)
{
    char whole[TD_SAFETENSORS_MAX_NAME_BYTES + 8];
    snprintf(whole, sizeof whole, "param.%s", name);
    return td_safetensors_find(td_checkpoint_file(rest), whole) != NULL ||
           td_safetensors_find(td_checkpoint_file(rest), name) != NULL;
}
