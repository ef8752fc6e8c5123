package config

// Comment is a comment of a file.
type Comment struct {
	Line, Col int    // of the #, from 1; columns count characters
	Text      string // what is after the #, without blanks around it
	Alone     bool   // nothing else is on the line

	// About is the line that the comment is about: its own, or the next one that is no
	// comment if it is alone on its line. Zero means none.
	About int
}

// Comments returns the comments of a file from [Read], in their order; nil for other files.
func (f *File) Comments() []Comment {
	if f.doc == nil {
		return nil
	}
	var all []Comment
	for _, c := range f.doc.Comments() {
		all = append(all, Comment(c))
	}
	return all
}

// FindingAt returns a finding at a place of the file. Places outside the file become its
// beginning. Only files from [Read] show the line.
func (f *File) FindingAt(line, col int, reason, proposal string) Finding {
	if f.doc == nil {
		return Finding{File: f.Name, Line: max(line, 1), Col: max(col, 1), Reason: reason, Proposal: proposal}
	}
	return Finding(f.doc.Finding(line, col, reason, proposal))
}
