package demo

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// charge is one line of a ledger: money that was taken.
type charge struct {
	Time   time.Duration `json:"time_ns"` // from the start of the run
	Order  string        `json:"order"`
	Key    string        `json:"key,omitempty"`
	Amount int           `json:"amount"`
}

// ledger appends charges to a file and never changes a line. Safe for concurrent
// use.
type ledger struct {
	mu   sync.Mutex // guards file, err
	file *os.File
	err  error // the first failure: a ledger that lost a line proves nothing
}

func newLedger(path string) (*ledger, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &ledger{file: f}, nil
}

func (l *ledger) add(c charge) error {
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.file.Write(append(line, '\n')); err != nil && l.err == nil {
		l.err = err
	}
	return l.err
}

// close ends the ledger and tells the first failure it had.
func (l *ledger) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.file.Close(); err != nil && l.err == nil {
		l.err = err
	}
	return l.err
}

// readLedger counts the charges of each order in a ledger file. It shares no
// state with who wrote it.
func readLedger(path string) (map[string]int, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return countCharges(f)
}

func countCharges(r io.Reader) (map[string]int, error) {
	charges := map[string]int{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		var c charge
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return nil, fmt.Errorf("ledger line %d: %w", n, err)
		}
		if c.Order == "" {
			return nil, fmt.Errorf("ledger line %d: no order", n)
		}
		charges[c.Order]++
	}
	return charges, lines.Err()
}
