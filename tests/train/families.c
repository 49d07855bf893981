// families - see the header. Extents are odd where the model allows it.

#include "families.h"

#include "test.h"

const family families[] = {
    {"gpt",
     {"model=gpt", "model.layers=2", "model.width=24", "model.heads=3",
      "model.vocab=37", "seq=9", "batch=2", NULL},
     false},
    {"llama",
     {"model=llama", "model.layers=2", "model.width=32", "model.heads=4",
      "model.kv_heads=2", "model.ff=40", "model.vocab=37", "seq=9", "batch=2",
      NULL},
     false},
    {"lstm",
     {"model=lstm", "model.layers=2", "model.embed=12", "model.hidden=20",
      "model.vocab=37", "model.dropout=0.2", "seq=7", "batch=3", NULL},
     false},
    {"mlp",
     {"model=mlp", "model.width=33", "model.channels=1", "image=7", "batch=5",
      NULL},
     false},
    {"vit",
     {"model=vit", "model.layers=1", "model.width=24", "model.heads=3",
      "model.ff=40", "model.patch=4", "model.classes=7", "image=12", "batch=2",
      NULL},
     true},
    {"resnet",
     {"model=resnet", "model.depth=18", "model.width=8", "model.classes=7",
      "image=32", "batch=2", NULL},
     true},
    {"vgg",
     {"model=vgg", "model.depth=11", "model.width=8", "model.hidden=16",
      "model.batch_norm=true", "model.classes=7", "image=32", "batch=2", NULL},
     true},
    {0},
};

void family_settings(const family *f, const char *const *more,
                     tt_settings *settings, tt_arena *arena)
{
    for (const char *const *s = f->setting; *s != NULL; s++)
        CHECK_OK(tt_settings_assign(settings, *s, "test", arena));
    for (; *more != NULL; more++)
        CHECK_OK(tt_settings_assign(settings, *more, "test", arena));
}

tt_status family_start(tt_settings *settings, bool poison, tt_job **job_out)
{
    tt_job *job = NULL;
    TT_TRY(tt_job_configure(settings, NULL, &job));
    const tt_status status =
        tt_job_start(job, &(tt_exec_options){.poison = poison});
    if (status != TT_OK)
        tt_job_close(job);
    else
        *job_out = job;
    return status;
}
