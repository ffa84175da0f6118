// Validates documents with graphql-js: node validate.js SCHEMA reads lines {"query": ...} from standard input, writes
// for each a line {"errors": [message...]}. The package is looked for where NODE_PATH says.
'use strict';

const { buildSchema, parse, validate } = require('graphql');
const { readFileSync } = require('fs');

const schema = buildSchema(readFileSync(process.argv[2], 'utf8'));

function errorsOf(query) {
  try {
    return validate(schema, parse(query), undefined, { maxErrors: 1000 });
  } catch (error) {
    return [error];
  }
}

for (const line of readFileSync(0, 'utf8').split('\n')) {
  if (line === '') continue;
  const errors = errorsOf(JSON.parse(line).query).map((error) => error.message);
  process.stdout.write(JSON.stringify({ errors }) + '\n');
}
