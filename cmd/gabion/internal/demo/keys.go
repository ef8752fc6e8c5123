package demo

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"github.com/gabion-go/gabion/contrib/boltstore"
	"github.com/gabion-go/gabion/idempotency"
)

// patience is how long a repeated request waits for the first one with its key.
const patience = 5 * time.Second

// keys are the provider's records of idempotency keys, in a file that is synced
// before a charge begins and before it is answered, as those of a real one would be.
type keys struct {
	store   *boltstore.Store
	handler http.Handler
}

// openKeys makes work be done once for each key, and once for each request without
// one.
func openKeys(dir, name string, work http.HandlerFunc) (*keys, error) {
	store, err := boltstore.Open(filepath.Join(dir, name+".keys"), boltstore.Options{})
	if err != nil {
		return nil, err
	}
	// The providers have one customer each. What the plan breaks is counted, not logged.
	h, err := idempotency.New(idempotency.Global, store, work, idempotency.Config{
		Optional: true, RunnerConfig: idempotency.RunnerConfig{Wait: patience, Observer: idempotency.LogTo(slog.New(slog.DiscardHandler))},
	})
	if err != nil {
		_ = store.Close()
		return nil, err
	}
	return &keys{store, h}, nil
}

type paymentKey struct{}

// in puts a payment where the work finds it.
func (p payment) in(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), paymentKey{}, p))
}

func paymentOf(ctx context.Context) payment { return ctx.Value(paymentKey{}).(payment) }
