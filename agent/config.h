// agent_config: the table of all settings of the agent. Each section is a struct beside what uses
// it (base/config/config.h, CONFIG_SECTION). Read at start; SIGHUP reads the token file and the CA
// file again, the rest wants a restart.
#ifndef CULVERT_AGENT_CONFIG_H
#define CULVERT_AGENT_CONFIG_H

#include "base/config/config.h"

extern const struct config_table agent_config_table;

#endif
