package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
)

// What a path knows of the error of the last attempt.
const (
	none   = iota // nothing was attempted yet
	ok            // it is nil
	failed        // it is not
	knowledge
)

// A state is where a path stands: what it knows of the error, and which flags it has seen.
type state struct {
	err   int
	flags uint8 // four bits
}

const allFlags = 16

// A set is a set of states: paths that meet are joined, so a walk is linear in the code.
type set uint64

func (s state) set() set { return 1 << (s.err*allFlags + int(s.flags)) }

func (s set) each(f func(state) set) (out set) {
	for err := range knowledge {
		for flags := range allFlags {
			st := state{err, uint8(flags)}
			if s&st.set() != 0 {
				out |= f(st)
			}
		}
	}
	return out
}

func (s set) with(flag uint8) set {
	if flag == 0 {
		return s
	}
	return s.each(func(st state) set { st.flags |= flag; return st.set() })
}

func (s set) without(err int) set {
	all := set(1)<<allFlags - 1
	return s &^ (all << (err * allFlags))
}

// has reports whether a path with that knowledge is among s that has all of yes and none
// of no.
func (s set) has(err int, yes, no uint8) bool {
	found := s.each(func(st state) set {
		if st.err == err && st.flags&yes == yes && st.flags&no == 0 {
			return st.set()
		}
		return 0
	})
	return found != 0
}

// A walk follows the paths of a piece of code.
type walk struct {
	u      *unit
	errs   map[types.Object]bool // the variables that hold the attempts' errors
	oks    map[types.Object]bool // the variables that are true after a success
	flag   func(ast.Node) uint8  // what a node means to the paths that come by
	status int                   // the answers' status is this; 0 is not known
	frames []*frame
	lost   bool // there is a goto: nothing can be said
	depth  int
}

// A frame is a statement that can be broken out of.
type frame struct {
	label     string
	loop      bool
	plain     bool // a block, which only its label breaks
	brk, cont set
}

// An exit is where the paths of a loop's body go.
type exit struct{ round, leave, out, broken set }

// loop follows one iteration. Round are the paths that come to another, leave those that
// leave the loop, out those of them that return.
func (w *walk) loop(n ast.Stmt, label string) exit {
	f := &frame{label: label, loop: true}
	w.frames = append(w.frames, f)
	in := state{}.set()
	var body *ast.BlockStmt
	var e exit
	switch n := n.(type) {
	case *ast.ForStmt:
		body = n.Body
		if n.Cond != nil {
			in, _ = w.cond(n.Cond, in)
		}
	case *ast.RangeStmt:
		body = n.Body
	case *ast.LabeledStmt: // goto comes round, the end of the block does not
		c, found := w.u.root.FindNode(n)
		if !found {
			return e
		}
		if body = rounds(w.u, c, n); body == nil {
			return e
		}
	default:
		return e
	}
	ret := &frame{}
	next := w.block(body.List, in, ret)
	if _, is := n.(*ast.LabeledStmt); is {
		ret.brk |= next | f.brk
		w.frames = w.frames[:len(w.frames)-1]
		return exit{round: f.cont, leave: ret.brk, out: ret.brk}
	}
	e.round = next | f.cont
	w.frames = w.frames[:len(w.frames)-1]
	if fs, is := n.(*ast.ForStmt); is {
		e.round = w.stmt(fs.Post, "", e.round, ret)
		if fs.Cond != nil {
			var done set
			e.round, done = w.cond(fs.Cond, e.round)
			e.leave |= done
		}
	} else if !isTick(w.u, n.(*ast.RangeStmt).X) {
		e.leave |= e.round
	}
	e.leave |= f.brk | ret.brk
	e.out, e.broken = ret.brk, f.brk
	return e
}

// block follows statements; ret collects the paths that leave the function.
func (w *walk) block(list []ast.Stmt, in set, ret *frame) set {
	for _, s := range list {
		if in == 0 {
			return 0
		}
		in = w.stmt(s, "", in, ret)
	}
	return in
}

func (w *walk) stmt(s ast.Stmt, label string, in set, ret *frame) set {
	w.depth++
	defer func() { w.depth-- }()
	if w.depth > 2000 {
		w.lost = true
		return in
	}
	switch s := s.(type) {
	case nil:
		return in
	case *ast.BlockStmt:
		if label == "" {
			return w.block(s.List, in, ret)
		}
		return w.breakable(label, false, in, func(in set, f *frame) set { f.plain = true; return w.block(s.List, in, ret) })
	case *ast.LabeledStmt:
		return w.stmt(s.Stmt, s.Label.Name, in, ret)
	case *ast.IfStmt:
		in = w.stmt(s.Init, "", in, ret)
		yes, no := w.cond(s.Cond, in)
		return w.block(s.Body.List, yes, ret) | w.stmt(s.Else, "", no, ret)
	case *ast.ForStmt, *ast.RangeStmt:
		return w.inner(s, label, in, ret)
	case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
		return w.breakable(label, false, in, func(in set, f *frame) set { return w.clauses(s, in, ret) })
	case *ast.ReturnStmt:
		ret.brk |= w.node(s, in)
		return 0
	case *ast.BranchStmt:
		return w.branch(s, in, ret)
	case *ast.AssignStmt:
		return w.assign(s, in)
	case *ast.ExprStmt:
		in = w.node(s, in)
		if call, is := ast.Unparen(s.X).(*ast.CallExpr); is && w.u.neverReturns(call) {
			ret.brk |= in
			return 0
		}
		return in
	}
	return w.node(s, in)
}

// breakable follows something in which break, or with a loop also continue, means it.
func (w *walk) breakable(label string, loop bool, in set, body func(set, *frame) set) set {
	f := &frame{label: label, loop: loop}
	w.frames = append(w.frames, f)
	next := body(in, f)
	w.frames = w.frames[:len(w.frames)-1]
	return next | f.brk | f.cont
}

func (w *walk) inner(s ast.Stmt, label string, in set, ret *frame) set {
	switch s := s.(type) {
	case *ast.ForStmt:
		in = w.stmt(s.Init, "", in, ret)
		yes, no := in, set(0)
		if s.Cond != nil {
			yes, no = w.cond(s.Cond, in)
		}
		out := w.breakable(label, true, yes, func(in set, f *frame) set {
			next := w.block(s.Body.List, in, ret)
			next = w.stmt(s.Post, "", next|f.cont, ret)
			f.cont = 0
			if s.Cond == nil {
				return 0
			}
			_, done := w.cond(s.Cond, next)
			return done
		})
		return out | no
	case *ast.RangeStmt:
		in = w.expr(s.X, in)
		return in | w.breakable(label, true, in, func(in set, _ *frame) set { return w.block(s.Body.List, in, ret) })
	}
	return in
}

func (w *walk) clauses(s ast.Stmt, in set, ret *frame) set {
	switch s := s.(type) {
	case *ast.SwitchStmt:
		in = w.stmt(s.Init, "", in, ret)
		in = w.expr(s.Tag, in)
		return w.cases(s, in, ret)
	case *ast.TypeSwitchStmt:
		in = w.stmt(s.Init, "", in, ret)
		in = w.node(s.Assign, in)
		next, hasDefault := set(0), false
		for _, c := range s.Body.List {
			if c, is := c.(*ast.CaseClause); is {
				hasDefault = hasDefault || c.List == nil
				next |= w.block(c.Body, in, ret)
			}
		}
		if !hasDefault {
			next |= in
		}
		return next
	case *ast.SelectStmt:
		var next set
		for _, c := range s.Body.List {
			if c, is := c.(*ast.CommClause); is {
				next |= w.block(c.Body, w.stmt(c.Comm, "", in, ret), ret)
			}
		}
		return next
	}
	return in
}

func (w *walk) cases(s *ast.SwitchStmt, in set, ret *frame) (next set) {
	rest := in
	var otherwise *ast.CaseClause
	var fell set // what falls through to the next clause
	for _, c := range s.Body.List {
		c, is := c.(*ast.CaseClause)
		if !is {
			continue
		}
		if c.List == nil {
			otherwise = c
			continue
		}
		taken := fell
		for _, e := range c.List {
			var yes, no set
			if s.Tag == nil {
				yes, no = w.cond(e, rest)
			} else {
				yes, no = w.cond(&ast.BinaryExpr{X: s.Tag, Op: token.EQL, Y: e, OpPos: e.Pos()}, rest)
			}
			taken |= yes
			rest = no
		}
		out := w.block(c.Body, taken, ret)
		fell = 0
		if fallsThrough(c.Body) {
			fell = out
			continue
		}
		next |= out
	}
	if otherwise != nil {
		return next | w.block(otherwise.Body, rest|fell, ret)
	}
	return next | rest | fell
}

func fallsThrough(body []ast.Stmt) bool {
	if len(body) == 0 {
		return false
	}
	b, is := body[len(body)-1].(*ast.BranchStmt)
	return is && b.Tok == token.FALLTHROUGH
}

func (w *walk) branch(s *ast.BranchStmt, in set, ret *frame) set {
	switch s.Tok {
	case token.FALLTHROUGH:
		return in
	case token.GOTO:
		for _, f := range w.frames {
			if s.Label != nil && f.label == s.Label.Name && f.loop {
				f.cont |= in
				return 0
			}
		}
		w.lost = true
		return 0
	}
	for i := len(w.frames) - 1; i >= 0; i-- {
		f := w.frames[i]
		if s.Label != nil && s.Label.Name != f.label || s.Label == nil && (f.plain || s.Tok == token.CONTINUE && !f.loop) {
			continue
		}
		if s.Tok == token.CONTINUE {
			f.cont |= in
		} else {
			f.brk |= in
		}
		return 0
	}
	ret.brk |= in // an outer loop's
	return 0
}
