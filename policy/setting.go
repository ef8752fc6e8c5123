package policy

// Setting is one effective value of a dependency's policy: what it is and who says so.
// config.File.Explain makes them, and pages and recordings show them. The zero value says nothing.
type Setting struct {
	Path   string `json:"path"`          // "retry.attempts"
	Value  string `json:"value"`         // as a file spells it; as the file says it, when it holds variables
	Source string `json:"source"`        // "default", "preset payment", "gabion.yaml:12", …
	Why    string `json:"why,omitempty"` // of a built-in default: why it is what it is; "" of any other value
}
