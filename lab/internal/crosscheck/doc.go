// Package crosscheck holds the linter against the lab: nothing but tests.
//
// A linter that warns of what does not happen is soon ignored, and one that is silent
// before an outage is worse than none. So random policies go through both: where a rule is
// silent, the lab must not show the failure that the rule is about, and where it warns, the
// lab must be able to show it. docs/crosscheck.md has the table of rules, what the lab shows
// for each, and why the others can't be shown.
package crosscheck
