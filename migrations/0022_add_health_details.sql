-- older-binaries: work
-- Of a resource: where its health comes from; why it is not at hand though an application names it, and then under which
-- plural its kind is served (the right that is missing names it); what the application says of it besides its sync state.
ALTER TABLE culvert.resources
    ADD COLUMN health_source text COLLATE "C" CHECK (health_source IN ('AGENT', 'ARGOCD_STATUS', 'ARGOCD_TREE')),
    ADD COLUMN presence text COLLATE "C" CHECK (presence IN ('MISSING', 'UNREADABLE', 'UNKNOWN_KIND')),
    ADD COLUMN api_resource text COLLATE "C",
    ADD COLUMN marks text COLLATE "C";
