package sqlkit

import (
	"strings"
	"testing"
)

func TestTextsAreFilledForATable(t *testing.T) {
	for _, bad := range []string{"", "a b", "a;b", "a.b.c", "1a", `a"`, "longer.than12"} {
		if _, err := SQLite.Filler(bad, 12); err == nil {
			t.Errorf("%q is taken for a table's name", bad)
		}
	}
	if _, err := (Dialect{}).Filler("records", 12); err == nil {
		t.Error("no dialect")
	}
	fill, err := Postgres.Filler("shop.records", 12, "{more}", "{blob}?", "{now}", "0")
	if err != nil {
		t.Fatal(err)
	}
	// Pairs come before what the dialect says, and what is filled in is not filled again.
	if got := fill("{table} {index}_due {blob} {now} {more}"); got != "shop.records shop_records_due bytea 0 {blob}?" {
		t.Errorf("%q", got)
	}
	if text := strings.Repeat("?, ", 11) + "?"; Postgres.Bind(text) != "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12" || SQLite.Bind(text) != text {
		t.Errorf("%q, %q", Postgres.Bind(text), SQLite.Bind(text))
	}
}
