package config

import (
	_ "embed"
	"slices"
)

//go:generate go test -run TestSchemaIsGenerated -update .

//go:embed gabion.schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of the file, for editors. What
// it accepts may still be refused by Parse, which knows what fits together.
func Schema() []byte { return slices.Clone(schema) }
