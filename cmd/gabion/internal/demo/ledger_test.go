package demo

import (
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestLedgerCountsWhatWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.ledger")
	l, err := newLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for _, order := range []string{"one", "two", "two"} {
				if err := l.add(charge{Order: order, Amount: 1}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	got, err := readLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]int{"one": 8, "two": 16}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLedgerNeverOverwrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.ledger")
	if _, err := newLedger(path); err != nil {
		t.Fatal(err)
	}
	if _, err := newLedger(path); err == nil {
		t.Error("a second ledger was opened over the first")
	}
}

func TestLedgerThatLostALineSaysSo(t *testing.T) {
	l, err := newLedger(filepath.Join(t.TempDir(), "a.ledger"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	if l.add(charge{Order: "one"}) == nil || l.close() == nil {
		t.Error("a charge that was not written went unnoticed")
	}
}

func TestReaderRefusesWhatIsNotALedger(t *testing.T) {
	for fact, text := range map[string]string{
		"a line that is cut":  `{"order":"one","amount":1}` + "\n" + `{"order":"tw`,
		"a line with no name": `{"amount":1}` + "\n",
		"an empty line":       "\n",
	} {
		if _, err := countCharges(strings.NewReader(text)); err == nil {
			t.Errorf("%s was accepted", fact)
		}
	}
}
