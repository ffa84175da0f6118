// Runs the audits of GraphQL over HTTP against a server: node audit.js URL KEY writes for each a
// line {"id", "name", "status", "reason"}. The package is looked for where NODE_PATH says;
// NODE_EXTRA_CA_CERTS names the server's CA.
'use strict';

const { serverAudits } = require('graphql-http');

const [url, key] = process.argv.slice(2);

function fetchFn(address, options = {}) {
  return fetch(address, { ...options, headers: { ...options.headers, authorization: key } });
}

async function main() {
  for (const audit of serverAudits({ url, fetchFn })) {
    const { id, name, status, reason } = await audit.fn();
    process.stdout.write(JSON.stringify({ id, name, status, reason }) + '\n');
  }
}

main();
