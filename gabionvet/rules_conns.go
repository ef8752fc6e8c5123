package gabionvet

import (
	"go/ast"
	"go/types"
	"regexp"

	"golang.org/x/tools/go/ast/inspector"
)

var (
	dialName = regexp.MustCompile(`^(net\.(Dial|DialTimeout|DialTCP)|\(net\.Dialer\)\.Dial(Context)?|crypto/tls\.(Dial|DialWithDialer)|\(crypto/tls\.Dialer\)\.Dial(Context)?)$`)
	reading  = []string{"bufio.NewReader", "bufio.NewReaderSize", "bufio.NewScanner", "io.ReadFull", "io.ReadAll", "encoding/json.NewDecoder", "encoding/gob.NewDecoder", "net/textproto.NewConn"}
	writing  = []string{"fmt.Fprintf", "fmt.Fprint", "fmt.Fprintln", "io.WriteString", "encoding/json.NewEncoder", "encoding/gob.NewEncoder", "bufio.NewWriter", "encoding/binary.Write"}
)

// readsWithoutDeadline is the part of G107 for a connection that a function dials, asks over and reads the answer from, without a deadline.
func readsWithoutDeadline(c *check) {
	for _, as := range every[*ast.AssignStmt](c.unit) {
		call, is := as.Rhs[0].(*ast.CallExpr)
		v, isVar := c.object(as.Lhs[0]).(*types.Var)
		if !is || !isVar || v.IsField() || v.Parent() == c.pkg.Scope() || !dialName.MatchString(c.fullName(call)) || len(c.values[v]) != 1 {
			continue
		}
		if read := readOf(c, v); read != nil {
			c.report(read, nil, "%s has no deadline: when the other side accepts and says nothing, this never returns, whatever the time for the dial was; "+
				"call %s.SetDeadline before it is asked", v.Name(), v.Name())
		}
	}
}

// readOf returns the first call that reads from a connection, if all that is done with it is seen and none of it sets a deadline.
func readOf(c *check, conn *types.Var) (read *ast.CallExpr) {
	for _, use := range c.uses[conn] {
		fn, _, _ := enclosing(use)
		if lit, is := fn.(*ast.FuncLit); is && !declaredIn(conn, lit) && !closes(use) {
			return nil
		}
		switch p := use.Parent().Node().(type) {
		case *ast.SelectorExpr:
			call, is := use.Parent().Parent().Node().(*ast.CallExpr)
			switch {
			case !is:
				return nil
			case p.Sel.Name == "Read" && read == nil:
				read = call
			case p.Sel.Name == "Read" || p.Sel.Name == "Write" || p.Sel.Name == "Close" || p.Sel.Name == "LocalAddr" || p.Sel.Name == "RemoteAddr":
			default:
				return nil
			}
		case *ast.CallExpr:
			switch {
			case c.is(p, reading...) && read == nil:
				read = p
			case c.is(p, reading...) || c.is(p, writing...):
			default:
				return nil
			}
		case *ast.BinaryExpr:
		default:
			return nil
		}
	}
	return read
}

// closes reports whether a connection is closed where it is used.
func closes(use inspector.Cursor) bool {
	sel, is := use.Parent().Node().(*ast.SelectorExpr)
	return is && sel.Sel.Name == "Close"
}
