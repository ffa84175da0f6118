// provider.mjs PORT REDIRECT_URI: npm's oidc-provider with its development pages, where anybody signs in under any
// name: "alice" has the groups "sre" and "culvert-admins", others none. Prints a line once it listens.
import {createRequire} from 'node:module';

const require = createRequire(`${process.env.NODE_PATH}/`);
const {default: Provider} = await import(require.resolve('oidc-provider'));
const [port, redirectUri] = process.argv.slice(2);
const groups = {alice: ['sre', 'culvert-admins']};
const provider = new Provider(`http://127.0.0.1:${port}`, {
    clients: [{client_id: 'culvert', client_secret: 'a-secret+with/odd=bytes', redirect_uris: [redirectUri]}],
    claims: {openid: ['sub'], profile: ['preferred_username', 'groups'], email: ['email', 'email_verified']},
    conformIdTokenClaims: false,
    pkce: {required: () => true},
    findAccount: (context, id) => ({
        accountId: id,
        claims: () => ({sub: id, preferred_username: id, email: `${id}@example.org`, email_verified: true, groups: groups[id] ?? []}),
    }),
});
provider.listen(Number(port), '127.0.0.1', () => console.log('listening'));
