// Executes documents with graphql-js over answers that are already there: node execute.js SCHEMA ROOTS reads lines
// {"query", "variables"} from standard input, writes for each a line with what graphql-js answers. ROOTS is JSON: for each
// field of Query the whole value that it has, with __typename in every object. The package is looked for where NODE_PATH says.
'use strict';

const { buildSchema, execute, isAbstractType, parse, validate } = require('graphql');
const { readFileSync } = require('fs');

const schema = buildSchema(readFileSync(process.argv[2], 'utf8'));
const rootValue = JSON.parse(readFileSync(process.argv[3], 'utf8'));

for (const type of Object.values(schema.getTypeMap())) {
  if (isAbstractType(type)) type.resolveType = (value) => value.__typename;
}

for (const line of readFileSync(0, 'utf8').split('\n')) {
  if (line === '') continue;
  const { query, variables } = JSON.parse(line);
  const document = parse(query);
  const errors = validate(schema, document);
  const answer = errors.length ? { errors } : execute({ schema, document, rootValue, variableValues: variables });
  process.stdout.write(JSON.stringify(answer) + '\n');
}
