package gabionsql_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	osexec "os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/policy"
)

// What database/sql asks of a statement and of rows beyond driver.Stmt and driver.Rows. Each
// name is that of the interfaces, which TestNoInterfaceOfADriverIsHidden checks.
var stmtShapes = map[string]func(*scriptedStmt) driver.Stmt{
	"nothing": nil,
	"StmtExecContext": func(s *scriptedStmt) driver.Stmt {
		return struct {
			driver.Stmt
			driver.StmtExecContext
		}{s, stmt2{s}}
	},
	"StmtQueryContext": func(s *scriptedStmt) driver.Stmt {
		return struct {
			driver.Stmt
			driver.StmtQueryContext
		}{s, stmt2{s}}
	},
	"NamedValueChecker": func(s *scriptedStmt) driver.Stmt {
		return struct {
			driver.Stmt
			driver.NamedValueChecker
		}{s, others{s.c}}
	},
	"ColumnConverter": func(s *scriptedStmt) driver.Stmt { return converts{s} },
	"ColumnConverter NamedValueChecker": func(s *scriptedStmt) driver.Stmt {
		return struct {
			converts
			driver.NamedValueChecker
		}{converts{s}, others{s.c}}
	},
	"StmtExecContext StmtQueryContext ColumnConverter NamedValueChecker": func(s *scriptedStmt) driver.Stmt {
		return struct {
			converts
			driver.StmtExecContext
			driver.StmtQueryContext
			driver.NamedValueChecker
		}{converts{s}, stmt2{s}, stmt2{s}, others{s.c}}
	},
}

var rowsShapes = map[string]func(*scriptedRows) driver.Rows{
	"nothing":           nil,
	"RowsNextResultSet": func(r *scriptedRows) driver.Rows { return &sets{scriptedRows: r, left: 1} },
	"RowsColumnTypeScanType RowsColumnTypeDatabaseTypeName RowsColumnTypeLength RowsColumnTypeNullable RowsColumnTypePrecisionScale": func(r *scriptedRows) driver.Rows { return typed{r} },
}

type stmt2 struct{ s *scriptedStmt }

func (s stmt2) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.s.c.exec(ctx, fmt.Sprint("statement exec2 ", args))
}

func (s stmt2) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.s.c.query(ctx, fmt.Sprint("statement query2 ", args))
}

// converts is a statement whose first column is an int32 that is not NULL.
type converts struct{ *scriptedStmt }

func (converts) ColumnConverter(column int) driver.ValueConverter {
	if column == 0 {
		return smallInt{}
	}
	return driver.String
}

type smallInt struct{}

func (smallInt) ConvertValue(v any) (driver.Value, error) {
	n, err := driver.Int32.ConvertValue(v)
	if i, ok := n.(int64); err != nil || !ok || i > math.MaxInt32 {
		return nil, errors.New("not a small integer")
	}
	return n, nil
}

type sets struct {
	*scriptedRows
	left int
}

func (s *sets) HasNextResultSet() bool { return s.left > 0 }
func (s *sets) NextResultSet() error   { s.left--; s.scriptedRows.left = 2; return nil }

type typed struct{ *scriptedRows }

func (typed) ColumnTypeScanType(int) reflect.Type               { return reflect.TypeFor[int16]() }
func (typed) ColumnTypeDatabaseTypeName(int) string             { return "SMALLINT" }
func (typed) ColumnTypeLength(int) (int64, bool)                { return 7, true }
func (typed) ColumnTypeNullable(int) (bool, bool)               { return true, true }
func (typed) ColumnTypePrecisionScale(int) (int64, int64, bool) { return 5, 2, true }

// part is what a wrapper does with an interface that a driver may have or not.
type part struct {
	is     reflect.Type
	always bool   // the wrapper has it in any case, and does what database/sql does without it
	as     string // the wrapper has this one in its place
}

// optional are those of package driver. TestADriverIsSeenAsItIs and its neighbour show that a
// program sees no difference where the wrapper has one that the driver lacks.
var optional = map[string]part{
	"Pinger":                         {is: reflect.TypeFor[driver.Pinger](), always: true},
	"Execer":                         {is: reflect.TypeFor[driver.Execer](), as: "ExecerContext"}, //nolint:staticcheck // drivers have it
	"ExecerContext":                  {is: reflect.TypeFor[driver.ExecerContext]()},
	"Queryer":                        {is: reflect.TypeFor[driver.Queryer](), as: "QueryerContext"}, //nolint:staticcheck // drivers have it
	"QueryerContext":                 {is: reflect.TypeFor[driver.QueryerContext]()},
	"ConnPrepareContext":             {is: reflect.TypeFor[driver.ConnPrepareContext](), always: true},
	"ConnBeginTx":                    {is: reflect.TypeFor[driver.ConnBeginTx](), always: true},
	"SessionResetter":                {is: reflect.TypeFor[driver.SessionResetter](), always: true},
	"Validator":                      {is: reflect.TypeFor[driver.Validator](), always: true},
	"NamedValueChecker":              {is: reflect.TypeFor[driver.NamedValueChecker](), always: true},
	"StmtExecContext":                {is: reflect.TypeFor[driver.StmtExecContext](), always: true},
	"StmtQueryContext":               {is: reflect.TypeFor[driver.StmtQueryContext](), always: true},
	"ColumnConverter":                {is: reflect.TypeFor[driver.ColumnConverter]()}, //nolint:staticcheck // drivers have it
	"RowsNextResultSet":              {is: reflect.TypeFor[driver.RowsNextResultSet](), always: true},
	"RowsColumnTypeScanType":         {is: reflect.TypeFor[driver.RowsColumnTypeScanType](), always: true},
	"RowsColumnTypeDatabaseTypeName": {is: reflect.TypeFor[driver.RowsColumnTypeDatabaseTypeName](), always: true},
	"RowsColumnTypeLength":           {is: reflect.TypeFor[driver.RowsColumnTypeLength](), always: true},
	"RowsColumnTypeNullable":         {is: reflect.TypeFor[driver.RowsColumnTypeNullable](), always: true},
	"RowsColumnTypePrecisionScale":   {is: reflect.TypeFor[driver.RowsColumnTypePrecisionScale](), always: true},
}

// required are the other interfaces of package driver: those that every driver has, those of
// values, and what is left to the driver because nothing wraps a driver.Driver.
var required = []string{"Driver", "DriverContext", "Connector", "Conn", "Stmt", "Tx", "Rows", "Result", "Valuer", "ValueConverter",
	"RowsColumnScanner"} // of Go 1.27: see rows

// The table has all interfaces that package driver exports.
func TestTheTableOfInterfacesIsWhole(t *testing.T) {
	list, err := osexec.Command("go", "list", "-f", "{{.Dir}}", "database/sql/driver").Output() // the test may be built with -trimpath
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(string(list))
	known := map[string]bool{}
	for _, name := range required {
		known[name] = true
	}
	found := 0
	for _, name := range []string{"driver.go", "types.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, s := range g.Specs {
				spec := s.(*ast.TypeSpec)
				if _, is := spec.Type.(*ast.InterfaceType); !is || !spec.Name.IsExported() {
					continue
				}
				found++
				if _, is := optional[spec.Name.Name]; !is && !known[spec.Name.Name] {
					t.Errorf("driver.%s is new: is it kept, hidden or claimed?", spec.Name.Name)
				}
			}
		}
	}
	if found < len(optional) {
		t.Errorf("%d interfaces were found", found)
	}
}

// Whatever a driver's connections, statements and rows have beyond what they must, they have
// with the wrapper; and the wrapper has nothing else but what the table says.
func TestNoInterfaceOfADriverIsHidden(t *testing.T) {
	check := func(t *testing.T, base, wrapped any, name string) {
		t.Helper()
		named := map[string]bool{}
		for _, n := range strings.Fields(name) {
			named[n] = true
		}
		for n, p := range optional {
			has, keeps := reflect.TypeOf(base).Implements(p.is), reflect.TypeOf(wrapped).Implements(p.is)
			if name != "" && name != "nothing" && has != named[n] {
				t.Errorf("the driver of this case: %s is %v", n, has)
			}
			if p.as != "" {
				p.is = optional[p.as].is
				keeps = keeps || reflect.TypeOf(wrapped).Implements(p.is)
			}
			instead := (n == "ExecerContext" && reflect.TypeOf(base).Implements(optional["Execer"].is)) ||
				(n == "QueryerContext" && reflect.TypeOf(base).Implements(optional["Queryer"].is))
			switch {
			case has && !keeps:
				t.Errorf("%s of the driver is hidden", n)
			case keeps && !has && !p.always && p.as == "" && !instead:
				t.Errorf("%s is claimed, and the driver lacks it", n)
			}
		}
	}
	one := func(t *testing.T, f *scripted, conn, stmt, rows string) {
		ctx := t.Context()
		base, err := f.Connect(ctx)
		if err != nil {
			t.Fatal(err)
		}
		c, err := gabionsql.Connector(f, dependency(t, policy.Policy{})).Connect(ctx)
		if err != nil {
			t.Fatal(err)
		}
		check(t, base, c, conn)
		bs, err := base.Prepare("?")
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Prepare("?")
		if err != nil {
			t.Fatal(err)
		}
		check(t, bs, s, stmt)
		br, err := bs.Query([]driver.Value{int64(1)}) //nolint:staticcheck // the old way is what is tested
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Query([]driver.Value{int64(1)}) //nolint:staticcheck // the old way is what is tested
		if err != nil {
			t.Fatal(err)
		}
		check(t, br, r, rows)
		for _, close := range []func() error{br.Close, r.Close, bs.Close, s.Close, base.Close, c.Close} {
			if err := close(); err != nil {
				t.Error(err)
			}
		}
	}
	for _, shapes := range [][]shape{sendShapes, otherShapes} {
		for _, s := range shapes {
			t.Run("connections with "+s.name, func(t *testing.T) { one(t, &scripted{shape: s.of}, s.name, "nothing", "nothing") })
		}
	}
	for name, s := range stmtShapes {
		t.Run("statements with "+name, func(t *testing.T) { one(t, &scripted{stmt: s}, "", name, "nothing") })
	}
	for name, r := range rowsShapes {
		t.Run("rows with "+name, func(t *testing.T) { one(t, &scripted{rows: r}, "", "nothing", name) })
	}
}
