#include "queue/ctl/screen/running_sets.h"

#include <math.h>
#include <stdio.h>

#include "queue/ctl/out.h"
#include "queue/ctl/show.h"

#define ID_COLUMNS 28

static const cJSON *sets_of(const struct overview_daemon *daemon)
{
    return cJSON_GetObjectItemCaseSensitive(daemon->stats, "sets");
}

size_t running_sets_count(const struct overview *overview)
{
    size_t count = 0;
    for (size_t i = 0; i < overview->daemon_count; i++)
        count += (size_t)cJSON_GetArraySize(sets_of(&overview->daemons[i]));
    return count;
}

static const cJSON *set_at(const struct overview *overview, size_t index)
{
    for (size_t i = 0; i < overview->daemon_count; i++) {
        const cJSON *sets = sets_of(&overview->daemons[i]);
        size_t count = (size_t)cJSON_GetArraySize(sets);
        if (index < count)
            return cJSON_GetArrayItem(sets, (int)index);
        index -= count;
    }
    return NULL;
}

void running_sets_put_titles(void)
{
    out_put("%-10s %-*s %10s %8s %6s", "images of", ID_COLUMNS, "id", "images", "failed", "done");
}

void running_sets_put(const struct overview *overview, size_t index)
{
    const cJSON *set = set_at(overview, index);
    char job[48], id[ID_COLUMNS + 1], images[SHOW_BYTES], failed[SHOW_BYTES];
    double percent = 100 * fmin(fmax(show_number(set, "fraction"), 0), 1);
    if (cJSON_HasObjectItem(set, "shard"))
        snprintf(job, sizeof job, "%.0f:%.0f", show_number(set, "shard"), show_number(set, "job"));
    else
        snprintf(job, sizeof job, "%.0f", show_number(set, "job"));
    show_word(set, "id", id, sizeof id);
    out_put("job %-6s %-*s %10s %8s %5.0f%%", job, ID_COLUMNS, *id ? id : "-",
            show_count(show_number(set, "images"), images),
            show_count(show_number(set, "failed"), failed), floor(percent));
}
