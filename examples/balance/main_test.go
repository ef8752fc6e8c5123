package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/testservers"
)

func TestMain(m *testing.M) {
	serveIfChild()
	os.Exit(m.Run())
}

// amounts is enough for some ten kills.
const amounts = 60

func TestExactlyOnceOnSQLite(t *testing.T) { exactlyOnce(t, t.TempDir()+"/balance.db") }

func TestExactlyOnceOnPostgreSQL(t *testing.T) { exactlyOnce(t, testservers.Postgres(t, "fsync=on")) }

func exactlyOnce(t *testing.T, where string) {
	r, err := play(t.Context(), where, amounts, 7)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	if r.added != amounts || r.balance != r.sum {
		t.Errorf("%d additions of %d, a balance of %d instead of %d", r.added, amounts, r.balance, r.sum)
	}
	if r.kills < 3 || r.requests <= amounts {
		t.Errorf("%d kills, %d requests for %d amounts: nothing was repeated, so nothing is proved", r.kills, r.requests, amounts)
	}
}

func TestTheTableTellsTheTruth(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, "", 5, 7); err != nil || strings.Count(out.String(), "exactly once each") != 1 {
		t.Errorf("%v\n%s", err, &out)
	}
	for _, r := range []result{{added: 6, balance: 9, sum: 9}, {added: 4, balance: 9, sum: 9}, {added: 5, balance: 9, sum: 8}} {
		if got := r.verdict(5); got != "WRONG" {
			t.Errorf("%+v: %s", r, got)
		}
	}
}
