package house

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
)

// A floor is a level of the house: imports go down, never up or sideways.
type floor int

const (
	words    floor = iota + 1 // what a policy says and what is said of calls: data alone
	ground                    // pure: one mechanism each
	first                     // decides
	second                    // reads policy, never touches the network
	door                      // the front door: the only goroutines, timers and contexts
	third                     // adapters on the standard library
	fourth                    // puts adapters together
	basement                  // internal: reachable only where a room says so
)

// A room is a package's place in the house.
type room struct {
	floor floor
	also  []string // what it may import beyond its floor's rule
}

// plan is the house. A new package is placed here before anything else, and an
// entry in also needs a reason beside it.
var plan = map[string]room{
	"backoff":           {floor: words},
	"internal/outcome":  {floor: words, also: []string{"policy", "internal/grpccode"}}, // puts together what is said of one attempt
	"internal/grpccode": {floor: words, also: []string{"policy"}},                      // names values of a type that files and answers have
	"internal/terms":    {floor: words},
	"policy":            {floor: words, also: []string{"backoff", "internal/terms"}},                    // a policy holds one; and keeps to the bounds
	"internal/why":      {floor: words, also: []string{"policy", "internal/breaker", "internal/terms"}}, // says in words what was decided

	"internal/clock":     {floor: ground},
	"internal/chance":    {floor: ground},
	"internal/endpoints": {floor: ground},
	"internal/fleet":     {floor: ground},
	"internal/window":    {floor: ground},
	"internal/breaker":   {floor: ground},
	"internal/budget":    {floor: ground},
	"internal/bulkhead":  {floor: ground},
	"internal/admission": {floor: ground, also: []string{"internal/bulkhead", "internal/latency"}}, // its slots and its queue, and how long work takes
	"internal/quota":     {floor: ground},
	"internal/ratelimit": {floor: ground},
	"internal/throttle":  {floor: ground},
	"internal/latency":   {floor: ground},
	"internal/learned":   {floor: ground},
	"internal/formulas":  {floor: ground},

	"internal/machine": {floor: first},

	"classify":      {floor: second},
	"config":        {floor: second, also: []string{"internal/facts", "internal/policyfile", "internal/spelled", "internal/suggest", "internal/yamlstrict"}}, // policies are written in YAML
	"internal/lint": {floor: second, also: []string{"config", "internal/facts", "internal/policyfile", "internal/suggest", "internal/yamlstrict"}},           // findings point at lines of a file; ignores name ids
	"docs":          {floor: words},                                                                                                                          // the page of the reasons
	"docs/lint":     {floor: words},                                                                                                                          // the linter's pages

	"record":          {floor: second, also: []string{"internal/recording"}},                // its form, which tools read too
	"idempotency":     {floor: second, also: []string{"internal/idemkey", "internal/seal"}}, // reads keys as the front door does; seals as other stores do
	"idempotencytest": {floor: second, also: []string{"idempotency"}},                       // its conformance suite

	"idempotency/sqlstore": {floor: second, also: []string{"idempotency", "internal/sqlgroup", "internal/sqlkit", "internal/sqltable", "internal/sqltx"}}, // one of its stores, apart so that others don't link database/sql

	"lab":                     {floor: second, also: []string{"config", "internal/policyfile", "internal/foreign", "internal/suggest", "internal/lint", "lab/internal/sim", "lab/internal/draw", "lab/internal/stat", "lab/internal/scenario", "lab/internal/report", "lab/internal/opponent", "lab/internal/family", "lab/internal/tournament", "lab/internal/review", "lab/internal/anchor", "lab/internal/tune"}}, // simulates the file that production runs
	"lab/internal/engine":     {floor: second},
	"lab/internal/draw":       {floor: second},
	"lab/internal/stat":       {floor: second},
	"lab/internal/parallel":   {floor: second},                                                                                                                                                                                                                                                                                // runs of all kinds on all processors
	"lab/internal/sim":        {floor: second, also: []string{"lab/internal/engine", "lab/internal/draw", "classify", "idempotency", "messages/inbox"}},                                                                                                                                                                       // the world in which policies are tried; consumers' records are decided as in production
	"lab/internal/scenario":   {floor: second, also: []string{"internal/policyfile", "internal/recording", "lab/internal/parallel", "internal/suggest", "internal/facts", "config", "internal/lint", "record", "internal/yamlstrict", "lab/internal/sim", "lab/internal/draw", "lab/internal/stat", "lab/internal/recorded"}}, // a world in a file, and what it came to
	"lab/internal/report":     {floor: second, also: []string{"lab/internal/scenario", "lab/internal/draw"}},                                                                                                                                                                                                                  // shows it; its logarithms are the same on every machine
	"lab/internal/recorded":   {floor: second, also: []string{"internal/suggest", "internal/yamlstrict"}},                                                                                                                                                                                                                     // findings point at lines
	"lab/internal/junit":      {floor: second},
	"lab/internal/limits":     {floor: second, also: []string{"lab/internal/sim", "lab/internal/draw"}},                                                                                                                             // learned limits against each other
	"lab/internal/review":     {floor: second, also: []string{"lab/internal/scenario", "lab/internal/report", "lab/internal/stat", "lab/internal/junit"}},                                                                           // shows it to who reviews a change
	"lab/internal/family":     {floor: second, also: []string{"lab/internal/scenario"}},                                                                                                                                             // makes scenarios around those of the library
	"lab/internal/tournament": {floor: second, also: []string{"lab/internal/parallel", "lab/internal/scenario", "lab/internal/stat", "lab/internal/opponent", "lab/internal/family"}},                                               // policies against others in many scenarios
	"lab/internal/tune":       {floor: second, also: []string{"internal/policyfile", "lab/internal/parallel", "config", "internal/finding", "internal/suggest", "lab/internal/scenario", "lab/internal/stat", "lab/internal/draw"}}, // searches a policy's numbers; says what is wrong with a goal
	"lab/internal/opponent":   {floor: second, also: []string{"internal/foreign", "internal/suggest"}},                                                                                                                              // what others do; suggests a name as files do
	"lab/internal/anchor":     {floor: second, also: []string{"lab/internal/parallel", "internal/suggest", "lab/internal/engine", "lab/internal/draw", "lab/internal/sim", "lab/internal/stat", "lab/internal/junit"}},              // published results, reproduced
	"lab/internal/bridge":     {floor: second},                                                                                                                                                                                      // nothing but tests: the lab against the front door
	"lab/internal/crosscheck": {floor: second},                                                                                                                                                                                      // nothing but tests: the linter against the lab
	"lab/flaky":               {floor: fourth, also: []string{"internal/serving"}},                                                                                                                                                  // reads priorities as servers do
	"lab/internal/play":       {floor: second, also: []string{"config", "internal/foreign", "internal/foreign/formats", "lab/internal/opponent", "lab/internal/scenario"}},                                                          // the lab behind a page
	"lab/playground":          {floor: second, also: []string{"lab/internal/play"}},                                                                                                                                                 // the page, and what compiles its program
	"lab/playground/wasm":     {floor: second, also: []string{"lab/internal/play"}},                                                                                                                                                 // the program
	"lab/labtest":             {floor: second, also: []string{"internal/policyfile", "lab", "config"}},                                                                                                                              // asserts on runs in users' tests

	".": {floor: door, also: []string{"classify", "internal/adapter", "internal/idemkey"}}, // the one classifier is part of Do

	"gabionhttp": {floor: third, also: []string{"internal/adapter", "internal/serving", "internal/suggest"}}, // asks the front door what users may not; admits requests; suggests a fault as files do
	"gabionsql":  {floor: third, also: []string{"internal/adapter", "internal/sqltx"}},                       // asks the front door what users may not; repeats transactions as the stores do
	"gabionslog": {floor: third},
	"gabiontest": {floor: third},
	"dashboard":  {floor: third},

	"messages":                           {floor: words}, // the overview
	"messages/message":                   {floor: words},
	"messages/deadletter":                {floor: second, also: []string{"idempotency", "internal/seal"}},                                                  // has its sealers
	"messages/deadletter/deadlettertest": {floor: second, also: []string{"messages/deadletter"}},                                                           // its conformance suite
	"messages/deadletter/sqlletters":     {floor: second, also: []string{"messages/deadletter", "internal/sqlgroup", "internal/sqlkit", "internal/sqltx"}}, // one of its stores, apart so that others don't link database/sql
	"messages/inbox":                     {floor: second, also: []string{"idempotency", "classify", "messages/internal/joined"}},                           // keeps a consumer's records as idempotency does
	"messages/outbox":                    {floor: third, also: []string{"internal/adapter", "internal/idemkey", "internal/sqlkit", "internal/sqltx"}},      // reads errors as its dependency does; keys, tables and transactions are those of the stores
	"messages/consumer":                  {floor: third, also: []string{"internal/adapter", "messages/internal/joined"}},                                   // asks the front door what users may not
	"messages/letterpage":                {floor: fourth},                                                                                                  // dead letters on the page
	"messages/internal/joined":           {floor: basement},

	"internal/h1": {floor: third},                                                                                                                       // net/http's client in another order
	"gabionproxy": {floor: fourth, also: []string{"internal/adapter", "internal/h1", "internal/policyfile", "internal/serving", "internal/yamlstrict"}}, // asks the front door what users may not, reads priorities as servers do, and names keys as files do

	"fleet":           {floor: fourth, also: []string{"internal/adapter"}}, // asks the front door what users may not
	"fleet/fleettest": {floor: fourth, also: []string{"fleet"}},            // its conformance suite for stores

	"internal/adapter":         {floor: basement, also: []string{"policy", "internal/breaker", "internal/machine"}},                     // its answers, the permit of an address, and a share
	"internal/serving":         {floor: basement, also: []string{"policy", "internal/admission", "internal/clock", "internal/learned"}}, // the ground floor's queue with a clock, for servers
	"internal/behaviour":       {floor: basement},                                                                                       // nothing but tests: the front door as callers see it
	"internal/house":           {floor: basement},
	"internal/idemkey":         {floor: basement},
	"internal/seal":            {floor: basement},
	"internal/sqlgroup":        {floor: basement},
	"internal/sqlkit":          {floor: basement, also: []string{"internal/sqltx"}},                                   // statements and tables, for all that keep some in SQL
	"internal/sqltable":        {floor: basement, also: []string{"idempotency", "internal/sqlkit", "internal/sqltx"}}, // the table of the SQL stores, one of which is a module of its own
	"internal/sqltx":           {floor: basement, also: []string{"backoff", "policy", "classify"}},                    // waits, and reads errors, for the stores and for gabionsql
	"internal/interleave":      {floor: basement},
	"internal/mutate":          {floor: basement},
	"internal/report":          {floor: basement},
	"internal/testclock":       {floor: basement},
	"internal/testgolden":      {floor: basement},
	"internal/testproxy":       {floor: basement},
	"internal/testrace":        {floor: basement},
	"internal/testservers":     {floor: basement},
	"internal/fleetlook":       {floor: basement, also: []string{"fleet", "internal/fleet"}},                         // reads with a store what members wrote
	"internal/testfleet":       {floor: basement, also: []string{"fleet"}},                                           // uses stores while their servers break
	"internal/facts":           {floor: basement, also: []string{"internal/terms", "internal/yamlstrict", "policy"}}, // what a file says for the linter, read by config
	"internal/policyfile":      {floor: basement, also: []string{"internal/yamlstrict", "policy"}},                   // what tools ask of a file, answered by config
	"internal/testsplit":       {floor: basement, also: []string{"idempotency", "internal/testproxy"}},               // the network between a handler and its database breaks
	"internal/recording":       {floor: basement, also: []string{"internal/terms", "policy"}},                        // the lines of a recording
	"internal/testshop":        {floor: basement, also: []string{"idempotency"}},                                     // a service whose work has effects in its database
	"internal/suggest":         {floor: basement},
	"internal/spelled":         {floor: basement, also: []string{"internal/yamlstrict", "policy"}}, // a policy's values, with the keys that a file has
	"internal/finding":         {floor: basement},
	"internal/foreign":         {floor: second, also: []string{"internal/finding", "internal/spelled", "internal/suggest", "internal/yamlstrict"}},                                                                             // reads the files of other systems and says where a mistake is
	"internal/foreign/formats": {floor: second, also: []string{"internal/finding", "internal/foreign", "internal/foreign/library", "internal/foreign/mesh", "internal/grpcconfig", "internal/suggest", "internal/yamlstrict"}}, // all readers
	"internal/foreign/library": {floor: second, also: []string{"internal/finding", "internal/foreign", "internal/suggest", "internal/yamlstrict"}},                                                                             // findings point at lines
	"internal/grpcconfig":      {floor: second, also: []string{"internal/finding", "internal/suggest"}},                                                                                                                        // says where a mistake is, and what was meant
	"internal/yamlstrict":      {floor: basement, also: []string{"internal/finding", "internal/suggest"}},                                                                                                                      // says which key was meant
	"internal/conformance":     {floor: basement, also: []string{"policy", "classify", "internal/machine", "internal/breaker", "internal/bulkhead", "internal/clock", "internal/chance"}},                                      // plays scripts on the machine
	"internal/foreign/mesh":    {floor: second, also: []string{"internal/foreign", "internal/suggest", "internal/yamlstrict"}},                                                                                                 // four of its formats

	"internal/foreign/export": {floor: second, also: []string{"internal/foreign", "internal/suggest", "internal/yamlstrict"}}, // writes the files of other systems; names keys as files do

	"internal/interleave/atomic": {floor: basement, also: []string{"internal/interleave"}}, // stands in for sync/atomic, and steps
	"internal/interleave/sync":   {floor: basement, also: []string{"internal/interleave"}}, // stands in for sync, and steps
}

// groundShared is what ground-floor packages may import of each other: the
// representations of time, chance and counting.
var groundShared = []string{"internal/clock", "internal/chance", "internal/window"}

// allows reports whether the package in dir from may import the one in dir to.
func allows(from, to string) bool {
	a, b := plan[from], plan[to]
	if slices.Contains(a.also, to) {
		return true
	}
	if m := moduleOf(to); m != "." && m != moduleOf(from) {
		return false
	}
	switch a.floor {
	case ground:
		return b.floor == words || slices.Contains(groundShared, to)
	case first, second, third, fourth:
		return b.floor < a.floor
	case door:
		return b.floor <= first
	}
	return false
}

// lattice checks the imports of what users get; tests may look anywhere, for
// they compare floors with each other.
func lattice(t *tree) (found []string) {
	for _, p := range t.packs {
		if strings.HasPrefix(p.dir+"/", "examples/") {
			continue // programs: they stand on top of the house
		}
		if _, placed := plan[p.dir]; !placed {
			found = append(found, t.at(p.files[0].ast.Package, "package %s has no floor", p.dir))
			continue
		}
		for _, file := range p.code() {
			found = append(found, importsUp(t, p.dir, file)...)
		}
	}
	return found
}

func importsUp(t *tree, dir string, file source) (found []string) {
	for _, spec := range file.ast.Imports {
		to, mine := ours(imported(spec))
		if mine && !allows(dir, to) {
			found = append(found, t.at(spec.Pos(), "%s may not import %s", dir, to))
		}
	}
	return found
}

func TestImportsGoDown(t *testing.T) {
	keep(t, overCode(lattice), `Imports go from higher floors to lower ones; ground-floor packages share clock, chance and window alone.
The plan of the house is the table in internal/house/lattice_test.go: place a new package there, and move what two packages
need to a floor below both instead of widening a rule.`)

	prove(t, overCode(lattice), []specimen{
		{"imports that go down are fine", map[string]string{
			"policy/a.go":           "package policy\nimport _ \"github.com/gabion-go/gabion/backoff\"",
			"internal/breaker/a.go": "package breaker\nimport _ \"github.com/gabion-go/gabion/internal/window\"\nimport _ \"github.com/gabion-go/gabion/policy\"",
			"internal/machine/a.go": "package machine\nimport _ \"github.com/gabion-go/gabion/internal/breaker\"",
			"gabion.go":             "package gabion\nimport _ \"github.com/gabion-go/gabion/internal/machine\"\nimport _ \"github.com/gabion-go/gabion/classify\"",
			"gabionhttp/a.go":       "package gabionhttp\nimport _ \"github.com/gabion-go/gabion\"",
			"config/a.go":           "package config\nimport _ \"github.com/gabion-go/gabion/internal/yamlstrict\"",
			"gabionproxy/a.go":      "package gabionproxy\nimport _ \"github.com/gabion-go/gabion/gabionhttp\"",
			"examples/shop/a.go":    "package main\nimport _ \"github.com/gabion-go/gabion/gabionproxy\"",
			"lab/go.mod":            "module github.com/gabion-go/gabion/lab",
			"lab/a_test.go":         "package lab\nimport _ \"github.com/gabion-go/gabion\"",
			"cmd/gabion/go.mod":     "module github.com/gabion-go/gabion/cmd/gabion",
			"cmd/gabion/main.go":    "package main\nimport _ \"github.com/gabion-go/gabion/gabionproxy\"",
			"policy/testdata/no.go": "package nothing\nimport _ \"github.com/gabion-go/gabion/gabionproxy\"",
		}, nil},
		{"ground imports ground", map[string]string{
			"internal/breaker/a.go": "package breaker\n\nimport _ \"github.com/gabion-go/gabion/internal/budget\"",
		}, []string{"internal/breaker/a.go:3: internal/breaker may not import internal/budget"}},
		{"data imports a mechanism", map[string]string{
			"policy/a.go": "package policy\nimport _ \"github.com/gabion-go/gabion/internal/breaker\"",
		}, []string{"policy may not import internal/breaker"}},
		{"policy imports the front door", map[string]string{
			"policy/a.go": "package policy\nimport _ \"github.com/gabion-go/gabion\"",
		}, []string{"policy may not import ."}},
		{"the lab imports the front door", map[string]string{
			"lab/a.go": "package lab\nimport _ \"github.com/gabion-go/gabion\"",
		}, []string{"lab may not import ."}},
		{"the front door imports a reader of policy", map[string]string{
			"gabion.go": "package gabion\nimport _ \"github.com/gabion-go/gabion/config\"",
		}, []string{". may not import config"}},
		{"siblings import siblings", map[string]string{
			"gabionsql/a.go": "package gabionsql\nimport _ \"github.com/gabion-go/gabion/gabionhttp\"",
			"record/a.go":    "package record\nimport _ \"github.com/gabion-go/gabion/idempotency\"",
		}, []string{"gabionsql may not import gabionhttp", "record may not import idempotency"}},
		{"the root module imports messages, and messages import the lab", map[string]string{
			"dashboard/a.go":           "package dashboard\nimport _ \"github.com/gabion-go/gabion/messages/deadletter\"",
			"messages/go.mod":          "module github.com/gabion-go/gabion/messages",
			"messages/letterpage/a.go": "package letterpage\nimport _ \"github.com/gabion-go/gabion/dashboard\"\nimport _ \"github.com/gabion-go/gabion/lab\"",
		}, []string{"dashboard may not import messages/deadletter", "messages/letterpage may not import lab"}},
		{"an adapter imports the proxy", map[string]string{
			"gabionhttp/a.go": "package gabionhttp\nimport _ \"github.com/gabion-go/gabion/gabionproxy\"",
		}, []string{"gabionhttp may not import gabionproxy"}},
		{"tests' servers in what users get", map[string]string{
			"gabionproxy/a.go": "package gabionproxy\nimport _ \"github.com/gabion-go/gabion/internal/testservers\"",
		}, []string{"gabionproxy may not import internal/testservers"}},
		{"a package without a floor", map[string]string{
			"util/a.go": "package util",
		}, []string{"util/a.go:1: package util has no floor"}},
	})
}

// dependencies checks that using gabion adds no dependency: the standard
// library, and one YAML parser behind one package.
func dependencies(fsys fs.FS) (found []string, err error) {
	t, err := parse(fsys)
	if err != nil {
		return nil, err
	}
	for _, p := range t.packs {
		for _, file := range p.files {
			found = append(found, importsOut(t, p.dir, file)...)
		}
	}
	mod, err := fs.ReadFile(fsys, "go.mod")
	if err != nil {
		return nil, err
	}
	if all := required(string(mod)); len(all) > 1 {
		found = append(found, "go.mod: more than one required module: "+strings.Join(all, ", "))
	}
	return found, nil
}

func importsOut(t *tree, dir string, file source) (found []string) {
	for _, spec := range file.ast.Imports {
		name := imported(spec)
		if thirdParty(name) && dir != "internal/yamlstrict" {
			found = append(found, t.at(spec.Pos(), "%s imports %s", dir, name))
		}
	}
	return found
}

// required returns the modules that a go.mod requires, directly or not.
func required(mod string) (all []string) {
	block := false
	for line := range strings.Lines(mod) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.HasPrefix(words[0], "//"):
		case block && words[0] == ")":
			block = false
		case block:
			all = append(all, words[0])
		case words[0] == "require" && len(words) > 1 && words[1] == "(":
			block = true
		case words[0] == "require" && len(words) > 1:
			all = append(all, words[1])
		}
	}
	return all
}

func TestGabionCostsNoDependency(t *testing.T) {
	keep(t, dependencies, `The root module stands on the standard library. internal/yamlstrict alone imports a YAML parser, the one required module.
Whatever needs another library is a module of its own under contrib/, cmd/ or e2e/.`)

	prove(t, dependencies, []specimen{
		{"one YAML parser behind one package is fine", map[string]string{
			"go.mod":                   "module m\n\nrequire example.com/yaml v1.0.0\n",
			"internal/yamlstrict/a.go": "package yamlstrict\nimport _ \"example.com/yaml\"",
			"clock/a.go":               "package clock\nimport _ \"net/http\"",
		}, nil},
		{"a parser anywhere else, tests included", map[string]string{
			"go.mod":           "module m\n\nrequire example.com/yaml v1.0.0\n",
			"config/a_test.go": "package config\n\nimport _ \"example.com/yaml\"",
		}, []string{"config/a_test.go:3: config imports example.com/yaml"}},
		{"a second module, even an indirect one", map[string]string{
			"go.mod": "module m\n\nrequire example.com/yaml v1.0.0\n\nrequire (\n\t// why\n\texample.com/b v1.0.0 // indirect\n)\n",
		}, []string{"go.mod: more than one required module: example.com/yaml, example.com/b"}},
	})
}

// toolsDir is the module that pins programs. It has no code, and no other module is to have the
// versions that they require.
const toolsDir = "internal/tools"

// workspace checks that no module hides from make, which takes its list from
// go.work, and that each finds its sibling before anything is tagged.
func workspace(fsys fs.FS) (found []string, err error) {
	work, err := fs.ReadFile(fsys, "go.work")
	if err != nil {
		return nil, err
	}
	used := strings.Fields(string(work))
	err = walk(fsys, func(name string) error {
		if path.Base(name) != "go.mod" {
			return nil
		}
		dir := path.Dir(name)
		if dir == toolsDir {
			return nil
		}
		if dir != "." && !slices.Contains(used, "./"+dir) {
			found = append(found, "go.work: module "+dir+" is not listed")
		}
		mod, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		if slices.Contains(required(string(mod)), modulePath) && !strings.Contains(string(mod), modulePath+" => ..") {
			found = append(found, name+": requires "+modulePath+" without a replace")
		}
		return nil
	})
	return found, err
}

func TestEveryModuleIsInTheWorkspace(t *testing.T) {
	keep(t, workspace, `./... stops at nested modules, so make builds, vets and tests what go.work lists: go work use ./the/module.
A nested module carries "replace `+modulePath+` => ../.." until the release drops it.`)

	prove(t, workspace, []specimen{
		{"listed and replaced is fine", map[string]string{
			"go.work":               "use (\n\t.\n\t./e2e\n)\n",
			"go.mod":                "module " + modulePath,
			"e2e/go.mod":            "module e\nrequire " + modulePath + " v0.0.0\nreplace " + modulePath + " => ../\n",
			"internal/tools/go.mod": "module t\n",
		}, nil},
		{"a module that make does not see", map[string]string{
			"go.work":           "use (\n\t.\n)\n",
			"contrib/x/go.mod":  "module x\n",
			"x/testdata/go.mod": "module y\n",
		}, []string{"go.work: module contrib/x is not listed"}},
		{"a module that asks the network for its sibling", map[string]string{
			"go.work":    "use ./e2e\n",
			"e2e/go.mod": "module e\nrequire " + modulePath + " v0.0.0\n",
		}, []string{"e2e/go.mod: requires " + modulePath + " without a replace"}},
	})
}
