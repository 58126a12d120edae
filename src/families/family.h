/* A family of models is one table: what it is configured with, what its graphs are, who learns what, how it
 * speaks. Everybody else asks the table and knows no family by its name. docs/adding_a_family.md walks
 * through one. Covered by tests/families.
 *
 * Graphs name their inputs as batches name their features (data/batch.h) and mark what they make as outputs:
 *
 *   loss              [1]: what the learner minimises; loss.TERM: its terms, without weights
 *   predicted_mel     [B, T, n_mels]
 *   attention         [B, steps, L], or index uint [B, T]: what is shown as the alignment
 *
 * An input of one element that no batch has is a number that changes as training goes on: `scalar` tells it.
 */
#ifndef TD_FAMILIES_FAMILY_H
#define TD_FAMILIES_FAMILY_H

#include "audio/mel_config.h"
#include "data/batch.h"
#include "data/reference.h"
#include "graph/optimizer.h"
#include "graph/schedule.h"
#include "nn/nn.h"

typedef struct td_family td_family;

/* ---------------------------------------------------------------- configuration */

typedef enum td_key_type {
    TD_KEY_COUNT,  /* uint32_t */
    TD_KEY_NUMBER, /* float */
    TD_KEY_FLAG,   /* bool */
    TD_KEY_CHOICE, /* uint32_t: which of the choices */
    TD_KEY_SET     /* uint32_t: a bit for each of the choices; "l1,huber" */
} td_key_type;

/* A key of an INI file, and the member of the family's own struct that holds its value. */
typedef struct td_model_key {
    const char *section; /* "model", or the family's name: part of checkpoints; "training": of a run alone */
    const char *name, *help;
    td_key_type type;
    size_t offset;
    double least, most;
    bool is_shape;       /* another value means other parameters, so a checkpoint does not fit */
    bool may_lack;       /* older files do not have it, and mean what presets have */
    const char *choices; /* "l1|mse|huber" */
} td_model_key;

enum { TD_MODEL_CONFIG_BYTES = 320, TD_MODEL_VALUE_BYTES = 32 };

/* A family with values for all its keys. A value to be copied. */
typedef struct td_model_config {
    const td_family *family;
    union {
        double aligned;
        unsigned char bytes[TD_MODEL_CONFIG_BYTES]; /* the family's own struct */
    } values;
} td_model_config;

/* A row of a table of keys: struct, COUNT, NUMBER or FLAG, member, least, most, is_shape, help. */
#define TD_MODEL_KEY(struct_, type_, name_, least_, most_, is_shape_, help_)                                 \
    {                                                                                                        \
        .section = "model", .name = #name_, .help = help_, .type = TD_KEY_##type_,                           \
        .offset = offsetof(struct_, name_), .least = least_, .most = most_, .is_shape = is_shape_            \
    }

/* One of the presets, "pico" to "big"; "normal" is "base". TD_ERR_CONFIG names them. */
td_status td_model_preset(const td_family *family, const char *name, td_model_config *out);

/* TD_ERR_CONFIG with the key, its value and what it can be. */
td_status td_model_config_check(const td_model_config *config);

/* One value as text, such that it reads back the same: "128", "0.1", "true", "l1". */
void td_model_config_get(const td_model_config *config, size_t key, char out[TD_MODEL_VALUE_BYTES]);

/* TD_ERR_CONFIG for an unknown key (with the nearest) or a value that it cannot have. */
td_status td_model_config_put(td_model_config *config, const char *key, const char *value);

/* The first key whose values differ and change parameters; the family's count of keys if there is none. Both
 * are of one family. */
size_t td_model_config_differ(const td_model_config *a, const td_model_config *b);

/* What the data says about a model. */
typedef struct td_data_facts {
    uint32_t n_symbols, n_speakers, n_mels;
    uint32_t max_tokens, max_frames; /* 0: not known */
    double tokens, frames;           /* of all rows together */
    const td_mel_config *mel;        /* the run's front end; NULL: the usual one */
    bool has_predictions;            /* batches have predicted_mel (data/loader.h) */
} td_data_facts;

/* What others must know of a model. */
typedef struct td_model_facts {
    uint32_t n_symbols, n_speakers, n_mels, max_tokens, max_frames;
    uint32_t frames_per_step; /* of a model that makes several at once; 0: 1 */
    uint32_t reach;           /* frames at each side that a step of `classify` depends on */
    bool takes_reference;     /* a recording that tells the speaker */
    td_slice slice; /* of the recording itself that does so in training; most 0: another recording does */
    bool sets_speed, sets_pitch, sets_energy; /* in speech, as wished */
    bool is_romanized;                        /* it reads what text/romanize.h writes */
    const uint16_t
        *piece_characters; /* by language: sentences share a piece of at most so many; NULL: they do not */
} td_model_facts;
td_model_facts td_model_describe(const td_model_config *config);

/* What is spoken in one piece at most, whatever the model bears: a voice's tables of positions are made this
 * long, and a small file that asks for a million costs no memory. A text is split to it. */
enum { TD_SPEECH_MAX_TOKENS = 4096, TD_SPEECH_MAX_FRAMES = 8192 };
td_status td_model_limit_speech(td_model_config *config);

/* Learners of a run with this config; 0: it is not trained here. */
uint32_t td_model_learners(const td_model_config *config);

/* 0: whole recordings. */
uint32_t td_model_crop_frames(const td_model_config *config);

/* ---------------------------------------------------------------- graphs and learners */

/* What a graph is built for. */
typedef struct td_build {
    const td_model_config *config;
    td_batch_shape shape;
    uint32_t learner;     /* whose graph: its number in the family's list */
    uint64_t seed;        /* of dropout */
    bool dropout;         /* off: none at all, as for validation, dumps and comparisons */
    bool backward;        /* append gradients; forward-only plans of such a graph are possible too */
    bool backward_scaled; /* gradients are larger by the store's loss scale (td_graph_backward_scaled) */
    float backward_scale; /* 1 / micro-batches of a step; 0: 1 */
    bool weighs;        /* means over frames, tokens or steps are multiplied by the batch's share of them (an
                             input td_share_name()), so that a step's batches are as one large batch */
    const char *freeze; /* patterns of parameters that are not trained; NULL: none */
} td_build;

/* How fast a learner goes, and with which optimizer. */
typedef struct td_pace {
    td_schedule schedule;
    td_optimizer_options optimizer;
} td_pace;

typedef struct td_learner_row {
    const char *name;            /* before its metrics, where a family has several learners */
    const char *const *prefixes; /* of the parameters it updates, ended by NULL; NULL: all */
    void (*adjust)(const void *values, td_pace *pace); /* what differs from the run's; NULL: nothing */
} td_learner_row;

/* A further front end: batches then have the features NAME and NAME_counts (data/loader.h). */
typedef struct td_front_end_row {
    const char *name;
    td_mel_config (*config)(const void *values);
} td_front_end_row;

/* A part that nobody trains: the data device runs it on features of a batch, and what it makes is the feature
 * `name`. Its inputs are named as features too. Its parameters are in checkpoints as the others are, so they
 * come from the file that a run goes on from or is initialised from. */
typedef struct td_frozen_row {
    const char *name;
    td_tensor (*build)(td_nn *nn, const td_build *build); /* for build->shape; returns what it makes */
    bool is_kept; /* what it makes of a recording is kept on the disk (data/loader.h) */
} td_frozen_row;

/* A key of runs ("training.lr"), and the value that it has where nobody says another. */
typedef struct td_usual {
    const char *key, *value;
} td_usual;

typedef struct td_part {
    const char *name, *prefix; /* a sub-model, and how the names of its tensors begin; "": the others */
} td_part;

/* What is told of a graph that makes samples. */
typedef struct td_wave_facts {
    uint32_t rate, hop;    /* samples a second, and of a frame */
    uint32_t first_frames; /* that the first samples of a stream are made of */
} td_wave_facts;

struct td_speaker_class;
struct td_vocode_class;
struct td_importer;
struct td_talker_class;
struct td_listener_class;

struct td_family {
    const char *name, *help;
    const char *alias; /* what 0.1 called it; NULL: it had none */
    const td_part *parts;
    size_t n_parts;
    const char *const
        *buffers; /* patterns of tensors of imported files that are no parameters, ended by NULL;
                                   NULL: there are none */
    const char *const
        *order; /* of parameters in stores and files (td_store_options); NULL: as graphs use them */
    const td_model_key *keys;
    size_t n_keys;
    const td_learner_row *learners;
    size_t n_learners; /* 0: it is not trained here; td_model_learners() tells who learns */
    td_mel_config (*mel)(const void *values); /* the front end of "mel" in training; NULL: the usual one */
    const td_front_end_row *front_ends;       /* besides that of "mel" */
    size_t n_front_ends;
    const td_frozen_row *frozen;
    size_t n_frozen;
    bool carries; /* voices hold tensors that no graph of training has: checkpoints take them, and what
                             else the file says, from the one that a run began with */
    size_t judge; /* the learner whose loss says which checkpoint is the best */
    uint64_t least_steps;      /* updates from nothing that a voice took to be understood, as measured; 0: not
                             known, or so few that nobody has to be told */
    const char *symbol_table;  /* names of the parameters with a row for each symbol and speaker; */
    const char *speaker_table; /* NULL: it has none */

    /* `values` is the family's own struct. */
    void (*preset)(uint32_t size, void *values); /* pico: 0, nano, tiny, small, base, big: 5 */
    td_status (*check)(const void *values);      /* what ranges do not say; may be NULL */
    void (*describe)(const void *values, td_model_facts *out);
    /* Fits values to the data; `old`: those of a run that goes on, or NULL. */
    void (*fit)(const td_data_facts *facts, const void *old, void *values);
    /* What it is usually trained with, ended by a key that is NULL. NULL: as every family. */
    const td_usual *(*usual)(const void *values);
    /* How many of the learners there are with these values: the first ones. NULL: all. */
    size_t (*count_learners)(const void *values);
    /* The part of a shape that graphs depend on; TD_ERR_LIMIT for one that is too large. May be NULL. */
    td_status (*check_shape)(const void *values, const td_batch_shape *shape);
    /* Frames of the crops that batches are made of, with the feature `wave`; NULL: whole recordings. */
    uint32_t (*crop_frames)(const void *values);
    /* Builds the graph of build->learner, marks its outputs and returns the loss. */
    td_tensor (*build)(td_nn *nn, const td_build *build);
    /* A spectrogram [B, T, n_mels] of a batch along the timing of its recordings, not trained: what the model would
     * say with their durations. NULL: it cannot. */
    td_tensor (*predict)(td_nn *nn, const td_build *build);
    /* Logits [B, steps, n_symbols] of the spectrograms "mel" [B, T, n_mels], steps = T / frames_per_step rounded up: which
     * symbol begins at a step; 0: none. NULL: it cannot. */
    td_tensor (*classify)(td_nn *nn, const td_build *build);
    /* The value of an input that batches do not have, at a step. NULL: there is none. */
    float (*scalar)(const void *values, const char *input, uint64_t step);
    const struct td_speaker_class *speaker; /* how it speaks (families/speak.h); NULL: it does not */
    const struct td_vocode_class *vocode;   /* how it voices spectrograms (families/vocode.h); NULL: not */
    const struct td_listener_class
        *listener; /* what its vocoder learns from (families/listener.h); or NULL */
    const struct td_talker_class
        *talker; /* how it speaks if it makes samples itself (families/talker.h); or NULL */
    /* The graph that makes samples, its output "wave" [1, samples], of `frames` frames; `out` NULL: only the facts.
     * For measuring it. NULL: models make none. */
    td_status (*wave_graph)(const td_model_config *config, uint32_t frames, td_graph **out,
                            td_wave_facts *facts);
    const struct td_importer *importer; /* files of another program (families/importer.h); NULL: of none */
};

/* Families that a program adds when it is linked: it defines this array, ended by NULL. Programs need not; the
 * tests do, so that they have families of their own without a list that changes while threads read it. */
extern const td_family *const td_more_families[] __attribute__((weak));

/* By name or alias; NULL: there is none. */
const td_family *td_family_find(const char *name);
size_t td_family_count(void);
const td_family *td_family_at(size_t i);

/* The part that a tensor of this name belongs to: the one whose prefix fits longest. */
size_t td_family_find_part(const td_family *family, const char *name);

/* Whether a tensor of this name is no parameter. */
bool td_family_is_buffer(const td_family *family, const char *name);

/* A graph of a learner, its loss called "loss", with gradients if build->backward. *out: owned. */
td_status td_family_build(const td_build *build, td_graph **out);

/* Frozen part i of a config, of which *output is the feature. `shape` NULL: the smallest batch. *out: owned. */
td_status td_family_frozen_graph(const td_model_config *config, size_t i, const td_batch_shape *shape,
                                 td_graph **out, td_tensor *output);

/* The same for what a config's family predicts. */
td_status td_family_predict_graph(const td_model_config *config, const td_batch_shape *shape, td_graph **out,
                                  td_tensor *output);

/* The same for what it takes a spectrogram for: its family has `classify`. */
td_status td_family_classify_graph(const td_model_config *config, const td_batch_shape *shape, td_graph **out,
                                   td_tensor *output);

/* A store for all learners of a config; `freeze` as in td_build. Not filled. *out: owned. */
td_status td_family_store(td_memory *memory, const td_model_config *config, const char *freeze,
                          const td_store_options *options, td_store **out);

/* Elements of all parameters of a config. */
td_status td_family_parameters(const td_model_config *config, uint64_t *out);

/* The graph of a learner for the smallest batch: its inputs and parameters are those of every shape. */
td_status td_family_least_graph(const td_model_config *config, uint32_t learner, const char *freeze,
                                td_graph **out);

#endif
