/* Trains a voice: an INI file, then keys with values that win over it, then the losses as they come.
 *
 *   cc train.c $(pkg-config --cflags --libs tandem) -o train
 *   ./train configs/quickstart.ini training.checkpoint_dir run training.max_minutes 5
 *
 * Built and run by the tests.
 */
#include <inttypes.h>
#include <stdio.h>

#include "tandem/train.h"

static void tell(void *context, const td_training_event *event)
{
    (void)context;
    if (event->kind == TD_TRAINING_STEP && !event->is_progress)
        printf("step %" PRIu64 ": loss %.4f\n", event->step, td_training_event_value(event, "loss"));
    if (event->kind == TD_TRAINING_SAVED) printf("saved %s\n", event->path);
}

int main(int argc, char **argv)
{
    td_training *training;
    td_training_result result = {.size = sizeof result};
    if (argc < 2 || argc % 2 != 0) {
        fprintf(stderr, "usage: train FILE.ini [SECTION.KEY VALUE]...\n");
        return 2;
    }
    if (td_training_create(NULL, &training) != TD_OK) return 1;
    td_status status = td_training_load(training, argv[1]);
    for (int i = 2; i < argc && status == TD_OK; i += 2)
        status = td_training_set(training, argv[i], argv[i + 1]);
    if (status == TD_OK) status = td_training_run(training, tell, NULL);
    if (status == TD_OK) status = td_training_get_result(training, &result);
    if (status == TD_OK)
        printf("%s after step %" PRIu64 ": %s\n", result.reason_text, result.step, result.checkpoint);
    else
        fprintf(stderr, "error: %s\n", td_training_error(training)->message);
    td_training_free(training);
    return status == TD_OK ? 0 : 1;
}
