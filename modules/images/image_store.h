// image_store: what CI knows about images: how they were built, their layers, and the registries they were pushed to.
// Every write may be repeated and in any order: it is keyed by what it is about.
#ifndef CULVERT_MODULES_IMAGES_IMAGE_STORE_H
#define CULVERT_MODULES_IMAGES_IMAGE_STORE_H

#include "storage/sql/store.h"

// runtime: whose token writes; empty for a user. A runtime changes only what it was the first to report: the rest is
// ERROR_FORBIDDEN, or no such image for image_store_patch.
// fields: the members of the contract's input types as a JSON object without nulls; the caller has checked them.
// node: the image with the names of ImageBinaryInput.
void image_store_put(struct pg *pg, const char *account_id, struct str runtime, struct str image_id, struct str fields,
                     store_node_done on_done, void *arg);
// image_id or image_name may be empty, not both. The empty node: there is no such image.
void image_store_patch(struct pg *pg, const char *account_id, struct str runtime, struct str image_id,
                       struct str image_name, struct str fields, store_node_done on_done, void *arg);
// layer_digests (may be empty) and layers: JSON arrays. node: accountId, created, image, layerDigests, layers.
void image_store_put_layers(struct pg *pg, const char *account_id, struct str runtime, struct str image,
                            struct str layer_digests, struct str layers, store_node_done on_done, void *arg);
// A place of an image, by its registry's domain and its name there. node: the names of ImageRegistryInput.
void image_store_put_registry(struct pg *pg, const char *account_id, struct str runtime, struct str image_id,
                              struct str fields, store_node_done on_done, void *arg);

#endif
