package policy

import "testing"

// Kinds has each kind once, and nothing else.
func TestKindsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kinds() {
		if name := k.String(); name == "" || name == Kind(numKinds).String() || seen[name] {
			t.Errorf("kind %d is called %q", k, name)
		}
		seen[k.String()] = true
	}
	if len(seen) != int(numKinds)-1 {
		t.Errorf("%d of %d kinds", len(seen), numKinds-1)
	}
}
