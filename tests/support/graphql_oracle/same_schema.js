// Compares a schema in SDL with what introspection answers of it: node same_schema.js SDL JSON ends
// with 1 and prints the first difference. The package is looked for where NODE_PATH says.
'use strict';

const { buildClientSchema, buildSchema, introspectionFromSchema, lexicographicSortSchema, specifiedScalarTypes } = require('graphql');
const { readFileSync } = require('fs');

const options = { descriptions: true, specifiedByUrl: true, directiveIsRepeatable: true, schemaDescription: true };

function shape(schema) {
  const whole = introspectionFromSchema(lexicographicSortSchema(schema), options).__schema;
  // What graphql-js has of itself is not compared: its version decides.
  whole.types = whole.types.filter((type) => !type.name.startsWith('__') && !specifiedScalarTypes.some(({ name }) => name === type.name));
  whole.directives = whole.directives.map((directive) => directive.name).filter((name) => name !== 'oneOf');
  return JSON.stringify(whole, null, 1).split('\n');
}

const [sdl, json] = process.argv.slice(2).map((name) => readFileSync(name, 'utf8'));
const wanted = shape(buildSchema(sdl));
const given = shape(buildClientSchema(JSON.parse(json)));
const at = wanted.findIndex((line, i) => line !== given[i]);
if (at >= 0 || wanted.length !== given.length) {
  console.log(`line ${at}\nSDL:\n${wanted.slice(at - 8, at + 4).join('\n')}\nintrospection:\n${given.slice(at - 8, at + 4).join('\n')}`);
  process.exitCode = 1;
}
