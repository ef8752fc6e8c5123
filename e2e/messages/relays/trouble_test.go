package relays

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/outbox"
	"github.com/gabion-go/gabion/policy"
)

// A leader asks the database whether it leads before it parks a message. The notice of a database that fails then has its cause, and it is not
// taken for another leader, for whose lease the relay would wait.
func TestAFailingDatabaseIsNotTakenForAnotherLeader(t *testing.T) {
	db := openPostgres(t, testservers.Postgres(t))
	s := newShop(t, db, outbox.Postgres, outbox.Options{})
	for _, text := range []string{
		`CREATE FUNCTION trouble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the disk is in trouble' USING ERRCODE = '58030'; END $$`,
		`CREATE TRIGGER trouble BEFORE UPDATE OF changes ON outbox_relay FOR EACH ROW EXECUTE FUNCTION trouble()`,
	} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.in(func(tx *sql.Tx) error { return s.box.Enqueue(t.Context(), tx, about("", "ok"), about("", "bad")) }); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var told []string
	var mended sync.Once
	r, err := s.box.Relay(outbox.Each(4, func(_ context.Context, m outbox.Message) error {
		if m.ID == "bad" {
			return classify.Permanent(errors.New("no"))
		}
		return nil
	}), gabion.New("broker", policy.Policy{}), outbox.RelayOptions{Notify: func(n outbox.Notice) {
		switch told = append(told, string(n.Kind)); n.Kind {
		case "lease_lost":
			end()
		case "broken":
			if n.Err == nil || !strings.Contains(n.Err.Error(), "the disk is in trouble") {
				t.Errorf("told %v, want the cause", n.Err)
			}
			mended.Do(func() {
				_, err := db.Exec("DROP TRIGGER trouble ON outbox_relay")
				if err == nil {
					err = s.in(func(tx *sql.Tx) error { return s.box.Enqueue(context.Background(), tx, about("", "later")) })
				}
				if err != nil {
					t.Error(err)
				}
			})
		case "parked":
			end()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Run(ctx) // until the message is parked
	if got := strings.Join(told, " "); !strings.Contains(got, "broken") || strings.Contains(got, "lease_lost") || !strings.HasSuffix(strings.TrimSuffix(got, " resigned"), "parked") {
		t.Errorf("told %q, want broken, and parked when it is over", got)
	}
}
