// config_units: units of bounds in the tables of settings: bytes and milliseconds. For *_settings.c
// alone.
#ifndef CULVERT_BASE_CONFIG_CONFIG_UNITS_H
#define CULVERT_BASE_CONFIG_CONFIG_UNITS_H

#define KIB    1024ll
#define MIB    (1024ll * KIB)
#define GIB    (1024ll * MIB)
#define SECOND 1000ll
#define MINUTE (60ll * SECOND)
#define DAY    (24ll * 60 * MINUTE)

#endif
