"""What the database holds of what the ledger's clients told, and what is wrong with it."""

from ledger import DELETED, repeated
from load import NAMESPACE, NAMESPACE_ONCE

NUMBER = f"name, case when is_deleted then {DELETED} else (labels ->> 'app.kubernetes.io/number')::bigint end"


def living_numbers(platform):
    """{object: number} of those that are told of again and again, for who looks often: by the keys of both tables."""
    account = platform.env["CULVERT_ACCOUNT"]
    one = f"account_id = '{account}' and runtime = r and namespace = '{NAMESPACE}' and not is_deleted"
    rows = platform.psql(f"""
        select {NUMBER} from unnest(array(select runtime from runtimes)) r, resources
         where {one} and cluster = 'in-cluster' and api_group = '' and kind = 'ConfigMap'
        union all select {NUMBER} from unnest(array(select runtime from runtimes)) r, applications where {one}""")
    return {name: int(number) for name, number in rows}


def ledger_faults(platform, ledger):
    """{what: [each fault]}"""
    ours = f"namespace in ('{NAMESPACE}', '{NAMESPACE_ONCE}')"
    states = platform.psql(f"select {NUMBER} from resources where {ours} union all select {NUMBER} from applications where {ours}")
    events = [row[0] for row in platform.psql("select event_id from cloud_events where source like 'writer-%'")]
    releases = platform.psql(f"select uid, history_id, revision from deployments where namespace = '{NAMESPACE}'")
    operations = platform.psql(f"select uid, extract(epoch from started_at)::bigint, phase from application_operations where namespace = '{NAMESPACE}'")
    releases = [(uid, int(number), revision) for uid, number, revision in releases]
    operations = [(uid, int(start), phase) for uid, start, phase in operations]
    return {
        "states that are lost or were never sent": ledger.wrong_states({name: int(number) for name, number in states}),
        "objects that are there twice": repeated(name for name, _ in states),
        "events that are lost": sorted(ledger.events - set(events)),
        "events that are there twice": repeated(events),
        "deployments that are lost or were never sent": ledger.wrong_releases(releases),
        "deployments that are there twice": repeated(each[:2] for each in releases),
        "operations that are lost, unfinished or were never sent": ledger.wrong_operations(operations),
        "operations that are there twice": repeated(each[:2] for each in operations),
    }
