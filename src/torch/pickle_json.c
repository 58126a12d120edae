/* See pickle_json.h. */
#include "torch/pickle_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { MAX_NODES = 100000, MAX_DEPTH = 64 };

typedef struct turn {
    const td_pickle *pickle;
    size_t n_nodes, depth;
} turn;

static td_status make_value(turn *t, td_pickle_id id, cJSON **out);

/* Zero characters end it: no configuration has them. *out: owned, free(). */
static td_status copy_text(const td_pickle_value *value, char **out)
{
    TD_CHECK(TD_NEW_ARRAY(out, (size_t)value->n + 1));
    memcpy(*out, value->as.bytes, value->n);
    return TD_OK;
}

static td_status make_text(const td_pickle_value *value, cJSON **out)
{
    td_status status = TD_OK;
    char *text = NULL;
    TD_TRY(copy_text(value, &text));
    *out = cJSON_CreateString(text);
fail:
    free(text);
    return status;
}

static td_status fill_list(turn *t, const td_pickle_value *value, cJSON *list)
{
    for (size_t i = 0; i < value->n; i++) {
        cJSON *item;
        TD_CHECK(make_value(t, value->as.items[i], &item));
        cJSON_AddItemToArray(list, item);
    }
    return TD_OK;
}

/* Keys that are no text are left out. */
static td_status fill_object(turn *t, const td_pickle_value *value, cJSON *object)
{
    td_status status = TD_OK;
    char *key = NULL;
    for (size_t i = 0; i + 1 < value->n; i += 2) {
        const td_pickle_value *name = td_pickle_get(t->pickle, value->as.items[i]);
        cJSON *item = NULL;
        if (name->kind != TD_PICKLE_TEXT) continue;
        free(key);
        TD_TRY(copy_text(name, &key));
        TD_TRY(make_value(t, value->as.items[i + 1], &item));
        if (!cJSON_AddItemToObject(object, key, item)) {
            cJSON_Delete(item);
            status = TD_FAIL(TD_ERR_HOST_MEMORY, "no memory for a configuration");
            goto fail;
        }
    }
fail:
    free(key);
    return status;
}

static td_status make_container(turn *t, td_pickle_id id, cJSON **out)
{
    td_status status = TD_OK;
    const td_pickle_value *value = td_pickle_get(t->pickle, id);
    TD_FAIL_IF(++t->depth > MAX_DEPTH, TD_ERR_LIMIT, "a configuration in it is nested deeper than %d",
               MAX_DEPTH);
    *out = value->kind == TD_PICKLE_DICT ? cJSON_CreateObject() : cJSON_CreateArray();
    TD_FAIL_IF(*out == NULL, TD_ERR_HOST_MEMORY, "no memory for a configuration");
    TD_TRY(value->kind == TD_PICKLE_DICT ? fill_object(t, value, *out) : fill_list(t, value, *out));
    t->depth--;
    return TD_OK;
fail:
    cJSON_Delete(*out);
    *out = NULL;
    return status;
}

/* On failure *out is NULL. */
static td_status make_value(turn *t, td_pickle_id id, cJSON **out)
{
    *out = NULL;
    TD_REFUSE_IF(++t->n_nodes > MAX_NODES, TD_ERR_LIMIT, "a configuration in it has more than %d values",
                 MAX_NODES);
    const td_pickle_value *value = td_pickle_get(t->pickle, id);
    if (value->kind == TD_PICKLE_OBJECT) /* what it is configured with is its state */
        value = td_pickle_get(t->pickle, id = value->as.of.c);
    switch (value->kind) {
    case TD_PICKLE_BOOL:
        *out = cJSON_CreateBool(value->as.integer != 0);
        break;
    case TD_PICKLE_INT:
        *out = cJSON_CreateNumber((double)value->as.integer);
        break;
    case TD_PICKLE_FLOAT:
        *out = isfinite(value->as.number) ? cJSON_CreateNumber(value->as.number) : cJSON_CreateNull();
        break;
    case TD_PICKLE_TEXT:
        TD_CHECK(make_text(value, out));
        break;
    case TD_PICKLE_TUPLE:
    case TD_PICKLE_LIST:
    case TD_PICKLE_DICT:
        TD_CHECK(make_container(t, id, out));
        break;
    default:
        *out = cJSON_CreateNull();
    }
    TD_REFUSE_IF(*out == NULL, TD_ERR_HOST_MEMORY, "no memory for a configuration");
    return TD_OK;
}

td_status td_pickle_to_json(const td_pickle *pickle, td_pickle_id id, cJSON **out)
{
    turn t = {.pickle = pickle};
    return make_value(&t, id, out);
}
