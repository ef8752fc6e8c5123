package proxycmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testservers"
)

// Each kind of server keeps a claim, by the URL that a file would have. NATS is in e2e/proxy, which has a server that is new enough.
func TestServersKeepKeys(t *testing.T) {
	for kind, url := range map[string]func(*testing.T) string{
		"postgres": func(t *testing.T) string { return testservers.Postgres(t) },
		"redis":    func(t *testing.T) string { return "redis://" + testservers.Redis(t) },
		"mysql": func(t *testing.T) string {
			c, err := driver.ParseDSN(testservers.MariaDB(t))
			if err != nil {
				t.Fatal(err)
			}
			return "mysql://" + c.User + ":" + c.Passwd + "@" + c.Addr + "/" + c.DBName
		},
	} {
		t.Run(kind, func(t *testing.T) {
			var s stores
			defer s.close()
			name := url(t)
			store, err := s.get(name)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := s.get(name); again != store || err != nil {
				t.Error("a reload gets another store:", err)
			}
			claim := idempotency.Claim{ID: idempotency.IDOf("a", "k"), Guarantee: idempotency.GuaranteeHold, Lease: time.Minute, Retention: time.Hour}
			if said, err := store.Begin(t.Context(), claim); err != nil || said.Decision != idempotency.DecisionRun {
				t.Error(said.Decision, err)
			}
		})
	}
}

func TestAStoreThatIsNotThereIsAnErrorWithoutItsPassword(t *testing.T) {
	for _, name := range []string{"redis://:sesame@127.0.0.1:1", "postgres://a:sesame@127.0.0.1:1/x", "mysql://a:sesame@127.0.0.1:1/x", "nats://sesame@127.0.0.1:1", "bolt:/nowhere/keys.db"} {
		var s stores
		if store, err := s.get(name); err == nil || store != nil || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v, %v", name, store, err)
		}
		s.close()
	}
}

// libpq's way to name a server is no URL, and would be taken for a file of SQLite.
func TestSettingsOfAServerAreNoNameOfAFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"host=db user=a password=sesame", "host=db user=a Password=sesame:x", "sqlite:host=db password=sesame"} {
		var s stores
		if _, err := s.get(name); err == nil || strings.Contains(err.Error(), "sesame") || !strings.Contains(err.Error(), "postgres://") {
			t.Errorf("%s: %v", name, err)
		}
		s.close()
	}
	if made, err := os.ReadDir("."); err != nil || len(made) > 0 {
		t.Error(made, err)
	}
}

// bbolt locks its file, so that it shows whether that is closed.
func TestAStoreThatWasClosedOpensAgain(t *testing.T) {
	var s stores
	defer s.close()
	name := "bolt:" + filepath.Join(t.TempDir(), "keys.db")
	first, err := s.get(name)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.get(name); again != first || err != nil {
		t.Error("a second store of the same name:", err)
	}
	s.closeOne(name)
	s.closeOne(name)
	if again, err := s.get(name); again == first || err != nil {
		t.Error("it is not opened again:", err)
	}
}
