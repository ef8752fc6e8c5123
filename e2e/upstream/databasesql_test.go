//go:build upstream

package upstream

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// databaseSQL is Go's own database/sql with its tests and its fake database. The package is
// compiled under another name, so that gabionsql, which imports the real one, can be used in it.
var databaseSQL = Suite{Name: "database/sql", Write: func(t *testing.T, dir string, with bool) (string, []string) {
	from, pkg := filepath.Join(output(t, ".", "go", "env", "GOROOT"), "src", "database", "sql"), filepath.Join(dir, "sql")
	keep := func(name string) bool { return !strings.HasPrefix(name, "example_") }
	copyGo(t, from, pkg, keep, func(name, text string) string {
		switch {
		case name == "sql.go":
			return swap(t, text, "func OpenDB(c driver.Connector) *DB {\n", "func OpenDB(c driver.Connector) *DB {\n\tc = between(c)\n")
		case strings.HasSuffix(name, "_test.go"):
			return itsOwn.ReplaceAllString(strings.ReplaceAll(text, `"internal/`, `"upstream/internal/`), "bare($1).(*$2)")
		}
		return text
	})
	write(t, filepath.Join(pkg, "between.go"), nothingBetween)
	write(t, filepath.Join(dir, "internal", "race", "race.go"), "package race\n\nconst Enabled = false\n")
	write(t, filepath.Join(dir, "internal", "asan", "asan.go"), "package asan\n\nconst Enabled = false\n")
	write(t, filepath.Join(dir, "internal", "testenv", "testenv.go"), "package testenv\n\nimport \"testing\"\n\nfunc SkipIfOptimizationOff(testing.TB) {}\n")
	module := "module upstream\n\ngo 1.26\n"
	if with {
		module += "\nrequire github.com/gabion-go/gabion v0.0.0\n\nreplace github.com/gabion-go/gabion => " + root(t) + "\n"
		write(t, filepath.Join(pkg, "gabion_test.go"), gabionBetween)
	}
	write(t, filepath.Join(dir, "go.mod"), module)
	return pkg, nil
}}

// itsOwn is where a test looks into the pool at a connection, rows and the like of its fake.
var itsOwn = regexp.MustCompile(`((?:\w|\.|\[\d\])+)\.\(\*(fakeConn|fakeTx|rowsCursor|ctxOnlyConn|fakeConnector)\)`)

const nothingBetween = `package sql

import "database/sql/driver"

var (
	between = func(c driver.Connector) driver.Connector { return c }
	bare    = func(v any) any { return v }
)
`

const gabionBetween = `package sql

import (
	"database/sql/driver"
	"reflect"
	"strings"
	"unsafe"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/policy"
)

// The policy retries nothing and bounds nothing.
func init() {
	between = func(c driver.Connector) driver.Connector {
		return gabionsql.Connector(c, gabion.New("database/sql", policy.Policy{
			Timeout:  policy.Timeout{Attempt: policy.Off, Call: policy.Off},
			Retry:    policy.Retry{Attempts: 1, Budget: policy.Budget{Off: true}},
			Breaker:  policy.Breaker{Off: true},
			Bulkhead: policy.Bulkhead{Off: true},
		}))
	}
	bare = func(v any) any { // what a wrapper of gabionsql has in it
		r := reflect.Indirect(reflect.ValueOf(v))
		if r.Kind() != reflect.Struct || !strings.HasSuffix(r.Type().PkgPath(), "/gabionsql") {
			return v
		}
		base := r.FieldByName("base")
		return reflect.NewAt(base.Type(), unsafe.Pointer(base.UnsafeAddr())).Elem().Interface()
	}
}
`
