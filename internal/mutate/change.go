package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
)

// A change is one edit of a file's text.
type change struct {
	file     string
	line     int
	from, to int // the bytes that are replaced
	text     string
	what     string
}

// apply returns the file's text with the change.
func (c *change) apply(src []byte) []byte {
	out := append([]byte{}, src[:c.from]...)
	out = append(out, c.text...)
	return append(out, src[c.to:]...)
}

// finder collects the changes that can be made to a file. It edits text where the syntax
// tree says, so that comments and lines stay where they are.
type finder struct {
	set   *token.FileSet
	name  string
	src   []byte
	found []change
}

// changesOf returns all changes of a file, in the order of their places.
func changesOf(name string) ([]change, error) {
	src, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	f := &finder{set: token.NewFileSet(), name: name, src: src}
	file, err := parser.ParseFile(f.set, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		f.visit(n)
		return true
	})
	return f.found, nil
}

func (f *finder) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		f.operator(n.OpPos, n.Op)
	case *ast.AssignStmt:
		f.operator(n.TokPos, n.Tok)
	case *ast.IncDecStmt:
		f.operator(n.TokPos, n.Tok)
	case *ast.IfStmt:
		f.negate(n.Cond)
	case *ast.BasicLit:
		f.number(n)
	case *ast.BlockStmt:
		f.drop(n.List)
	case *ast.CaseClause:
		f.drop(n.Body)
	case *ast.CommClause:
		f.drop(n.Body)
	}
}

// swaps are the operators that take each other's place. A comparison gains or loses its
// bound.
var swaps = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LSS: token.LEQ, token.LEQ: token.LSS,
	token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD,
	token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN,
	token.INC: token.DEC, token.DEC: token.INC,
}

func (f *finder) operator(at token.Pos, was token.Token) {
	if is, ok := swaps[was]; ok {
		f.add(at, at+token.Pos(len(was.String())), is.String(), was.String()+" becomes "+is.String())
	}
}

// negate turns a condition round, unless changing its operator does the same.
func (f *finder) negate(cond ast.Expr) {
	if b, ok := cond.(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) {
		return
	}
	f.add(cond.Pos(), cond.End(), "!("+f.text(cond)+")", "the condition is negated")
}

func (f *finder) number(n *ast.BasicLit) {
	if n.Kind != token.INT {
		return
	}
	v, err := strconv.ParseInt(n.Value, 0, 63)
	if err != nil {
		return
	}
	is := strconv.FormatInt(v+1, 10)
	f.add(n.Pos(), n.End(), is, n.Value+" becomes "+is)
}

// drop leaves a statement out, where the rest may compile without it.
func (f *finder) drop(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.BranchStmt, *ast.SendStmt, *ast.GoStmt:
		default:
			continue
		}
		f.add(s.Pos(), s.End(), "", "the statement is left out")
	}
}

func (f *finder) text(n ast.Node) string {
	return string(f.src[f.offset(n.Pos()):f.offset(n.End())])
}

func (f *finder) offset(p token.Pos) int { return f.set.Position(p).Offset }

func (f *finder) add(from, to token.Pos, text, what string) {
	f.found = append(f.found, change{
		file: f.name, line: f.set.Position(from).Line,
		from: f.offset(from), to: f.offset(to), text: text, what: what,
	})
}
