/* Learning-rate schedules (schedule.h). Covered by tests/unit/test_schedule.c. */
#include "graph/schedule.h"

#include <inttypes.h>
#include <math.h>

#include "base/error.h"

static const double PI = 3.14159265358979323846;

/* Wide enough for any use; inside them no formula leaves the floats: the least rate is MIN_LR / MAX_STEPS. */
static const double MIN_LR = 1e-12;
static const double MAX_LR = 1e9;
static const double MAX_MULTIPLIER = 100;
static const uint64_t MAX_STEPS = UINT64_C(1000000000000);

static const char *const NAMES[TD_SCHEDULE_COUNT] = {
#define TD_SCHEDULE_NAME(upper, name) #name,
    TD_SCHEDULE_LIST(TD_SCHEDULE_NAME)
#undef TD_SCHEDULE_NAME
};

static td_status check_decay(const td_schedule *s)
{
    const char *name = NAMES[s->kind];
    TD_REFUSE_IF(s->decay_steps < 1 || s->decay_steps > MAX_STEPS, TD_ERR_CONFIG,
                 "scheduler %s: decay_steps is %" PRIu64 "; put the updates of the decay, 1 to %" PRIu64,
                 name, s->decay_steps, MAX_STEPS);
    TD_REFUSE_IF(
        !(s->min_lr >= MIN_LR && s->min_lr <= s->lr), TD_ERR_CONFIG,
        "scheduler %s: min_lr is %g, so the rate would end at 0 or above lr; put %g to lr (%g), such as "
        "lr/100",
        name, s->min_lr, MIN_LR, s->lr);
    return TD_OK;
}

td_status td_schedule_check(const td_schedule *s)
{
    TD_REFUSE_IF((unsigned)s->kind >= TD_SCHEDULE_COUNT, TD_ERR_ARGUMENT,
                 "there is no scheduler number %d; correct the calling code", (int)s->kind);
    const char *name = NAMES[s->kind];
    TD_REFUSE_IF(!(s->lr >= MIN_LR && s->lr <= MAX_LR), TD_ERR_CONFIG, "scheduler %s: lr is %g; put %g to %g",
                 name, s->lr, MIN_LR, MAX_LR);
    TD_REFUSE_IF(s->warmup_steps > MAX_STEPS, TD_ERR_CONFIG,
                 "scheduler %s: warmup_steps is %" PRIu64 "; put at most %" PRIu64, name, s->warmup_steps,
                 MAX_STEPS);
    TD_REFUSE_IF(
        s->kind == TD_SCHEDULE_NOAM && s->warmup_steps == 0, TD_ERR_CONFIG,
        "scheduler noam: warmup_steps is 0, but its decay is measured by the warm-up; put 1 or more, such "
        "as 4000, or choose another scheduler");
    if (s->kind == TD_SCHEDULE_COSINE || s->kind == TD_SCHEDULE_EXPONENTIAL) TD_CHECK(check_decay(s));
    TD_REFUSE_IF(
        s->kind == TD_SCHEDULE_EXPONENTIAL && !(s->decay_rate > 0 && s->decay_rate <= 1), TD_ERR_CONFIG,
        "scheduler exponential: decay_rate is %g; put the factor per decay_steps, above 0 and at most 1, "
        "such as 0.96",
        s->decay_rate);
    const double multiplier = s->restart_multiplier;
    TD_REFUSE_IF(
        s->kind == TD_SCHEDULE_COSINE && multiplier != 0 &&
            !(multiplier >= 1 && multiplier <= MAX_MULTIPLIER),
        TD_ERR_CONFIG,
        "scheduler cosine: restart_multiplier is %g, but shrinking periods come to an end; put 1 to %g, or 0 "
        "for no restarts",
        multiplier, MAX_MULTIPLIER);
    return TD_OK;
}

/* Where in its period, 0 to 1, step t after the warm-up is. Periods have the lengths 1, m, m^2, ... in units
 * of decay_steps, so period k begins at (m^k - 1) / (m - 1); k follows from t by the logarithm. */
static double find_restart_phase(const td_schedule *s, uint64_t t)
{
    const double growth = s->restart_multiplier - 1;
    if (growth == 0) return (double)(t % s->decay_steps) / (double)s->decay_steps;
    const double log_m = log1p(growth);
    const double at = (double)t / (double)s->decay_steps;
    const double k = floor(log1p(at * growth) / log_m);
    const double phase = (at - expm1(k * log_m) / growth) / exp(k * log_m);
    /* Rounding may put the first step of a period at the very end of the one before, or just before its
     * start. */
    const double tolerance = 1e-9;
    return phase < 0 || phase > 1 - tolerance ? 0 : phase;
}

static double find_phase(const td_schedule *s, uint64_t t)
{
    if (s->restart_multiplier != 0) return find_restart_phase(s, t);
    return t < s->decay_steps ? (double)t / (double)s->decay_steps : 1;
}

double td_schedule_lr(const td_schedule *s, uint64_t step)
{
    const uint64_t warmup = s->warmup_steps > 0 ? s->warmup_steps : 1;
    if (step < warmup) return s->lr * ((double)step + 1) / (double)warmup;
    const uint64_t t = step - warmup + 1;
    switch (s->kind) {
    case TD_SCHEDULE_NOAM:
        return s->lr * sqrt((double)warmup / ((double)step + 1));
    case TD_SCHEDULE_COSINE:
        return s->min_lr + (s->lr - s->min_lr) * (0.5 + 0.5 * cos(PI * find_phase(s, t)));
    case TD_SCHEDULE_EXPONENTIAL:
        return fmax(s->min_lr, s->lr * pow(s->decay_rate, (double)t / (double)s->decay_steps));
    case TD_SCHEDULE_CONSTANT:
    default:
        return s->lr;
    }
}
