/* See overfit.h. */
#include "train/overfit.h"

#include <math.h>

enum { MOST_ABOVE = 3 };

/* Share by which losses must have risen and fallen: less is chance. */
static const double LEAST_CHANGE = 0.01;

void td_overfit_learn(td_overfit *o, double loss)
{
    o->sum += loss;
    ++o->count;
}

bool td_overfit_judge(td_overfit *o, double figure)
{
    if (!isfinite(figure)) return false;
    if (o->count > 0) o->mean = o->sum / (double)o->count;
    o->sum = 0;
    o->count = 0;
    if (o->n_validations++ == 0 || figure < o->least) {
        o->least = figure;
        o->mean_at_least = o->mean;
        o->n_above = 0;
        return false;
    }
    const bool is_above = figure - o->least > LEAST_CHANGE * fabs(o->least);
    const bool falls = o->mean_at_least - o->mean > LEAST_CHANGE * fabs(o->mean_at_least);
    o->n_above = is_above ? o->n_above + 1 : 0;
    if (o->is_told || !falls || o->n_above < MOST_ABOVE) return false;
    return o->is_told = true;
}
