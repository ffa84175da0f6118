-- older-binaries: work
-- Which runtime's token was the first to write what CI says of images; '' for a user. Other runtimes cannot change it.
-- What is there already may be changed by users only.
ALTER TABLE culvert.images ADD COLUMN runtime text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE culvert.image_layers ADD COLUMN runtime text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE culvert.image_registries ADD COLUMN runtime text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE culvert.annotations ADD COLUMN runtime text COLLATE "C" NOT NULL DEFAULT '';
