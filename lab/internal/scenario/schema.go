package scenario

import (
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/gabion-go/gabion/config"
)

//go:generate go test -run "TestSchemaIsGenerated|TestReferenceIsGenerated" . -args -update

// schema has no policies: it refers to the schema of policy files, which stands in another folder
// of the repository.
//
//go:embed scenario.schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of a file, for editors. What it
// accepts may still be refused by [Parse], which knows what fits together.
func Schema() []byte { return slices.Clone(wholeSchema()) }

// wholeSchema is the schema with that of policies in it, so that it refers to no other file. Both
// are parts of this program: tests read them.
var wholeSchema = sync.OnceValue(func() []byte {
	var policies struct {
		Defs       any `json:"$defs"`
		Properties struct{ Dependencies map[string]any }
	}
	_ = json.Unmarshal(config.Schema(), &policies)
	var made map[string]any
	_ = json.Unmarshal(schema, &made)
	keys, _ := made["properties"].(map[string]any)
	whole := func(from any) any {
		of, _ := from.(map[string]any)
		to := maps.Clone(policies.Properties.Dependencies)
		to["description"] = of["description"]
		return to
	}
	made["$defs"], keys["policies"] = policies.Defs, whole(keys["policies"])
	if against, _ := keys["against"].(map[string]any); against != nil {
		if either, _ := against["anyOf"].([]any); len(either) == 2 {
			either[1] = whole(either[1])
		}
	}
	text, _ := json.MarshalIndent(made, "", "  ")
	return append(text, '\n')
})
