-- older-binaries: work
-- What agents and the platform compare after a reconnect in place of sending everything. content_hash is from now on
-- an entry of the digest tree (tunnel/wire/digest_tree.h): 8 bytes that name the object, 24 that stand for all that its
-- agent said of it last, also when that was refused (then there may be nothing but a deleted row that carries it). What
-- it held until now stood for the manifest alone, so it is forgotten; a row of an agent's without one makes the platform
-- ask for a complete snapshot.
ALTER TABLE culvert.applications DROP COLUMN content_hash;
ALTER TABLE culvert.applications ADD COLUMN content_hash bytea;
ALTER TABLE culvert.resources DROP COLUMN content_hash;
ALTER TABLE culvert.resources ADD COLUMN content_hash bytea;

-- The newest session whose inventory was compared or sent whole: what older ones still have on its way says nothing new
-- and could bring back what is gone.
ALTER TABLE culvert.report_positions ADD COLUMN fence_epoch bigint NOT NULL DEFAULT 0;
