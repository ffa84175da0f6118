-- older-binaries: work
-- Agents of one runtime that keep taking over from each other: until when they count as rivals, and whether the one that
-- asked for an epoch last was told to stand by instead (then it is the time of that, and the epoch stayed).

ALTER TABLE culvert.runtime_epochs
    ADD COLUMN rivals_until timestamptz,
    ADD COLUMN stood_by_at timestamptz;
