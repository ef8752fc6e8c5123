package demo

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The picture is well-formed, says what the table says, and plays without a script.
func TestPictureSaysWhatTheTableSays(t *testing.T) {
	r := someReport()
	for i := range r.lines[0].cells {
		r.lines[0].cells[i] = cell{arrived: 10, settled: 10, good: 8, requests: 20 + i, doubles: 1}
		r.lines[1].cells[i] = cell{arrived: 10, settled: 10, good: 10, requests: 10}
	}
	path := filepath.Join(t.TempDir(), "demo.svg")
	if err := r.writePicture(path); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	moving, still := string(file), r.scene().svg(wide, false)
	phone := r.scene().svg(narrow, false)
	if !strings.Contains(phone, `viewBox="0 0 400 `) {
		t.Error("the picture for a phone is not as wide as one")
	}
	for _, picture := range []string{moving, still, phone} {
		for in := xml.NewDecoder(strings.NewReader(picture)); ; {
			if _, err := in.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in\n%s", err, picture)
			}
		}
		for _, want := range []string{">80.0 %<", ">64<", ">3,296<", ">100.0 %<", ">640<", ">never well again<", ">well again at once<", "keyed loop: 80.0 % answered in time, 64 orders charged twice", "10 to 20 s: 503."} {
			if !strings.Contains(picture, want) {
				t.Errorf("nothing says %q", want)
			}
		}
	}
	if words := r.scene().words(); strings.Contains(words, "..") {
		t.Errorf("a sentence ends twice: %s", words)
	}
	if strings.Contains(moving, "<script") || strings.Count(moving, `class="f f0"`) != 6 || !strings.Contains(moving, "prefers-reduced-motion") {
		t.Error("it does not play as it should")
	}
	if strings.Contains(still, "<style") || strings.Contains(still, "class=") {
		t.Error("the page's own rules forbid styles in its drawings")
	}
}

func TestNoPictureOfABusyMachine(t *testing.T) {
	r := someReport()
	r.LateP99 = lateEnough + 1
	path := filepath.Join(t.TempDir(), "demo.svg")
	if err := r.writePicture(path); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("there is one")
	}
}

func TestWordsForTheWayBack(t *testing.T) {
	for _, c := range []struct {
		client      ClientReport
		interrupted bool
		want        string
	}{
		{ClientReport{Recovered: true}, false, "well again at once"},
		{ClientReport{Recovered: true, RecoveryS: 2.5}, false, "well again in 2.5 s"},
		{ClientReport{RecoveryS: never}, false, "never well again"},
		{ClientReport{RecoveryS: never}, true, ""},
	} {
		if got := (&Report{Interrupted: c.interrupted}).back(c.client); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}
