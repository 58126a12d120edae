/* The list of families, and graphs and stores of any of them. See family.h. Covered by
 * tests/families/test_families.c and tests/model. */
#include "families/family.h"

#include <fnmatch.h>
#include <string.h>

#include "base/error.h"

#define FAMILY(name) extern const td_family td_family_##name;
#include "families/families.def"
#undef FAMILY

static const td_family *const families[] = {
#define FAMILY(name) &td_family_##name,
#include "families/families.def"
#undef FAMILY
};

enum { N_FAMILIES = sizeof families / sizeof *families };

size_t td_family_count(void)
{
    size_t n = N_FAMILIES;
    while (td_more_families && td_more_families[n - N_FAMILIES])
        n++;
    return n;
}

const td_family *td_family_at(size_t i)
{
    return i < N_FAMILIES ? families[i] : td_more_families[i - N_FAMILIES];
}

const td_family *td_family_find(const char *name)
{
    for (size_t i = 0; i < td_family_count(); i++) {
        const td_family *f = td_family_at(i);
        if (strcmp(f->name, name) == 0 || (f->alias && strcmp(f->alias, name) == 0)) return f;
    }
    return NULL;
}

uint32_t td_model_learners(const td_model_config *config)
{
    const td_family *family = config->family;
    return (uint32_t)(family->count_learners ? family->count_learners(&config->values) : family->n_learners);
}

uint32_t td_model_crop_frames(const td_model_config *config)
{
    return config->family->crop_frames ? config->family->crop_frames(&config->values) : 0;
}

size_t td_family_find_part(const td_family *family, const char *name)
{
    size_t best = 0, longest = 0;
    for (size_t i = 0; i < family->n_parts; i++) {
        const size_t bytes = strlen(family->parts[i].prefix);
        if (bytes >= longest && strncmp(name, family->parts[i].prefix, bytes) == 0) {
            best = i;
            longest = bytes;
        }
    }
    return best;
}

bool td_family_is_buffer(const td_family *family, const char *name)
{
    for (const char *const *pattern = family->buffers; pattern != NULL && *pattern != NULL; pattern++)
        if (fnmatch(*pattern, name, 0) == 0) return true;
    return false;
}

td_model_facts td_model_describe(const td_model_config *config)
{
    td_model_facts facts = {0};
    config->family->describe(&config->values, &facts);
    return facts;
}

static td_status limit_key(td_model_config *config, const char *key, uint32_t value, uint32_t most)
{
    char text[16];
    if (value <= most) return TD_OK;
    snprintf(text, sizeof text, "%u", most);
    return td_model_config_put(config, key, text);
}

td_status td_model_limit_speech(td_model_config *config)
{
    const td_model_facts facts = td_model_describe(config);
    TD_CHECK(limit_key(config, "max_tokens", facts.max_tokens, TD_SPEECH_MAX_TOKENS));
    return limit_key(config, "max_frames", facts.max_frames, TD_SPEECH_MAX_FRAMES);
}

/* ---------------------------------------------------------------- graphs */

static size_t count_prefixes(const char *const *prefixes)
{
    size_t n = 0;
    while (prefixes && prefixes[n])
        n++;
    return n;
}

/* The loss is marked and differentiated here, alike for all. */
static td_status finish_graph(td_graph *graph, const td_build *build, td_tensor loss)
{
    const float scale = build->backward_scale != 0 ? build->backward_scale : 1;
    td_graph_output(graph, loss, "loss");
    TD_CHECK(td_graph_status(graph));
    if (build->backward)
        TD_CHECK(build->backward_scaled ? td_graph_backward_scaled(graph, loss, scale)
                                        : td_graph_backward(graph, loss, scale));
    return TD_OK;
}

static td_status check_trained(const td_family *family)
{
    if (family->n_learners > 0) return TD_OK;
    return TD_FAIL(TD_ERR_UNSUPPORTED, "model.family: models of family %s are imported, not trained here",
                   family->name);
}

td_status td_family_build(const td_build *build, td_graph **out)
{
    const td_family *family = build->config->family;
    td_graph *graph = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(check_trained(family));
    TD_FAIL_IF(build->learner >= td_model_learners(build->config), TD_ERR_ARGUMENT, "%s has no learner %u",
               family->name, build->learner);
    const td_learner_row *learner = &family->learners[build->learner];
    TD_FAIL_IF(build->shape.items == 0, TD_ERR_ARGUMENT, "a batch has at least one item");
    TD_TRY(td_model_config_check(build->config));
    if (family->check_shape) TD_TRY(family->check_shape(&build->config->values, &build->shape));
    TD_TRY(td_graph_create(build->seed, &graph));
    td_nn nn = {.graph = graph,
                .trained = {.prefixes = learner->prefixes,
                            .n_prefixes = count_prefixes(learner->prefixes),
                            .frozen = build->freeze}};
    TD_TRY(finish_graph(graph, build, family->build(&nn, build)));
    *out = graph;
    return TD_OK;
fail:
    td_graph_destroy(graph);
    return status;
}

static const td_batch_shape LEAST = {.items = 1, .tokens = 1, .frames = 1, .reference_frames = 1};

td_status td_family_least_graph(const td_model_config *config, uint32_t learner, const char *freeze,
                                td_graph **out)
{
    return td_family_build(
        &(td_build){.config = config, .shape = LEAST, .learner = learner, .freeze = freeze}, out);
}

/* A graph in which nothing is trained. */
static td_status build_frozen(const td_model_config *config, const td_frozen_row *row,
                              const td_batch_shape *shape, td_graph **out, td_tensor *output)
{
    static const char *const NONE[] = {NULL};
    td_graph *graph = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(td_graph_create(0, &graph));
    td_nn nn = {.graph = graph, .trained = {.prefixes = NONE}};
    *output = row->build(&nn, &(td_build){.config = config, .shape = shape ? *shape : LEAST});
    td_graph_output(graph, *output, row->name);
    TD_TRY(td_graph_status(graph));
    *out = graph;
    return TD_OK;
fail:
    td_graph_destroy(graph);
    return status;
}

td_status td_family_frozen_graph(const td_model_config *config, size_t i, const td_batch_shape *shape,
                                 td_graph **out, td_tensor *output)
{
    return build_frozen(config, &config->family->frozen[i], shape, out, output);
}

td_status td_family_predict_graph(const td_model_config *config, const td_batch_shape *shape, td_graph **out,
                                  td_tensor *output)
{
    const td_family *family = config->family;
    const td_frozen_row row = {.name = "predicted_mel", .build = family->predict};
    if (shape && family->check_shape) TD_CHECK(family->check_shape(&config->values, shape));
    return build_frozen(config, &row, shape, out, output);
}

td_status td_family_classify_graph(const td_model_config *config, const td_batch_shape *shape, td_graph **out,
                                   td_tensor *output)
{
    const td_frozen_row row = {.name = "logits", .build = config->family->classify};
    return build_frozen(config, &row, shape, out, output);
}

/* ---------------------------------------------------------------- stores */

td_status td_family_store(td_memory *memory, const td_model_config *config, const char *freeze,
                          const td_store_options *options, td_store **out)
{
    td_graph *graphs[TD_MAX_LEARNERS] = {0};
    const size_t n = td_model_learners(config);
    td_store_options ordered = *options;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(check_trained(config->family));
    ordered.order = config->family->order;
    for (uint32_t i = 0; i < n; i++)
        TD_TRY(td_family_least_graph(config, i, freeze, &graphs[i]));
    TD_TRY(td_store_create_shared(memory, (const td_graph *const *)graphs, n, &ordered, out));
fail:
    for (size_t i = 0; i < n; i++)
        td_graph_destroy(graphs[i]);
    return status;
}

/* A parameter counts once, in the graph of the learner that updates it. */
td_status td_family_parameters(const td_model_config *config, uint64_t *out)
{
    td_graph *graph = NULL;
    td_status status = TD_OK;
    *out = 0;
    for (uint32_t i = 0; i < td_model_learners(config); i++) {
        TD_TRY(td_family_least_graph(config, i, NULL, &graph));
        *out += td_graph_parameters(graph);
        td_graph_destroy(graph);
        graph = NULL;
    }
fail:
    td_graph_destroy(graph);
    return status;
}
