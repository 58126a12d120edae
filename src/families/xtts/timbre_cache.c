/* See timbre_cache.h. A blob is the number of frames, then latents, embedding and spectrogram. */
#include "families/xtts/timbre_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/cache.h"
#include "families/xtts/engine_internal.h"

#define CACHE_KIND "timbre"
#define FORMAT 1u

static td_blob_cache *find_cache(const td_xtts_engine *e)
{
    return td_device_cache(td_memory_device(e->gpt_memory));
}

static td_digest make_key(const td_xtts_engine *e, uint64_t references)
{
    const td_device_info *gpt = td_device_get_info(td_memory_device(e->gpt_memory));
    const td_device_info *decoder = td_device_get_info(td_memory_device(e->decoder_memory));
    const uint64_t facts[] = {FORMAT,
                              references,
                              td_safetensors_header_hash(td_checkpoint_file(e->checkpoint)),
                              td_hash64(gpt->name, strlen(gpt->name)),
                              td_hash64(gpt->driver, strlen(gpt->driver)),
                              td_hash64(decoder->name, strlen(decoder->name)),
                              td_hash64(decoder->driver, strlen(decoder->driver))};
    return td_hash128(facts, sizeof facts);
}

/* Floats of latents and embedding together, and of all. */
static size_t count_fixed(const td_xtts *c)
{
    return (size_t)c->perceiver_latents * c->gpt_n_model_channels + c->d_vector_dim;
}

static size_t count_all(const td_xtts *c, uint32_t frames)
{
    return count_fixed(c) + (size_t)frames * c->n_mels;
}

static td_status copy_out(const td_xtts *c, const float *values, td_xtts_timbre *out)
{
    const size_t latents = count_fixed(c) - c->d_vector_dim, mel = (size_t)out->frames * c->n_mels;
    TD_CHECK(TD_NEW_ARRAY(&out->latents, latents));
    TD_CHECK(TD_NEW_ARRAY(&out->embedding, c->d_vector_dim));
    TD_CHECK(TD_NEW_ARRAY(&out->mel, mel));
    memcpy(out->latents, values, latents * sizeof *values);
    memcpy(out->embedding, values + latents, c->d_vector_dim * sizeof *values);
    memcpy(out->mel, values + latents + c->d_vector_dim, mel * sizeof *values);
    return TD_OK;
}

bool td_xtts_timbre_recall(const td_xtts_engine *engine, uint64_t references, td_xtts_timbre *out)
{
    const td_xtts *c = &engine->c;
    void *data;
    size_t bytes;
    bool is_known = false;
    *out = (td_xtts_timbre){0};
    if (!td_blob_cache_load(find_cache(engine), CACHE_KIND, make_key(engine, references), &data, &bytes))
        return false;
    if (bytes >= sizeof out->frames) {
        memcpy(&out->frames, data, sizeof out->frames);
        is_known = bytes == sizeof(float) * (1 + count_all(c, out->frames)) &&
                   copy_out(c, (const float *)data + 1, out) == TD_OK;
    }
    free(data);
    if (!is_known) td_xtts_timbre_free(out);
    return is_known;
}

void td_xtts_timbre_keep(const td_xtts_engine *engine, uint64_t references, const td_xtts_timbre *timbre)
{
    const td_xtts *c = &engine->c;
    const size_t n = 1 + count_all(c, timbre->frames), latents = count_fixed(c) - c->d_vector_dim;
    float *data;
    if (TD_NEW_ARRAY(&data, n) != TD_OK) return; /* then it is found out again */
    memcpy(data, &timbre->frames, sizeof timbre->frames);
    memcpy(data + 1, timbre->latents, latents * sizeof *data);
    memcpy(data + 1 + latents, timbre->embedding, c->d_vector_dim * sizeof *data);
    memcpy(data + 1 + count_fixed(c), timbre->mel, (size_t)timbre->frames * c->n_mels * sizeof *data);
    td_blob_cache_store(find_cache(engine), CACHE_KIND, make_key(engine, references), data, n * sizeof *data);
    free(data);
}
