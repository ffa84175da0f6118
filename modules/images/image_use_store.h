// image_use_store: which images run where, since when, together with what CI told of them. Reports write.
#ifndef CULVERT_MODULES_IMAGES_IMAGE_USE_STORE_H
#define CULVERT_MODULES_IMAGES_IMAGE_USE_STORE_H

#include "storage/sql/store.h"

// filter_json: ImagesFilterArgs, checked for types by the API. node: type Image, by name.
void image_use_store_list(struct pg *pg, const char *account_id, struct str filter_json, const struct store_page *page,
                          store_slice_done on_done, void *arg);

#endif
