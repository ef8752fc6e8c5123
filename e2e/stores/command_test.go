package stores

import (
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/contrib/natsmsg/natsstore"
	"github.com/gabion-go/gabion/idempotency"
)

// gabion idempotency on a NATS bucket; the other stores are tested where the command is.
// The bucket's own settings, which the command is not told, stay as they are.
func TestTheCommandOpensANATSBucket(t *testing.T) {
	command := filepath.Join(t.TempDir(), "gabion")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", command, "github.com/gabion-go/gabion/cmd/gabion").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	js, _ := natsServer(t)
	store, err := natsstore.Open(t.Context(), js, natsstore.Options{Bucket: "payments", TTL: 50 * time.Hour, Storage: jetstream.MemoryStorage, MaxBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	before := settingsOf(t, js)
	lost := idempotency.IDOf("shop", "lost")
	a, err := store.Begin(t.Context(), idempotency.Claim{ID: lost, Owner: [16]byte{1}, Lease: time.Hour, Retention: time.Hour})
	if err == nil {
		err = store.Apply(t.Context(), idempotency.Ref{ID: lost, Token: a.Record.Token}, idempotency.Change{State: idempotency.StateUnknown})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"ls --bucket payments", 0, lost.Hex() + " unknown"},
		{"ls --bucket other", 3, "bucket other"},
		{"show --bucket payments --scope shop --key lost", 0, "unknown"},
		{"resolve --bucket payments " + lost.Hex() + " --done --status 202", 0, "is done"},
		{"forget --bucket payments " + lost.Hex() + " --yes", 0, lost.Hex()},
		{"forget --bucket payments " + lost.Hex() + " --yes", 1, "there is no record"},
	} {
		run := exec.CommandContext(t.Context(), command, append([]string{"idempotency"}, append(strings.Fields(c.args), "--store", js.Conn().ConnectedUrl())...)...)
		out, err := run.CombinedOutput()
		if run.ProcessState == nil {
			t.Fatal(err)
		}
		if code := run.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: exit code %d, want %d and %q in:\n%s", c.args, code, c.code, c.want, out)
		}
	}
	if after := settingsOf(t, js); !reflect.DeepEqual(before, after) {
		t.Errorf("the bucket was %+v, and is %+v", before, after)
	}
}

func settingsOf(t *testing.T, js jetstream.JetStream) jetstream.StreamConfig {
	t.Helper()
	s, err := js.Stream(t.Context(), "KV_payments")
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().Config
}
