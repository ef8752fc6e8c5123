package lettercmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/message"
)

const secret = "card 4111\x1b[2J"

var born = time.Date(2026, 11, 23, 1, 0, 0, 0, time.UTC)

// shop is a store with letters of two groups, whose IDs are by key.
func shop(t testing.TB) (deadletter.Store, map[string]string) {
	t.Helper()
	now := born
	m, err := deadletter.NewMemory(deadletter.Options{Clock: func() time.Time { now = now.Add(time.Minute); return now }})
	if err != nil {
		t.Fatal(err)
	}
	return m, fill(t, m)
}

func fill(t testing.TB, store deadletter.Store) map[string]string {
	t.Helper()
	ids := map[string]string{}
	for _, l := range []deadletter.Letter{
		{Group: "billing", Key: "order-1", Reason: "attempts_exhausted", Source: "orders", Position: "17", Order: "ann", Attempts: 5, Failures: []deadletter.Failure{
			{At: born.Add(-2 * time.Minute), Attempt: 1, Took: 1500 * time.Millisecond, Class: "network", Reason: "failed", Message: "bank: refused"},
			{At: born, Attempt: 5, Took: time.Second, Class: "server", Reason: "attempts_exhausted", Message: "bank: 503\n\x1b[31mred\u202egnp"}}},
		{Group: "billing", Key: "order-2", Reason: "attempts_exhausted", Source: "orders", Attempts: 5},
		{Group: "billing", Key: "order-3", Reason: deadletter.Unknown, Source: "orders", Attempts: 1},
		{Group: "mail", Key: "mail\xff-1", Reason: "permanent", Source: "mails", Attempts: 1},
	} {
		l.Payload, l.Headers = []byte(secret), message.Headers{{Name: "Authorization", Value: secret}}
		l.ID = deadletter.LetterID(l.Group, l.Key, l.Payload)
		ids[l.Key] = string(l.ID)
		if err := store.Put(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

// on runs the command on a store and returns its exit code and what it printed.
func on(ctx context.Context, store deadletter.Store, args ...string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	c := command{func(context.Context, *options) (deadletter.Store, func(), error) { return store, func() {}, nil }}
	code = c.main(ctx, append(args, "--store", "sqlite:x"), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestList(t *testing.T) {
	m, ids := shop(t)
	_, out, errs := on(t.Context(), m, "ls")
	want := `id                               put away             group            key                  reason              runs last failure
` + ids["order-1"] + ` 2026-11-23T01:01:00Z billing          order-1              attempts_exhausted     5 bank: 503\n\x1b[31mred\u202egnp
` + ids["order-2"] + ` 2026-11-23T01:02:00Z billing          order-2              attempts_exhausted     5 -
` + ids["order-3"] + ` 2026-11-23T01:03:00Z billing          order-3              outcome_unknown        1 -
` + ids["mail\xff-1"] + ` 2026-11-23T01:04:00Z mail             mail\xff-1           permanent              1 -
`
	if out != want || errs != "" {
		t.Errorf("%s\nwant\n%s%s", out, want, errs)
	}
	for _, c := range []struct {
		args   string
		lines  int
		stderr string
	}{
		{"--group billing", 4, ""}, {"--source mails", 2, ""}, {"--reason permanent", 2, ""}, {"--reason nothing", 1, ""},
		{"--since 2026-11-23T01:03:00Z", 3, ""}, {"--before 2026-11-23T01:03:00Z", 3, ""}, {"--since 2026-11-22 --before 2026-11-23", 1, ""},
		{"--state done", 1, ""}, {"--state all", 5, ""}, {"--state waiting,taken", 5, ""},
		{"--limit 3", 4, "there are more: --after "}, {"--limit 1 --all", 5, ""},
	} {
		code, out, errs := on(t.Context(), m, append([]string{"ls"}, strings.Fields(c.args)...)...)
		if n := strings.Count(out, "\n"); code != 0 || n != c.lines || !strings.HasPrefix(errs, c.stderr) || c.stderr == "" && errs != "" {
			t.Errorf("%s: %d, %d lines, %s\n%s", c.args, code, n, errs, out)
		}
	}
}

// Pages one after another have every letter once.
func TestPagesGoOn(t *testing.T) {
	m, ids := shop(t)
	seen, after := map[string]bool{}, ""
	for range len(ids) {
		var page struct {
			Version int
			Letters []record
			Next    string
		}
		_, out, _ := on(t.Context(), m, "ls", "--json", "--limit", "1", "--after", after)
		if err := json.Unmarshal([]byte(strings.ReplaceAll(out, `{"base64":"bWFpbP8tMQ=="}`, `""`)), &page); err != nil || len(page.Letters) != 1 || page.Version != 1 {
			t.Fatalf("%v: %s", err, out)
		}
		seen[string(page.Letters[0].ID)], after = true, page.Next
	}
	if len(seen) != len(ids) {
		t.Errorf("%d letters", len(seen))
	}
	if _, out, _ := on(t.Context(), m, "ls", "--json", "--group", "none"); out != "{\"version\":1,\"letters\":[],\"next\":\"\"}\n" {
		t.Error(out)
	}
	if _, out, _ := on(t.Context(), m, "ls", "--json", "--all"); !json.Valid([]byte(out)) {
		t.Error(out)
	}
	if code, _, errs := on(t.Context(), m, "ls", "--after", "nonsense"); code != usage || !strings.Contains(errs, "--after") {
		t.Errorf("%d %s", code, errs)
	}
}

func TestShow(t *testing.T) {
	m, ids := shop(t)
	_, out, errs := on(t.Context(), m, "show", ids["order-1"][:6])
	want := `id          ` + ids["order-1"] + `
state       waiting since 2026-11-23T01:01:00Z
group       billing
reason      attempts_exhausted
key         order-1
source      orders
position    17
order       ann
put away    2026-11-23T01:01:00Z
runs        5
first       2026-11-23T00:58:00Z
last        2026-11-23T01:00:00Z
header      Authorization (13 bytes)
payload     13 bytes, SHA-256 ` + hashOf([]byte(secret)) + `

failures, the oldest first:
    1  2026-11-23T00:58:00Z  took 1.5s  network  failed
       bank: refused
  … 3 runs that were not kept
    5  2026-11-23T01:00:00Z  took 1s  server  attempts_exhausted
       bank: 503\n\x1b[31mred\u202egnp
`
	if out != want {
		t.Errorf("%s\nwant\n%s", out, want)
	}
	if !strings.Contains(errs, "gabion deadletter redrive "+ids["order-1"]) {
		t.Error(errs)
	}
	for _, c := range []struct {
		fact, args, key string
		code            int
		has             string
	}{
		{"an unknown outcome says what to do", "show", "order-3", 0, "gabion deadletter resolve"},
		{"headers are shown when asked for", "show --headers", "order-1", 0, `Authorization: card 4111\x1b[2J`},
		{"utf8 escapes what a terminal obeys", "show --payload utf8", "order-1", 0, "\ncard 4111\\x1b[2J\n"},
		{"hex is a dump", "show --payload hex", "order-1", 0, "|card 4111.[2J|"},
		{"raw is the payload", "show --payload raw", "order-1", 0, secret},
		{"JSON has the payload in base64", "show --payload utf8 --json", "order-1", 0, `"payload": "Y2FyZCA0MTExG1sySg=="`},
		{"JSON without it has its size and hash", "show --json", "order-1", 0, `"payload_bytes": 13`},
		{"an unknown form", "show --payload text", "order-1", 2, "raw, hex or utf8"},
		{"a key that is no text", "show", "mail\xff-1", 0, `mail\xff-1`},
		{"in JSON, too", "show --json", "mail\xff-1", 0, `"base64":"bWFpbP8tMQ=="`},
		{"upper case", "show", "UPPER", 0, "order-2"},
	} {
		id := ids[c.key]
		if c.key == "UPPER" {
			id = strings.ToUpper(ids["order-2"])
		}
		code, out, errs := on(t.Context(), m, append(strings.Fields(c.args), id)...)
		if text := strings.ReplaceAll(out+errs, "\": {\n    \"base64\": ", "\":{\"base64\":"); code != c.code || !strings.Contains(text, c.has) && !strings.Contains(strings.ReplaceAll(text, `"base64": `, `"base64":`), c.has) {
			t.Errorf("%s: %d\n%s", c.fact, code, text)
		}
		if strings.Contains(out, "\x1b") && !strings.Contains(c.args, "raw") {
			t.Errorf("%s: an escape gets to the terminal", c.fact)
		}
	}
}

func TestResolve(t *testing.T) {
	m, ids := shop(t)
	for _, c := range []struct {
		fact, id string
		as       string
		code     int
		says     string
	}{
		{"an outcome that is known is not resolved", "order-1", "done", 1, "is known, its reason is attempts_exhausted"},
		{"as something else", "order-3", "maybe", 2, "--as done or --as nothing"},
		{"nothing happened", "order-3", "nothing", 0, "may run: gabion deadletter redrive"},
		{"said twice", "order-3", "nothing", 0, "may run"},
		{"done after all", "order-3", "done", 1, "was resolved as nothing by ann: asked the bank. If that was wrong, say --force"},
	} {
		if code, out, errs := on(t.Context(), m, "resolve", ids[c.id], "--as", c.as, "--note", "asked the bank", "--by", "ann"); code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%s: %d %s%s", c.fact, code, out, errs)
		}
	}
	if l, _ := m.Get(t.Context(), deadletter.ID(ids["order-3"])); l.By != "ann" || l.Note != "asked the bank" {
		t.Errorf("by %q: %q", l.By, l.Note)
	}
	for _, as := range []string{"done", "nothing", "done"} {
		if code, _, errs := on(t.Context(), m, "resolve", ids["order-3"], "--as", as, "--note", "it is another's", "--by", "bob", "--force"); code != 0 {
			t.Errorf("%s: %d: %s", as, code, errs)
		}
	}
	if _, out, _ := on(t.Context(), m, "show", ids["order-3"]); !strings.Contains(out, "it is another's") || !strings.Contains(out, "nothing, by ann, asked the bank") {
		t.Errorf("what was said is not kept: %s", out)
	}
	if code, _, errs := on(t.Context(), m, "resolve", ids["order-3"], "--as", "done"); code != 2 || !strings.Contains(errs, "--note") {
		t.Error(code, errs)
	}
}

func TestDrop(t *testing.T) {
	m, ids := shop(t)
	if code, _, errs := on(t.Context(), m, "drop", ids["order-1"], "--note", "x"); code != 2 || !strings.Contains(errs, "--yes") {
		t.Error(code, errs)
	}
	if code, _, errs := on(t.Context(), m, "drop", ids["order-1"], "--yes"); code != 2 || !strings.Contains(errs, "--note") {
		t.Error(code, errs)
	}
	code, out, errs := on(t.Context(), m, "drop", ids["order-1"], ids["order-2"][:8], ids["order-1"][:7], "--note", "test data", "--by", "ann", "--yes")
	if code != 0 || strings.Count(out, "is dropped") != 2 {
		t.Error(code, out, errs)
	}
	if l, _ := m.Get(t.Context(), deadletter.ID(ids["order-2"])); l.State != deadletter.Dropped || l.Payload != nil || l.By != "ann" {
		t.Errorf("%v", l)
	}
	if code, _, errs = on(t.Context(), m, "show", ids["order-1"], "--payload", "raw"); code != 1 || !strings.Contains(errs, "erased") {
		t.Error(code, errs)
	}
	if _, _, err := m.Take(t.Context(), "mail", 1, time.Hour); err != nil {
		t.Fatal(err)
	}
	on(t.Context(), m, "redrive", "--group", "mail")
	if leases, _, err := m.Take(t.Context(), "mail", 1, time.Hour); err != nil || len(leases) != 1 {
		t.Fatal(len(leases), err)
	}
	if code, _, errs = on(t.Context(), m, "drop", ids["mail\xff-1"], "--note", "x", "--yes"); code != 1 || !strings.Contains(errs, "a consumer works on") {
		t.Error(code, errs)
	}
}

func TestStats(t *testing.T) {
	m, _ := shop(t)
	code, out, errs := on(t.Context(), m, "stats")
	if code != 0 {
		t.Error(code)
	}
	for _, want := range []string{"billing                        3     0       0       0", "        2  attempts_exhausted\n", "        1  outcome_unknown, 1 of them not resolved\n", "mail "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s%s", want, out, errs)
		}
	}
	if code, out, _ = on(t.Context(), m, "stats", "--json"); code != 0 || !strings.Contains(out, `"ever_put_away": 3`) {
		t.Error(code, out)
	}
	if code, out, _ = on(t.Context(), m, "stats", "--group", "mail"); code != 0 || strings.Contains(out, "billing") {
		t.Error(code, out)
	}
}

func TestWrongCalls(t *testing.T) {
	t.Setenv("GABION_DEADLETTERS", "")
	dir := t.TempDir()
	empty, other := filepath.Join(dir, "empty.db"), filepath.Join(dir, "text")
	for file, text := range map[string]string{empty: "", other: strings.Repeat("no database ", 1000)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"", 2, "usage"}, {"help", 0, "postgres://"}, {"list", 2, "unknown command"}, {"ls", 2, "--store is missing"},
		{"ls --store oracle://x", 2, "begins with sqlite: or postgres://"},
		{"ls --store sqlite:", 2, "sqlite:PATH"},
		{"ls --store postgres://u:pass\x7f@h/", 2, "no URL"},
		{"ls --store postgres://u:pass@127.0.0.1:1/x", 3, "refused"},
		{"ls --store sqlite:" + dir + "/missing.db", 3, "no such file"},
		{"ls --store sqlite:" + dir, 3, "is no file"},
		{"ls --store sqlite:" + empty, 3, "no letters"},
		{"ls --store sqlite:" + other, 3, "not a database"},
		{"ls --store sqlite:" + empty + " --table a;b", 2, "table"},
		{"ls --store sqlite:x --state lost", 2, "all, or some of waiting"}, {"ls --store sqlite:x --state waitin", 2, "did you mean waiting?"},
		{"ls --store sqlite:x --limit 0", 2, "at least 1"}, {"ls --store sqlite:x extra", 2, "not expected"}, {"ls --store sqlite:x --colour", 2, "--store URL"},
		{"show --store sqlite:x", 2, "Give one ID"}, {"show --store sqlite:x 123456 123457", 2, "Give one ID"}, {"drop --store sqlite:x", 2, "which letters?"},
	} {
		var stdout, stderr bytes.Buffer
		code := Main(t.Context(), strings.Fields(c.args), &stdout, &stderr)
		if text := stdout.String() + stderr.String(); code != c.code || !strings.Contains(text, c.says) || strings.Contains(text, "pass") {
			t.Errorf("%s: %d, want %d and %q in\n%s", c.args, code, c.code, c.says, text)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "missing.db")); !errors.Is(err, os.ErrNotExist) {
		t.Error("it made a file")
	}
}
