// proxy_application: an Application of Argo CD as the type ProxyApplication has it. Pure.
#ifndef CULVERT_AGENT_PROXY_APPLICATION_H
#define CULVERT_AGENT_PROXY_APPLICATION_H

#include <jansson.h>

json_t *proxy_application(const json_t *application); // new reference

#endif
