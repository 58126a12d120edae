/* libFuzzer target: any bytes as a pickle. What is read must hold together: every id is one of the values, every text
 * lies in the content, and the whole can be walked and made JSON of within limits. Start it with the files of
 * tests/fuzz/corpus/pickle.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "torch/pickle_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void demand(int holds)
{
    if (!holds) abort();
}

static void check_value(const td_pickle *p, const td_pickle_value *value, const uint8_t *content,
                        size_t bytes)
{
    const size_t n = td_pickle_count(p);
    switch (value->kind) {
    case TD_PICKLE_TEXT:
    case TD_PICKLE_BYTES:
    case TD_PICKLE_LONG:
        demand(value->as.bytes >= content && value->as.bytes + value->n <= content + bytes);
        break;
    case TD_PICKLE_TUPLE:
    case TD_PICKLE_LIST:
    case TD_PICKLE_DICT:
        for (uint32_t i = 0; i < value->n; ++i)
            demand(value->as.items[i] > 0 && value->as.items[i] < n);
        demand(value->kind != TD_PICKLE_DICT || value->n % 2 == 0);
        break;
    case TD_PICKLE_GLOBAL:
        demand(td_pickle_get(p, value->as.of.a)->kind == TD_PICKLE_TEXT);
        demand(td_pickle_get(p, value->as.of.b)->kind == TD_PICKLE_TEXT);
        break;
    case TD_PICKLE_OBJECT:
        demand(value->as.of.a < n && value->as.of.b < n && value->as.of.c < n);
        break;
    default:
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    td_pickle *p = NULL;
    cJSON *json = NULL;
    size_t used = 0;
    uint8_t *exact = malloc(bytes > 0 ? bytes : 1); /* so that a byte too far is seen */
    if (!exact) return 0;
    memcpy(exact, data, bytes);
    if (td_pickle_parse(exact, bytes, &used, &p) == TD_OK) {
        demand(used <= bytes && td_pickle_root(p) > 0 && td_pickle_root(p) < td_pickle_count(p));
        for (td_pickle_id id = 1; id < td_pickle_count(p); ++id)
            check_value(p, td_pickle_get(p, id), exact, bytes);
        if (td_pickle_to_json(p, td_pickle_root(p), &json) != TD_OK) demand(json == NULL);
        cJSON_Delete(json);
        (void)td_pickle_find(p, td_pickle_root(p), "model");
    } else {
        demand(p == NULL);
    }
    td_pickle_close(p);
    free(exact);
    return 0;
}
