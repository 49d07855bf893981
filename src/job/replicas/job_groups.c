// job_groups - see the header.

#include "job/replicas/job_groups.h"

#include "ops/comm/replicas.h"

static bool is_grouped(const tt_exchange *e)
{
    return tt_exchange_outer_policy(e) != NULL && e->group > 0;
}

// ---- levels --------------------------------------------------------------

static void add_level(tt__job_groups *g, const char *axis, int64_t n,
                      const tt_policy_def *policy, const void *params)
{
    g->level[g->n_levels] = (tt_replicas_level){axis, policy, params};
    g->n[g->n_levels++] = n;
    g->replicas *= n;
}

// A level with nobody to agree with is none: one group has the policy inside, groups of
// one replica have the policy between them.
static void find_levels(const tt_exchange *e, tt__job_groups *g)
{
    const char *data = tt_axis_name[TT_AXIS_DATA];
    const tt_policy_def *policy = tt_exchange_policy(e);
    const tt_policy_def *outer = tt_exchange_outer_policy(e);
    const int64_t in = is_grouped(e) ? e->group : e->replicas;
    const int64_t groups = e->replicas / in;
    if (policy->kind == TT_POLICY_SUM)
        g->share = in;
    else if (in > 1)
        add_level(g, groups > 1 ? TT_GROUP : data, in, policy,
                  e->policy_params);
    if (groups > 1)
        add_level(g, data, groups, outer, e->outer.params);
}

void tt__job_groups_of(const tt_job *job, tt__job_groups *groups_out)
{
    const int64_t ranks = job->grid.size[TT_AXIS_DATA];
    tt__job_groups g = {.replicas = 1, .share = 1};
    find_levels(&job->exchange, &g);
    const int64_t top = g.n_levels > 0 ? g.n[g.n_levels - 1] : 1;
    g.data_ranks = ranks < top ? ranks : top;
    g.group_ranks = ranks / g.data_ranks;
    *groups_out = g;
}

// ---- what has no meaning -------------------------------------------------

static tt_status check_settings(const tt_exchange *e)
{
    const tt_policy_def *outer = tt_exchange_outer_policy(e);
    const tt_policy_def *policy = tt_exchange_policy(e);
    if (outer == NULL)
        return tt_fail(TT_ERR_ARG,
                       "exchange.group=%lld without exchange.outer.policy: "
                       "groups would never hear of each other; "
                       "exchange.outer.policy=average would do",
                       (long long)e->group);
    if (e->group == 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.outer.policy=%s without exchange.group: "
                       "nothing says how many replicas a group has; "
                       "exchange.group=2 would do",
                       outer->name);
    if (policy->kind == TT_POLICY_DYNAMIC)
        return tt_fail(TT_ERR_ARG,
                       "exchange.outer.policy=%s with exchange.policy=%s: "
                       "workers that go at their own pace are in no group; "
                       "exchange.policy=allreduce would do",
                       outer->name, policy->name);
    return TT_OK;
}

static bool can_share(int64_t groups, int64_t ranks)
{
    return groups % ranks == 0 || ranks % groups == 0;
}

// The next number of replicas that makes whole groups, two or more, which these ranks
// can carry.
static int64_t next_replicas(const tt_exchange *e, int64_t ranks)
{
    int64_t groups = e->replicas / e->group + 1;
    while (groups < 2 || !can_share(groups, ranks))
        groups++;
    return groups * e->group;
}

static tt_status check_sizes(const tt_job *job, const tt__job_groups *g)
{
    const tt_exchange *e = &job->exchange;
    const int64_t ranks = job->grid.size[TT_AXIS_DATA];
    const int64_t groups = e->replicas / e->group;
    if (e->replicas % e->group != 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.group=%lld does not divide %lld replicas; "
                       "exchange.replicas=%lld would do",
                       (long long)e->group, (long long)e->replicas,
                       (long long)next_replicas(e, ranks));
    if (groups == 1 && g->n_levels == 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.group=%lld with %lld replicas is one group: "
                       "nobody is there to agree with; exchange.replicas=%lld "
                       "would do",
                       (long long)e->group, (long long)e->replicas,
                       (long long)next_replicas(e, ranks));
    if (!can_share(groups, ranks))
        return tt_fail(TT_ERR_ARG,
                       "%lld groups cannot be shared by %lld ranks along data: "
                       "a rank would have parts of two; -n %lld would do",
                       (long long)groups, (long long)ranks, (long long)groups);
    return TT_OK;
}

tt_status tt__job_groups_check(const tt_job *job)
{
    const tt_exchange *e = &job->exchange;
    tt__job_groups g;
    if (e->group == 0 && tt_exchange_outer_policy(e) == NULL)
        return TT_OK;
    TT_TRY(check_settings(e));
    tt__job_groups_of(job, &g);
    TT_TRY(check_sizes(job, &g));
    if (g.n_levels > 1 &&
        tt_policy_is_retimed(g.level[0].policy, g.level[0].params))
        return tt_fail(TT_ERR_ARG,
                       "exchange.adaptive inside groups: each would have a "
                       "period of its own; exchange.outer.adaptive would do");
    for (int i = 0; i < g.n_levels && g.n_levels > 1; i++)
        if (g.level[i].policy->codec != NULL)
            return tt_fail(
                TT_ERR_ARG,
                "exchange.outer.policy=%s with exchange.policy=%s: %s sends "
                "codes between groups that sum gradients inside; "
                "exchange.policy=allreduce would do",
                g.level[1].policy->name, g.level[0].policy->name,
                g.level[i].policy->name);
    if (tt_exchange_is_coded(e) && g.n_levels > 1)
        return tt_fail(TT_ERR_ARG,
                       "exchange.codec=%s with exchange.policy=%s inside "
                       "groups: codes are for what groups send to each other; "
                       "exchange.policy=allreduce would do",
                       tt_exchange_codec(e)->name, tt_exchange_policy(e)->name);
    return TT_OK;
}

// ---- ranks ---------------------------------------------------------------

// Members that divide samples are ranks. Only in exact mode they are blocks, as many as
// there are members, whatever the number of ranks is.
int64_t tt__job_groups_size(const tt_job *job, const tt__job_groups *g)
{
    if (g->n_levels == TT_REPLICAS_LEVELS)
        return g->n[0];
    return job->options.exact ? g->share : g->group_ranks;
}

tt_status tt__job_groups_mesh(const tt_job *job, const tt__job_groups *groups,
                              const char **mesh_out)
{
    return tt_grid_mesh_groups(
        &job->distribution, &job->grid, groups->n[groups->n_levels - 1],
        tt__job_groups_size(job, groups), job->arena, mesh_out);
}

bool tt__job_groups_fold(const tt_job *job, const tt__job_groups *groups,
                         tt_blocks_params *fold_out)
{
    const bool folds_group =
        tt__job_groups_size(job, groups) != groups->group_ranks;
    *fold_out = (tt_blocks_params){.ranks = groups->data_ranks,
                                   .first_axis = folds_group ? TT_GROUP : NULL,
                                   .first_ranks = groups->group_ranks};
    return folds_group || groups->n[groups->n_levels - 1] != groups->data_ranks;
}
