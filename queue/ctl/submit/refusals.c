/* refusals.c - images and options that gpuimgctl submit refuses. */
#include <string.h>

#include "conf/clock.h"
#include "queue/ctl/submit/submit.h"

/* The most refused images that messages name: a wrong folder may have thousands. */
#define REFUSALS_SHOWN 10

bool submit_is_late(const struct submit *submit)
{
    return submit->wait && submit->timeout_s > 0 &&
           clock_now_s() - submit->progress.began_s > submit->timeout_s;
}

void submit_refuse(struct submit *submit, const char *name, const struct error *error)
{
    if (submit->progress.refused < REFUSALS_SHOWN)
        ctl_say("%s%s%s", name ? name : "", name ? ": " : "",
                error ? error->text : submit->source.why);
    else if (submit->progress.refused == REFUSALS_SHOWN)
        ctl_say("and so on; further images that are not sent are only counted");
    submit->progress.refused++;
    /* All jobs come from one template, so an error in the first job is in all of them. */
    if (error && submit->progress.sent == 0 && submit->batch.count == 0 && submit->number == 1 &&
        (error->status == STATUS_BAD_JOB || error->status == STATUS_BAD_JSON))
        ctl_usage(submit->ctl, "nothing was sent");
}

void submit_require_pattern(struct submit *submit, uint64_t number)
{
    const struct job_template *template = &submit->template;
    const char *id = template->id && !strchr(template->id, '%') ? template->id : NULL;
    const char *example = template->set.kind == SET_NONE      ? "edges/%n.png"
                          : template->set.kind == SET_ARCHIVE ? "edges/%a.tar"
                          : template->set.kind == SET_FRAMES  ? "edges/%a.webp"
                                                              : "edges/%p.png";
    if (number != 2 || (!template->single && !id))
        return;
    if (template->single)
        ctl_usage(submit->ctl,
                  "all results would be written to %s; a pattern such as %s, "
                  "or a folder, tells them apart",
                  template->single, example);
    ctl_usage(submit->ctl,
              "all jobs would have the id %s; a pattern such as %s-%%i tells them "
              "apart",
              id, id);
}
