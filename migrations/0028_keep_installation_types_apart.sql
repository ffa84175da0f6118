-- older-binaries: work
-- Whether the creator of a runtime stated its installation type. Where it was not stated,
-- installation_type has a value for older binaries, and clients get null: an installer refuses to
-- uninstall what is HELM.
ALTER TABLE culvert.runtimes ADD COLUMN has_installation_type boolean NOT NULL DEFAULT true;
