/* What frozen parts make of recordings, kept on the disk (loader.h): found by the samples themselves, so that neither a
 * renamed file nor another table makes it again. A part runs unless all items of a batch are found. Zeros at the end of an
 * item are not stored. Covered by tests/data/test_loader.c. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "data/loader_internal.h"

static td_digest make_key(const td_frozen_part *part, const float *samples, size_t count)
{
    td_hasher hasher;
    td_hasher_init(&hasher);
    td_hasher_bytes(&hasher, &part->key, sizeof part->key);
    td_hasher_bytes(&hasher, samples, count * sizeof *samples);
    return td_hasher_digest(&hasher);
}

void td_loader_find_kept(td_loader *loader, td_host_slot *slot, uint32_t index)
{
    const uint32_t *range = slot->head + loader->ranges + 2 * (size_t)index;
    for (size_t i = 0; i < loader->n_features; ++i) {
        const td_loader_feature *f = &loader->features[i];
        if (f->kept == 0) continue;
        td_kept_item *kept = &slot->items[index].kept[f->kept - 1];
        size_t bytes;
        void *values;
        kept->key = make_key(f->row->part, slot->pcm + range[0], range[1]);
        if (!td_blob_cache_load(f->row->part->kept, f->row->name, kept->key, &values, &bytes)) continue;
        kept->values = values;
        kept->count = bytes / sizeof *kept->values;
    }
}

td_status td_loader_make_kept(td_loader *loader, td_host_slot *slot)
{
    for (size_t i = 0; i < loader->n_features; ++i) {
        const td_loader_feature *f = &loader->features[i];
        if (f->kept > 0)
            TD_CHECK(td_memory_alloc(loader->settings.memory, TD_MEMORY_HOST,
                                     4 * td_loader_count_words(loader, f->row, &loader->largest),
                                     &slot->kept_spans[f->kept - 1]));
    }
    return TD_OK;
}

static bool is_found(const td_host_slot *slot, size_t kept, size_t room)
{
    for (uint32_t i = 0; i < slot->shape.items; ++i) {
        const td_kept_item *item = &slot->items[i].kept[kept];
        if (item->values == NULL || item->count > room) return false;
    }
    return true;
}

td_status td_loader_record_kept(td_loader *loader, td_host_slot *slot, const td_batch *batch)
{
    for (size_t i = 0; i < loader->n_features; ++i) {
        const td_loader_feature *f = &loader->features[i];
        if (f->kept == 0) continue;
        const td_span span = slot->kept_spans[f->kept - 1], to = batch->features[i].span;
        const size_t words = to.bytes / 4 / slot->shape.items;
        slot->is_kept[f->kept - 1] = is_found(slot, f->kept - 1, words);
        if (!slot->is_kept[f->kept - 1]) continue;
        for (uint32_t k = 0; k < slot->shape.items; ++k) {
            const td_kept_item *item = &slot->items[k].kept[f->kept - 1];
            uint32_t *at = (uint32_t *)td_span_host(span) + k * words;
            memcpy(at, item->values, item->count * sizeof *at);
            memset(at + item->count, 0, (words - item->count) * sizeof *at);
        }
        pthread_mutex_lock(&loader->lock);
        loader->stats.n_kept += slot->shape.items;
        pthread_mutex_unlock(&loader->lock);
        TD_CHECK(td_list_copy(slot->list, to, td_span_part(span, 0, to.bytes)));
    }
    return TD_OK;
}

bool td_loader_skips_part(const td_host_slot *slot, const td_loader_feature *feature)
{
    return feature->kept > 0 && slot->is_kept[feature->kept - 1];
}

bool td_loader_skips_front_end(const td_loader *loader, const td_host_slot *slot, const char *name)
{
    for (size_t i = 0; i < loader->n_features; ++i) {
        const td_loader_feature *f = &loader->features[i];
        if (strcmp(f->row->name, name) == 0 && !f->is_inner) return false;
        if (f->row->part == NULL || td_loader_skips_part(slot, f)) continue;
        const td_part_plan *plan = td_loader_find_part(loader, f->row->part, &slot->shape);
        if (td_graph_find_input(plan->graph, name).id != 0) return false;
    }
    return true;
}

void td_loader_free_kept(td_load_item *item)
{
    for (size_t k = 0; k < TD_LOADER_KEPT; ++k) {
        free(item->kept[k].values);
        item->kept[k].values = NULL;
    }
}

void td_loader_store_kept(td_loader *loader, td_host_slot *slot)
{
    for (size_t i = 0; i < loader->n_features; ++i) {
        const td_loader_feature *f = &loader->features[i];
        if (f->kept == 0 || td_loader_skips_part(slot, f)) continue;
        const size_t words = td_loader_count_words(loader, f->row, &slot->shape) / slot->shape.items;
        for (uint32_t k = 0; k < slot->shape.items; ++k) {
            const td_kept_item *item = &slot->items[k].kept[f->kept - 1];
            const uint32_t *at = (const uint32_t *)td_span_host(slot->kept_spans[f->kept - 1]) + k * words;
            size_t n = words;
            while (n > 0 && at[n - 1] == 0)
                --n;
            if (item->values == NULL)
                td_blob_cache_store(f->row->part->kept, f->row->name, item->key, at, n * sizeof *at);
        }
    }
    for (uint32_t k = 0; k < slot->shape.items; ++k)
        td_loader_free_kept(&slot->items[k]);
}
