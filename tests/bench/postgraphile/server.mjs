// PostGraphile beside culvertd: the same tables, account and row-level security, over TLS, without
// the parts that a production server leaves out (explain, watch, a page for people).
// Environment: DATABASE_URL, ACCOUNT, PORT, PROCESSES, TLS_CERTIFICATE, TLS_KEY.
import cluster from 'node:cluster';
import {readFileSync} from 'node:fs';
import {createServer} from 'node:https';
import {grafserv} from 'postgraphile/grafserv/node';
import {makePgService} from 'postgraphile/adaptors/pg';
import {PostGraphileAmberPreset} from 'postgraphile/presets/amber';
import {postgraphile} from 'postgraphile';

const {DATABASE_URL, ACCOUNT, PORT, PROCESSES, TLS_CERTIFICATE, TLS_KEY} = process.env;

async function serve() {
    const pgSettings = {role: 'culvert_app', 'app.account_id': ACCOUNT, plan_cache_mode: 'force_generic_plan'};
    const pgl = postgraphile({
        extends: [PostGraphileAmberPreset],
        disablePlugins: ['PgIndexBehaviorsPlugin'], // which leaves out orders of a view, as it has no index of its own
        grafserv: {graphqlPath: '/graphql', graphiql: false, watch: false, websockets: false},
        grafast: {explain: false, context: () => ({pgSettings})},
        pgServices: [makePgService({connectionString: DATABASE_URL, schemas: ['culvert_bench'], poolConfig: {max: 16}})],
    });
    const server = createServer({cert: readFileSync(TLS_CERTIFICATE), key: readFileSync(TLS_KEY)});
    await pgl.createServ(grafserv).addTo(server);
    server.listen(Number(PORT), '127.0.0.1');
}

if (cluster.isPrimary && Number(PROCESSES) > 1) for (let i = 0; i < Number(PROCESSES); i++) cluster.fork();
else await serve();
