// images: rows that reports of its kinds write beside those of resources. Private to
// modules/images/.
#ifndef CULVERT_MODULES_IMAGES_IMAGES_H
#define CULVERT_MODULES_IMAGES_IMAGES_H

#include "storage/reports/report_kind.h"

void report_image_plan(struct report_plan *plan, const struct report *report, const json_t *manifest,
                       struct str sha256);

#endif
