package lettercmd

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/deadletter"
)

func TestExportHasEveryLetterOnce(t *testing.T) {
	m, ids := shop(t)
	code, out, errs := on(t.Context(), m, "export")
	if code != 0 || strings.Count(out, "\n") != 4 || errs != "4 letters were written\n" || strings.Contains(out, "card") || strings.Contains(out, "Y2FyZ") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	for line := range strings.Lines(out) {
		var r struct {
			Version  int
			ID       string
			Key      any
			Failures []any
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Version != 1 || len(r.ID) != 32 || r.Failures == nil {
			t.Errorf("%v %s", err, line)
		}
		if strings.Count(out, r.ID) != 1 {
			t.Errorf("%s comes more than once", r.ID)
		}
	}
	if _, out, _ = on(t.Context(), m, "export", "--payload", "--group", "mail"); !strings.Contains(out, `"payload":"Y2FyZCA0MTExG1sySg=="`) || !strings.Contains(out, `"value":"card 4111\u001b[2J"`) || !strings.Contains(out, ids["mail\xff-1"]) {
		t.Error(out)
	}
}

func TestSealedLetters(t *testing.T) {
	m, err := deadletter.NewMemory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	key := bytes.Repeat([]byte("k"), 32)
	sealer, err := deadletter.NewSealer(idempotency.SealKey{Name: "2026", Secret: key})
	if err != nil {
		t.Fatal(err)
	}
	id := fill(t, deadletter.Sealed(m, sealer))["order-1"]
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	right := file("right", "# of the year\n2026 "+base64.StdEncoding.EncodeToString(key)+"\n")
	other := file("other", "2025 "+base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("x"), 32)))
	for _, c := range []struct {
		fact, args string
		code       int
		says       string
	}{
		{"with the key", "show " + id + " --payload utf8 --headers --key-file " + right, 0, `Authorization: card 4111\x1b[2J`},
		{"without it all but the contents is there", "show " + id + " --headers", 0, "took 1.5s  network"},
		{"with another", "show " + id + " --key-file " + other, 3, "needs the key under which it was sealed"},
		{"an export with the key", "export --payload --key-file " + right, 0, `"payload":"Y2FyZCA0MTExG1sySg=="`},
		{"an export with another has all letters", "export --payload --key-file " + other, 3, "4 are without contents"},
		{"a file that is missing", "show " + id + " --key-file " + dir + "/none", 3, "no such file"},
		{"a file without keys", "show " + id + " --key-file " + file("empty", "# nothing\n"), 2, "empty"},
		{"a line of one word", "show " + id + " --key-file " + file("word", "\nc2VjcmV0"), 2, "line 2: it is a key's name"},
		{"no base64", "show " + id + " --key-file " + file("plain", "a secret!"), 2, "line 1: the secret is no base64"},
	} {
		code, out, errs := on(t.Context(), m, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(out+errs, c.says) || strings.Contains(errs, "c2VjcmV0") || strings.Contains(errs, "secret!") {
			t.Errorf("%s: %d\n%s%s", c.fact, code, out, errs)
		}
		if opened := strings.Contains(out, "card 4111") || strings.Contains(out, "Y2FyZCA0MTEx"); opened != strings.Contains(c.args, right) {
			t.Errorf("%s: opened is %v", c.fact, opened)
		}
		if strings.HasPrefix(c.args, "export") && strings.Count(out, "\n") != 4 {
			t.Errorf("%s: %s", c.fact, out)
		}
	}
}

// A restless store is one whose letters are put away again while they are read.
type restless struct {
	deadletter.Store
	t     *testing.T
	after int
	stop  context.CancelFunc
}

func (s *restless) Get(ctx context.Context, id deadletter.ID) (deadletter.Letter, error) {
	if s.after--; s.after == 0 {
		s.stop()
	}
	if s.after < -5000 {
		return deadletter.Letter{}, errors.New("it never ends")
	}
	l, err := s.Store.Get(ctx, id)
	if err == nil && l.State == deadletter.Waiting { // its work was done, and then it failed again
		if err := s.Store.Drop(s.t.Context(), id, "", ""); err != nil {
			s.t.Error(err)
		}
		if err := s.Store.Put(s.t.Context(), l); err != nil {
			s.t.Error(err)
		}
	}
	return l, err
}

func TestExportOfAStoreThatMoves(t *testing.T) {
	m, err := deadletter.NewMemory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1200 {
		if err := m.Put(t.Context(), deadletter.Letter{ID: deadletter.LetterID("g", "k", []byte{byte(i), byte(i >> 8)}), Group: "g"}); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errs := on(t.Context(), &restless{m, t, -1, nil}, "export")
	if code != 0 || strings.Count(out, "\n") != 1200 || errs != "1200 letters were written\n" {
		t.Errorf("%d, %d lines, %s", code, strings.Count(out, "\n"), errs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	code, out, errs = on(ctx, &restless{m, t, 700, cancel}, "export")
	if code != 130 || !strings.HasSuffix(out, "}\n") || !strings.Contains(errs, "and that was not all") {
		t.Errorf("%d, %d bytes, %s", code, len(out), errs)
	}
}
