// A kubeconfig: any bytes give an error or a configuration that can be given back.
#include <stdint.h>
#include <stdlib.h>

#include "agent/kube/kube_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct kube_config config;
    struct error err;
    if (kube_config_parse(str_of((const char *)at, len), "/nonexistent", &config, &err) == ERROR_NONE) {
        if (!config.server) abort();
        kube_config_token(&config, 1);
        kube_config_finish(&config);
    }
    // The same bytes as the config of a cluster Secret.
    if (kube_config_of_secret(STR("https://there"), str_of((const char *)at, len), &config, &err) == ERROR_NONE)
        kube_config_finish(&config);
    return 0;
}
