/* See table.h. */
#include "table.h"

#include <string.h>

#include "families/checkpoint.h"

static const char *const PRESETS[] = {"pico", "nano", "tiny", "small", "base", "normal", "big"};
enum { N_PRESETS = sizeof PRESETS / sizeof PRESETS[0] };

/* What a key tells, it takes, and the same comes out. */
static void check_keys(const td_model_config *config)
{
    for (size_t i = 0; i < config->family->n_keys; i++) {
        const td_model_key *key = &config->family->keys[i];
        td_model_config copy = *config;
        char value[TD_MODEL_VALUE_BYTES], back[TD_MODEL_VALUE_BYTES];
        assert_true(key->help && key->help[0]);
        assert_true(strcmp(key->section, "model") == 0 || strcmp(key->section, "training") == 0 ||
                    strcmp(key->section, config->family->name) == 0);
        assert_true(key->offset < TD_MODEL_CONFIG_BYTES);
        td_model_config_get(config, i, value);
        check(td_model_config_put(&copy, key->name, value));
        td_model_config_get(&copy, i, back);
        assert_string_equal(value, back);
        assert_memory_equal(&copy.values, &config->values, sizeof copy.values);
    }
}

/* Each learner has a loss and trains something. */
static void check_learners(const td_model_config *config)
{
    const td_family *family = config->family;
    uint64_t sum = 0, all = 0;
    const uint32_t n_learners = td_model_learners(config);
    assert_in_range(family->n_learners, 1, TD_MAX_LEARNERS);
    assert_in_range(n_learners, 1, family->n_learners);
    assert_true(family->judge < n_learners);
    assert_true(family->n_front_ends <= TD_CHECKPOINT_FRONT_ENDS);
    for (uint32_t i = 0; i < n_learners; i++) {
        td_graph *graph;
        assert_true(family->learners[i].name && family->learners[i].name[0]);
        check(td_family_least_graph(config, i, NULL, &graph));
        assert_int_not_equal(td_graph_find_output(graph, "loss").id, 0);
        assert_true(td_graph_parameters(graph) > 0);
        sum += td_graph_parameters(graph);
        td_graph_destroy(graph);
        check(td_family_least_graph(config, i, "*", &graph));
        assert_int_equal(td_graph_parameters(graph), 0);
        td_graph_destroy(graph);
    }
    check(td_family_parameters(config, &all));
    assert_int_equal(sum, all);
    td_graph *graph;
    refuse(TD_ERR_ARGUMENT, family->name, td_family_least_graph(config, n_learners, NULL, &graph));
}

void check_table(const td_family *family)
{
    td_model_config config;
    td_graph *graph;
    assert_ptr_equal(td_family_find(family->name), family);
    if (family->alias) assert_ptr_equal(td_family_find(family->alias), family);
    assert_true(family->help && family->help[0]);
    for (size_t i = 0; i < N_PRESETS; i++) {
        check(td_model_preset(family, PRESETS[i], &config));
        check(td_model_config_check(&config));
    }
    refuse(TD_ERR_CONFIG, "huge|pico", td_model_preset(family, "huge", &config));
    check(td_model_preset(family, "pico", &config));
    check_keys(&config);
    refuse(TD_ERR_CONFIG, "no such key", td_model_config_put(&config, "no such key", "1"));
    if (family->n_learners > 0)
        check_learners(&config);
    else
        refuse(TD_ERR_UNSUPPORTED, family->name, td_family_least_graph(&config, 0, NULL, &graph));
}
