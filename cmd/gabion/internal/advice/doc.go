// Package advice holds the linter's proposals against the lab: nothing but tests.
//
// Advice that one follows blindly must not cost answers. So each proposal is followed in the
// scenarios of the library that its facts allow, and played before and after. The table in
// docs/lint.md has what that came to.
package advice
