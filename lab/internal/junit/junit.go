// Package junit writes what was tested as the XML that CI servers read.
//
// There is no standard; what is written is what the servers have in common: test
// suites, test cases, failures, errors and skipped cases, and properties.
package junit

import (
	"encoding/xml"
	"io"
	"strings"
)

// A Suite is test cases that belong together. The zero Suite is empty.
type Suite struct {
	Name       string
	Properties []Property
	Cases      []Case
}

// A Property is something to know about a suite.
type Property struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

// A Result says how a case ended.
type Result uint8

// The outcomes.
const (
	Passed  Result = iota
	Failed         // what was claimed is not so
	Errored        // it could not be found out
	Skipped        // it was not found out
)

// A Case is one claim. The zero Case has passed.
type Case struct {
	Class   string // what servers group by
	Name    string
	Outcome Result
	Message string // in one line; of a case that has passed it is not written
	Detail  string // below it; also of one that has passed
}

// Write writes suites as one document. Characters that XML does not have are replaced.
// The error is w's.
func Write(w io.Writer, suites ...Suite) error {
	doc := document{Suites: make([]suite, 0, len(suites))}
	for i := range suites {
		s := lower(&suites[i])
		doc.add(&s.tally)
		doc.Suites = append(doc.Suites, s)
	}
	text, err := xml.MarshalIndent(&doc, "", " ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, xml.Header+string(text)+"\n")
	return err
}

// The shapes of the document.
type (
	tally struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Skipped  int `xml:"skipped,attr"`
	}
	document struct {
		XMLName xml.Name `xml:"testsuites"`
		tally
		Suites []suite `xml:"testsuite"`
	}
	suite struct {
		Name string `xml:"name,attr"`
		tally
		Properties []Property `xml:"properties>property,omitempty"`
		Cases      []entry    `xml:"testcase"`
	}
	entry struct {
		Class   string `xml:"classname,attr"`
		Name    string `xml:"name,attr"`
		Failure *ending
		Error   *ending
		Skipped *ending
		Out     string `xml:"system-out,omitempty"`
	}
	ending struct {
		XMLName xml.Name
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

func (t *tally) add(other *tally) {
	t.Tests += other.Tests
	t.Failures += other.Failures
	t.Errors += other.Errors
	t.Skipped += other.Skipped
}

func lower(of *Suite) suite {
	s := suite{Name: of.Name, Properties: of.Properties}
	s.Tests = len(of.Cases)
	for i := range of.Cases {
		c := &of.Cases[i]
		e := entry{Class: c.Class, Name: c.Name}
		end := func(kind string) *ending {
			return &ending{XMLName: xml.Name{Local: kind}, Message: oneLine(c.Message), Text: c.Detail}
		}
		switch c.Outcome {
		case Failed:
			e.Failure = end("failure")
			s.Failures++
		case Errored:
			e.Error = end("error")
			s.Errors++
		case Skipped:
			e.Skipped = end("skipped")
			s.Skipped++
		default:
			e.Out = c.Detail
		}
		s.Cases = append(s.Cases, e)
	}
	return s
}

// oneLine keeps an attribute readable: a line break in one is a space for who reads it.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
