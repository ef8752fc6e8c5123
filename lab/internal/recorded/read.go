package recorded

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// The bounds of a file. Beyond them its memory would be noticed.
const (
	maxValues   = 1_000_000
	maxLine     = 64 << 10
	maxFindings = 10 // of a file: the eleventh says nothing new
)

// cell is a value and where it stands.
type cell struct {
	text string
	col  int // in characters, from 1
}

// table reads lines.
type table struct {
	name    string // the file's, for findings
	shape   shape
	parts   []string // the names of what is wanted
	columns []int    // where they are, of CSV
	comma   rune

	line  int
	text  string
	rows  int
	stop  bool // no line can be read any more
	found yamlstrict.Findings
}

// fail says what is wrong in the line that is being read.
func (t *table) fail(col int, reason, proposal string) {
	if len(t.found) < maxFindings {
		t.found = append(t.found, yamlstrict.Finding{File: t.name, Line: t.line, Col: col, Reason: reason, Proposal: proposal, Snippet: t.text})
	}
}

// each reads a file and calls do for each row with the values of the parts; do returns
// whether it could use them. The error is that the file can't be read.
func (t *table) each(dir, file string, do func(cells []cell) bool) error {
	path := file
	if !filepath.IsAbs(file) {
		path = filepath.Join(dir, file)
	}
	t.name = path
	f, err := os.Open(path)
	if err != nil {
		return errors.Unwrap(err) // the path is said already
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return errors.New("it is a folder")
	}
	in := bufio.NewReaderSize(f, maxLine)
	for !t.stop && len(t.found) < maxFindings {
		text, err := in.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		t.line++
		t.text = string(bytes.TrimRight(text, "\r\n"))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			t.fail(1, fmt.Sprintf("the line is longer than %d bytes", maxLine), "is it the right file?")
			return nil
		case !utf8.ValidString(t.text):
			t.fail(1, "the line is not UTF-8", "is it the right file?")
			return nil
		}
		if !t.row(do) {
			return nil
		}
		if err != nil {
			return nil
		}
	}
	return nil
}

// row reads one line; false ends the file.
func (t *table) row(do func(cells []cell) bool) bool {
	if t.line == 1 {
		t.text = strings.TrimPrefix(t.text, "\ufeff")
	}
	if trimmed := strings.TrimSpace(t.text); trimmed == "" || t.shape == lines && trimmed[0] == '#' {
		return true
	}
	var cells []cell
	switch t.shape {
	case lines:
		cells = []cell{{strings.TrimSpace(t.text), 1 + utf8.RuneCountInString(t.text) - utf8.RuneCountInString(strings.TrimLeft(t.text, " \t"))}}
	case objects:
		cells = t.object()
	default:
		cells = t.record()
	}
	if cells == nil || !do(cells) {
		return true
	}
	if t.rows++; t.rows > maxValues {
		t.fail(1, fmt.Sprintf("there are more than %d values", maxValues), "keep every tenth line, or a part of the time")
		return false
	}
	return true
}

// record reads a line of CSV. Nil means that there is nothing to use.
func (t *table) record() []cell {
	all, problem := t.split()
	if problem != "" {
		t.fail(1, problem, "")
		return nil
	}
	if t.columns == nil {
		return t.head(all)
	}
	cells := make([]cell, len(t.columns))
	for i, k := range t.columns {
		if k >= len(all) {
			t.fail(1+utf8.RuneCountInString(t.text), fmt.Sprintf("the line has no column %s", t.parts[i]), "")
			return nil
		}
		cells[i] = all[k]
	}
	return cells
}

// head finds the columns. A first line is a head if columns are named, or if there is no
// digit where the first one is.
func (t *table) head(all []cell) []cell {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.text
	}
	named := false
	for _, part := range t.parts {
		n, err := strconv.Atoi(part)
		k := n - 1
		if err != nil || n < 1 {
			k, named = slices.Index(names, part), true
		}
		if k < 0 {
			proposal := "there are " + strings.Join(names[:min(len(names), 20)], ", ")
			t.fail(1, fmt.Sprintf("there is no column %q", part), suggest.For(part, names, proposal))
		}
		t.columns = append(t.columns, k)
	}
	if t.stop = len(t.found) > 0; t.stop {
		return nil
	}
	if first := t.columns[0]; named || first < len(all) && !strings.ContainsAny(all[first].text, "0123456789") {
		return nil
	}
	return t.record()
}

// split cuts a line of CSV into its cells.
func (t *table) split() (cells []cell, problem string) {
	if t.comma == 0 {
		t.comma = ','
		if t.shape == tabs {
			t.comma = '\t'
		} else if !strings.Contains(t.text, ",") && strings.Contains(t.text, ";") {
			t.comma = ';'
		}
	}
	if !strings.Contains(t.text, `"`) {
		col := 1
		for text := range strings.SplitSeq(t.text, string(t.comma)) {
			cells = append(cells, cell{strings.TrimSpace(text), col + utf8.RuneCountInString(text) - utf8.RuneCountInString(strings.TrimLeft(text, " "))})
			col += utf8.RuneCountInString(text) + 1
		}
		return cells, ""
	}
	r := csv.NewReader(strings.NewReader(t.text))
	r.Comma, r.TrimLeadingSpace = t.comma, true
	fields, err := r.Read()
	if err != nil {
		return nil, "a quote is open or out of place: a value may not span lines"
	}
	for i, text := range fields {
		_, col := r.FieldPos(i)
		cells = append(cells, cell{strings.TrimSpace(text), 1 + utf8.RuneCountInString(t.text[:min(col-1, len(t.text))])})
	}
	return cells, ""
}

// object reads a line of JSON.
func (t *table) object() []cell {
	in := json.NewDecoder(strings.NewReader(t.text))
	in.UseNumber()
	var all map[string]any
	if err := in.Decode(&all); err != nil || all == nil {
		t.fail(1, "the line is no JSON object", `write one such as {"ms": 12.5} a line`)
		return nil
	}
	cells := make([]cell, len(t.parts))
	for i, part := range t.parts {
		value, ok := dig(all, part)
		at := strings.Index(t.text, `"`+part[strings.LastIndexByte(part, '.')+1:]+`"`)
		col := 1 + utf8.RuneCountInString(t.text[:max(at, 0)])
		if !ok {
			names := make([]string, 0, len(all))
			for name := range all {
				names = append(names, name)
			}
			slices.Sort(names)
			proposal := "there are " + strings.Join(names[:min(len(names), 20)], ", ")
			t.fail(col, fmt.Sprintf("there is no field %q", part), suggest.For(part, names, proposal))
			return nil
		}
		switch v := value.(type) {
		case string:
			cells[i] = cell{v, col}
		case json.Number:
			cells[i] = cell{v.String(), col}
		default:
			t.fail(col, fmt.Sprintf("field %q is neither a number nor a text", part), "")
			return nil
		}
	}
	return cells
}

// dig returns a field of objects in objects, by its path; a name with dots in it as well.
func dig(in map[string]any, path string) (any, bool) {
	if v, ok := in[path]; ok {
		return v, v != nil
	}
	name, rest, nested := strings.Cut(path, ".")
	inner, ok := in[name].(map[string]any)
	if !nested || !ok {
		return nil, false
	}
	return dig(inner, rest)
}
