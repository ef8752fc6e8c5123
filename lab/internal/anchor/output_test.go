package anchor

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"
)

func TestResultsAreWrittenForOthersToRead(t *testing.T) {
	cases := []Case{
		{Figure: Figure{Name: "vegas: limit", Measured: 26}, Expected: 26, Pass: true},
		{Figure: Figure{Name: "tail: p99 | p999 <s>", Measured: 3}, Expected: 2, Tolerance: 0.5, Bound: AtMost},
	}
	var doc, page bytes.Buffer
	if err := JUnit(&doc, cases); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Failures int `xml:"failures,attr"`
		Suites   []struct {
			Cases []struct {
				Class   string `xml:"classname,attr"`
				Name    string `xml:"name,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(doc.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	c := got.Suites[0].Cases
	if got.Failures != 1 || c[0].Class != "anchor.vegas" || c[0].Failure != nil || c[1].Name != "p99 | p999 <s>" || c[1].Failure.Message != "measured 3, expected at most 2, with a tolerance of 0.5" {
		t.Errorf("got %+v from\n%s", got, &doc)
	}
	if err := Markdown(&page, cases); err != nil || !strings.Contains(page.String(), "❌ 1 of 2") || !strings.Contains(page.String(), "p99 &#124; p999") {
		t.Errorf("%v, %s", err, &page)
	}
	page.Reset()
	if err := Markdown(&page, cases[:1]); err != nil || page.String() != "✅ all 1 published results hold\n" {
		t.Errorf("%v, %s", err, &page)
	}
}
