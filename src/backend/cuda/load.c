// load - finds the plug-in and refuses one of another build.

#include "backend/cuda/cuda.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const name = "libtutti-cuda.so";

// The folder of a file's path, with its slash; false without one.
static bool folder_of(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash == NULL)
        return false;
    slash[1] = '\0';
    return true;
}

static void *open_in(const char *folder, const char *below)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s%s%s", folder, below, name);
    return access(path, R_OK) == 0
               ? dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)
               : NULL;
}

static void *open_beside(char *path)
{
    if (!folder_of(path))
        return NULL;
    void *plugin = open_in(path, "");
    return plugin != NULL ? plugin : open_in(path, "../lib/");
}

static void *find(void)
{
    char path[PATH_MAX];
    Dl_info info;
    void *plugin = NULL;
    if (dladdr(&name, &info) != 0 && info.dli_fname != NULL) {
        snprintf(path, sizeof path, "%s", info.dli_fname);
        plugin = open_beside(path);
    }
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (plugin == NULL && n > 0) {
        path[n] = '\0';
        plugin = open_beside(path);
    }
    return plugin != NULL ? plugin
                          : dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

tt_status tt__cuda_load(tt__cuda *device_out)
{
    tt__cuda device = {.plugin = find()};
    if (device.plugin == NULL) {
        const char *why = dlerror();
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "device=cuda needs %s, which cannot be loaded (%s): "
                       "build it with make CUDA=1",
                       name, why == NULL ? "not found" : why);
    }
    device.api = dlsym(device.plugin, "tutti_cuda_api");
    if (device.api == NULL || device.api->bytes != sizeof(*device.api) ||
        strcmp(device.api->version, TT_VERSION) != 0) {
        dlclose(device.plugin);
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "%s is of another version than this library: build "
                       "both again",
                       name);
    }
    *device_out = device;
    return TT_OK;
}

void tt__cuda_unload(tt__cuda *device)
{
    if (device->plugin != NULL)
        dlclose(device->plugin);
}
