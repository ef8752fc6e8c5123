package scenario

import (
	_ "embed"
	"slices"
)

//go:generate go test -run "TestSchemaIsGenerated|TestReferenceIsGenerated" . -args -update

//go:embed scenario.schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of a file, for editors. What it
// accepts may still be refused by [Parse], which knows what fits together.
func Schema() []byte { return slices.Clone(schema) }
