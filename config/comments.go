package config

import "github.com/gabion-go/gabion/internal/yamlstrict"

func (f view) Comments() []yamlstrict.Comment {
	if f.doc == nil {
		return nil
	}
	return f.doc.Comments()
}

func (f view) FindingAt(line, col int, reason, proposal string) yamlstrict.Finding {
	if f.doc == nil {
		return yamlstrict.Finding{File: f.Name, Line: max(line, 1), Col: max(col, 1), Reason: reason, Proposal: proposal}
	}
	return f.doc.Finding(line, col, reason, proposal)
}
