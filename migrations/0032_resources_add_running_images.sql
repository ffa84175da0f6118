-- older-binaries: work
-- Of a Pod: the images of its containers that run, as its kubelet reports them:
-- [{"image", "imageID"}]. NULL: not a Pod, or not reported since this column exists.
ALTER TABLE culvert.resources ADD COLUMN running_images jsonb;
