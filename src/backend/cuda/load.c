// load - finds the plug-in (dlopen), and refuses one of another build, by its version
// and by the size of its table. Nothing else would notice that structs differ.

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

// Whether it is beside the file, or in ../lib; `path` becomes its own.
static bool is_beside(char path[PATH_MAX])
{
    static const char *const below[] = {"", "../lib/"};
    char at[PATH_MAX + 64];
    for (int i = 0; i < 2 && folder_of(path); i++) {
        snprintf(at, sizeof at, "%s%s%s", path, below[i], name);
        if (strlen(at) < PATH_MAX && access(at, R_OK) == 0) {
            memcpy(path, at, strlen(at) + 1);
            return true;
        }
    }
    return false;
}

// The first that is there is it: when it cannot be loaded, the reason is told.
static void *find(void)
{
    char path[PATH_MAX] = "";
    Dl_info info;
    if (dladdr(&name, &info) != 0 && info.dli_fname != NULL)
        snprintf(path, sizeof path, "%s", info.dli_fname);
    bool is_found = is_beside(path);
    if (!is_found) {
        const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
        path[n > 0 ? n : 0] = '\0';
        is_found = is_beside(path);
    }
    return dlopen(is_found ? path : name,
                  RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

// "LIBRARY: cannot open shared object file: ..." names what is missing: the plug-in, or
// what it needs. Anything else is of another version.
static tt_status refuse(const char *why)
{
    static const char absent[] = ": cannot open shared object file";
    const char *end = why != NULL ? strstr(why, absent) : NULL;
    const int n = end != NULL ? (int)(end - why) : 0;
    if (why == NULL || (n >= (int)strlen(name) &&
                        strncmp(end - strlen(name), name, strlen(name)) == 0))
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "device=cuda needs the plug-in %s, which is not here; "
                       "`make cuda` builds it, and device=cpu does without",
                       name);
    if (end != NULL)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "device=cuda needs %.*s, which is not on this machine; "
                       "install %s, or use device=cpu",
                       n, why,
                       strncmp(why, "libcuda.", 8) == 0 ? "NVIDIA's driver"
                                                        : "NVIDIA's library");
    return tt_fail(TT_ERR_UNSUPPORTED,
                   "device=cuda: the plug-in %s does not fit the libraries of "
                   "this machine; build it again here with `make cuda`, or use "
                   "device=cpu",
                   name);
}

tt_status tt__cuda_load(tt__cuda_device *device_out)
{
    tt__cuda_device device = {.plugin = find()};
    if (device.plugin == NULL)
        return refuse(dlerror());
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

void tt__cuda_unload(tt__cuda_device *device)
{
    if (device->plugin != NULL)
        dlclose(device->plugin);
}
