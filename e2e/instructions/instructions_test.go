package main

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func of(instructions, locked int) cost { return cost{instructions: instructions, locked: locked} }

func TestWhatFailsAndWhatDoesNot(t *testing.T) {
	before := &table{rows: []row{{"do", of(1000, 10), ""}, {"open", of(3000, 0), ""}}}
	for _, c := range []struct {
		fact     string
		do, open cost
		want     string // all of what is said, or nothing
	}{
		{"the same passes", of(1000, 10), of(3000, 0), ""},
		{"fewer pass", of(500, 1), of(2000, 0), ""},
		{"two per cent more pass", of(1020, 10), of(3060, 0), ""},
		{"more than that fail", of(1021, 10), of(3000, 0), "do: 1021 instructions, and the table says 1000: +2.1 %"},
		{"one more lock fails", of(1000, 11), of(3000, 0), "do: 11 locked instructions, and the table says 10: +10.0 %"},
		{"the first lock fails", of(1000, 10), of(3000, 1), "open: 1 locked instructions, and the table says 0: +0.0 %"},
	} {
		now := &table{rows: []row{{"do", c.do, ""}, {"open", c.open, ""}}}
		if got := strings.Join(before.worse(now), "\n"); got != c.want {
			t.Errorf("%s: got %q, want %q", c.fact, got, c.want)
		}
	}
	other := &table{rows: []row{{"do", of(1000, 10), ""}, {"new", of(5, 1), ""}}}
	if got := before.worse(other); len(got) != 2 || !strings.HasPrefix(got[0], "open: is in the table") || !strings.HasPrefix(got[1], "new: is not in the table") {
		t.Errorf("a call too many and one too few: %q", got)
	}
	if got := before.better(&table{rows: []row{{"do", of(900, 10), ""}, {"open", of(2990, 0), ""}}}); len(got) != 1 || !strings.HasPrefix(got[0], "do: 900") {
		t.Errorf("what became better: %q", got)
	}
}

func TestWhatCannotBeCompared(t *testing.T) {
	for _, c := range []struct {
		fact, was, is string
		differs       bool
	}{
		{"the same", "go1.26.8 aes avx2", "go1.26.8 aes avx2", false},
		{"another patch of Go", "go1.26.8 aes", "go1.26.9 aes", false},
		{"another minor version of Go", "go1.26.8 aes", "go1.27.1 aes", true},
		{"another processor", "go1.26.8 aes avx2", "go1.26.8 aes", true},
	} {
		if got := (&table{system: c.was}).differs(&table{system: c.is}); (got != "") != c.differs {
			t.Errorf("%s: %q", c.fact, got)
		}
	}
}

func TestTheTableIsReadAsItIsWritten(t *testing.T) {
	text, err := os.ReadFile("table.txt")
	if err != nil {
		t.Fatal(err)
	}
	read, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := read.String(); got != string(text) {
		t.Errorf("got\n%s\nwant\n%s", got, text)
	}
	for i, c := range cases[1:] { // the first is what is taken off
		if i >= len(read.rows) || read.rows[i].name != c.name || read.rows[i].about != c.about {
			t.Errorf("row %d is not %s: write the table with make instructions ARGS=-write", i+1, c.name)
		}
	}
	for _, bad := range []string{"do 12", "do x 3", "do 3 x"} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

// Decisions read a share where they read the policy: it costs next to nothing.
func TestAShareCostsNoMoreThanALimitOfOnesOwn(t *testing.T) {
	text, err := os.ReadFile("table.txt")
	if err != nil {
		t.Fatal(err)
	}
	read, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	costs := map[string]cost{}
	for _, r := range read.rows {
		costs[r.name] = r.cost
	}
	own, shared := costs["do-rate"], costs["do-shared"]
	if own.instructions == 0 || shared.instructions > own.instructions+15 || shared.locked > own.locked {
		t.Errorf("a call takes %+v under a share, and %+v under a limit of its own; want 15 instructions more at most", shared, own)
	}
}

func TestInstructionsThatLock(t *testing.T) {
	for _, c := range []struct {
		name string
		code []byte
		want instruction
	}{
		{"LOCK CMPXCHGQ CX, (BX)", []byte{0xF0, 0x48, 0x0F, 0xB1, 0x0B}, instruction{locks: true}},
		{"LOCK XADDL AX, (BX)", []byte{0xF0, 0x0F, 0xC1, 0x03}, instruction{locks: true}},
		{"XCHGL (BX), AX", []byte{0x87, 0x03, 0x90}, instruction{locks: true}},
		{"XCHGQ (BX), R8", []byte{0x4C, 0x87, 0x03}, instruction{locks: true}},
		{"XCHGQ AX, BX between registers", []byte{0x48, 0x87, 0xD8}, instruction{}},
		{"XCHGW with a size", []byte{0x66, 0x87, 0x03}, instruction{locks: true}},
		{"MOVQ whose address has 0xF0", []byte{0x48, 0x8B, 0x43, 0xF0}, instruction{}},
		{"REP MOVSQ", []byte{0xF3, 0x48, 0xA5}, instruction{repeats: true}},
		{"INT3", []byte{0xCC, 0xC3}, instruction{breakpoint: true}},
		{"RET", []byte{0xC3, 0xCC}, instruction{}},
	} {
		if got := decode(c.code); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

// What is taken off must be the same each time, or no figure means anything.
func TestCountingTwiceGivesTheSame(t *testing.T) {
	var twice [2]cost
	for i := range twice {
		c, err := typical(find(empty))
		if errors.Is(err, errUnavailable) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		twice[i] = c
	}
	if !twice[0].same(twice[1]) || twice[0].instructions == 0 || twice[0].instructions > 40 || twice[0].locked != 0 {
		t.Errorf("counted %d and %d instructions, %d locked", twice[0].instructions, twice[1].instructions, twice[0].locked)
	}
}

func TestMain(m *testing.M) {
	if name := os.Getenv(child); name != "" {
		repeat(find(name))
	}
	os.Exit(m.Run())
}
