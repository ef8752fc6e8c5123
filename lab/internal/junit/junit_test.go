package junit

import (
	"bytes"
	"encoding/xml"
	"errors"
	"strings"
	"testing"
)

// read is what a server makes of a document.
type read struct {
	Tests    int `xml:"tests,attr"`
	Failures int `xml:"failures,attr"`
	Errors   int `xml:"errors,attr"`
	Skipped  int `xml:"skipped,attr"`
	Suites   []struct {
		Name       string     `xml:"name,attr"`
		Tests      int        `xml:"tests,attr"`
		Properties []Property `xml:"properties>property"`
		Cases      []struct {
			Class   string `xml:"classname,attr"`
			Name    string `xml:"name,attr"`
			Failure *struct {
				Message string `xml:"message,attr"`
				Text    string `xml:",chardata"`
			} `xml:"failure"`
			Error   *struct{} `xml:"error"`
			Skipped *struct{} `xml:"skipped"`
			Out     string    `xml:"system-out"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func written(t *testing.T, suites ...Suite) (text string, got read) {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, suites...); err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v in\n%s", err, &b)
	}
	return b.String(), got
}

func TestCasesAreCountedAndKept(t *testing.T) {
	text, got := written(t,
		Suite{Name: "a", Properties: []Property{{"seed", "7"}}, Cases: []Case{
			{Class: "a.db", Name: "p99 <= 1s", Detail: "measured 0.2 s"},
			{Class: "a.db", Name: "stuck <= 1%", Outcome: Failed, Message: "measured\n17 %", Detail: "in 20 runs"},
		}},
		Suite{Name: "b", Cases: []Case{{Outcome: Skipped, Message: "more runs would tell"}, {Outcome: Errored, Message: "broken"}}},
	)
	if got.Tests != 4 || got.Failures != 1 || got.Errors != 1 || got.Skipped != 1 || len(got.Suites) != 2 || got.Suites[0].Tests != 2 {
		t.Errorf("the counts are %+v", got)
	}
	a := got.Suites[0]
	if a.Properties[0] != (Property{"seed", "7"}) || a.Cases[0].Name != "p99 <= 1s" || a.Cases[0].Out != "measured 0.2 s" || a.Cases[0].Failure != nil {
		t.Errorf("what has passed is %+v", a)
	}
	if f := a.Cases[1].Failure; f == nil || f.Message != "measured 17 %" || f.Text != "in 20 runs" {
		t.Errorf("what has failed is %+v", f)
	}
	if !strings.HasPrefix(text, xml.Header) || !strings.Contains(text, "&lt;=") {
		t.Errorf("got\n%s", text)
	}
}

// Whatever a name holds, the document is XML 1.0 and says the same.
func TestOddNamesAreValidXML(t *testing.T) {
	for fact, name := range map[string]string{
		"markup":             `<failure/>]]>&amp;<!-- "x" -->`,
		"quotes":             `'"` + "`",
		"control characters": "a\x00b\x01c\x1b[31md\x7f",
		"no UTF-8":           "a\xffb\xc3",
		"not characters":     "a\ufffeb\uffff",
		"beyond the plane":   "a𝄞b\u2028c",
		"lines":              "a\r\nb\tc",
		"nothing":            "",
	} {
		s := Suite{Name: name, Properties: []Property{{name, name}}}
		for o := Passed; o <= Skipped; o++ {
			s.Cases = append(s.Cases, Case{Class: name, Name: name, Outcome: o, Message: name, Detail: name})
		}
		text, got := written(t, s)
		for _, r := range text {
			if r < 0x20 && r != '\n' && r != '\t' && r != '\r' || r == 0xfffe || r == 0xffff {
				t.Errorf("%s: %U is no character of XML", fact, r)
			}
		}
		if got.Tests != 4 || len(got.Suites) != 1 || len(got.Suites[0].Cases) != 4 {
			t.Errorf("%s: read as %+v", fact, got)
		}
		if fact == "markup" && (got.Suites[0].Name != name || got.Suites[0].Cases[1].Failure.Text != name) {
			t.Errorf("%s: read as %+v", fact, got.Suites[0])
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWhatCannotBeWrittenIsAnError(t *testing.T) {
	if err := Write(full{}); err == nil {
		t.Error("no error of a full disk")
	}
}
