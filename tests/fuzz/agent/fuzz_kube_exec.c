// What an exec plugin prints: any bytes give an error or a credential that can be given back.
#include <stdint.h>
#include <stdlib.h>

#include "agent/kube/kube_exec.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct kube_exec_credential credential;
    struct error err;
    if (kube_exec_credential_read(str_of((const char *)at, len), "client.authentication.k8s.io/v1", &credential,
                                  &err) == ERROR_NONE) {
        if (!credential.token && !credential.key_pem) abort();
        kube_exec_credential_finish(&credential);
    }
    return 0;
}
