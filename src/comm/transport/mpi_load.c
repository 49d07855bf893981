// mpi_load - which plug-in, and where it is.
//
// The library must be the one whose launcher started this process: another one would
// not find its peers, and each rank would think that it is alone.

#include "comm/transport/mpi.h"
#include "comm/transport/mpi_state.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

static bool is_set(tt_env_fn *get, const char *name)
{
    const char *text = get(name);
    return text != NULL && text[0] != '\0';
}

// Launchers and libraries meet through PMI: Open MPI speaks PMIx, MPICH the others.
const char *tt_mpi_flavour(tt_env_fn *get)
{
    if (is_set(get, "OMPI_COMM_WORLD_RANK"))
        return "openmpi";
    if (is_set(get, "PMI_RANK") || is_set(get, "PMI_FD") ||
        is_set(get, "PMI2_FD"))
        return "mpich";
    return is_set(get, "PMIX_RANK") ? "openmpi" : NULL;
}

tt_status tt_mpi_find(const char *folders, const char *flavour,
                      tt_str *path_out)
{
    const char *at = folders;
    while (at != NULL && *at != '\0') {
        const size_t n = strcspn(at, ":");
        tt_str_clear(path_out);
        tt_str_addf(path_out, "%.*s/libtutti-mpi-%s.so", (int)n, at, flavour);
        if (n > 0 && access(tt_str_text(path_out), R_OK) == 0)
            return TT_OK;
        at += n + (at[n] == ':');
    }
    return tt_fail(TT_ERR_UNSUPPORTED,
                   "an MPI launcher started this rank, but libtutti-mpi-%s.so "
                   "is not in %s: run `make` where that MPI's compiler is "
                   "(`make setup` installs it), or set TUTTI_PLUGINS to its "
                   "folder",
                   flavour, folders == NULL ? "any folder" : folders);
}

// Open MPI's own plug-ins look for symbols of its library among the global ones.
static tt_status load(const char *path, const tt_mpi_api **api_out)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL)
        return tt_fail(TT_ERR_UNSUPPORTED, "%s cannot be loaded: %s", path,
                       dlerror());
    void *symbol = dlsym(library, TT_MPI_PLUGIN);
    tt_mpi_plugin_fn *plugin = NULL;
    memcpy(&plugin, &symbol, sizeof plugin);
    const tt_mpi_api *api = plugin == NULL ? NULL : plugin();
    if (api == NULL || api->version != TT_MPI_API) {
        (void)dlclose(library);
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "%s belongs to another version of tutti", path);
    }
    *api_out = api; // stays loaded: MPI cannot be started twice
    return TT_OK;
}

tt_status tt_mpi_open(const char *folders, const char *flavour, double deadline,
                      tt_comm **comm_out)
{
    tt_str path = {0};
    const tt_mpi_api *api = NULL;
    tt_status status = tt_mpi_find(folders, flavour, &path);
    if (status == TT_OK)
        status = load(tt_str_text(&path), &api);
    if (status == TT_OK)
        status = tt__mpi_open_api(api, deadline, comm_out);
    tt_str_fini(&path);
    return status;
}
