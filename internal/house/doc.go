// Package house has no code of its own. Its tests keep the promises that hold
// gabion together and that no compiler checks: who may import whom, what the
// lower floors may not touch, what the public API is, that everything exported
// is explained and that the documents say what the code does.
//
// They run with the ordinary tests. Every rule is a function over a file tree,
// and each is also run over a small tree that breaks it, so that a rule that
// stopped finding anything fails too.
package house
