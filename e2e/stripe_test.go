package e2e

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/policy"
	"github.com/stripe/stripe-go/v85"
)

// bank is a payment provider that keeps its word about Idempotency-Key and whose
// network does not: after four charges of ten the connection is reset before the
// answer, and one request of ten is refused with 503 before anything happens.
type bank struct {
	mu       sync.Mutex
	charges  map[string]int // by order
	done     map[string]bool
	requests int
	lost     int
}

func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	order, key := r.FormValue("metadata[order]"), r.Header.Get("Idempotency-Key")
	b.mu.Lock()
	b.requests++
	replayed := key != "" && b.done[key]
	busy := !replayed && rand.IntN(10) == 0
	if !replayed && !busy {
		b.charges[order]++
		b.done[key] = true
	}
	lose := !busy && rand.IntN(10) < 4
	if lose {
		b.lost++
	}
	b.mu.Unlock()
	switch {
	case lose:
		reset(w)
	case busy:
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, `{"error":{"type":"api_error","message":"busy"}}`)
	default:
		w.Header().Set("Content-Type", "application/json")
		if replayed {
			w.Header().Set("Idempotent-Replayed", "true")
		}
		fmt.Fprintf(w, `{"id":"pi_%s","object":"payment_intent","status":"succeeded"}`, order)
	}
}

// reset hangs up rudely: the client sees "connection reset by peer".
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

// stripeOver is stripe-go over a dependency: its transport is ours, its own retries
// are off.
func stripeOver(d *gabion.Dependency, url string) (*stripe.Client, *gabionhttp.Transport) {
	return stripeWith(d, url, stripe.Int64(0))
}

// stripeWith is stripe-go over a dependency with the given number of retries of its own; nil is its
// default.
func stripeWith(d *gabion.Dependency, url string, retries *int64) (*stripe.Client, *gabionhttp.Transport) {
	transport := &gabionhttp.Transport{Dependency: d}
	backends := stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL:               stripe.String(url),
		HTTPClient:        &http.Client{Transport: transport},
		MaxNetworkRetries: retries,
		LeveledLogger:     &stripe.LeveledLogger{Level: stripe.LevelNull},
	})
	return stripe.NewClient("sk_test_local", stripe.WithBackends(backends)), transport
}

// stripe-go under gabion, with a network that loses answers: every order is paid
// once, and none twice.
func TestStripeChargesNobodyTwice(t *testing.T) {
	b := &bank{charges: map[string]int{}, done: map[string]bool{}}
	s := httptest.NewServer(b)
	defer s.Close()
	var events gabiontest.Recorder
	payments := gabion.New("payments", policy.Policy{
		Key: policy.KeyRequired, // a charge without a key is refused before it leaves
		Retry: policy.Retry{
			Attempts: 8,
			Backoff:  backoff.Full(time.Millisecond, 10*time.Millisecond),
			Budget:   policy.Budget{Off: true}, // four of ten answers are lost: no budget is meant for that
		},
		Breaker: policy.Breaker{Off: true},
	}, gabion.WithObserver(&events))
	bank, transport := stripeOver(payments, s.URL)

	const orders = 200
	var paid, failed int
	for i := range orders {
		order := fmt.Sprint("order-", i)
		params := &stripe.PaymentIntentCreateParams{Amount: stripe.Int64(500), Currency: stripe.String("eur")}
		params.AddMetadata("order", order)
		params.SetIdempotencyKey(order)
		intent, err := bank.V1PaymentIntents.Create(t.Context(), params)
		switch {
		case err == nil && intent.ID == "pi_"+order:
			paid++
		case gabion.EffectOf(err) == policy.UnknownEffect:
			failed++ // and says so
		default:
			t.Errorf("%s: %v", order, err)
		}
	}
	for order, n := range b.charges {
		if n != 1 {
			t.Errorf("%s was charged %d times", order, n)
		}
	}
	if len(b.charges) < paid || b.lost < orders/10 || paid < orders*9/10 {
		t.Errorf("%d charges for %d paid orders, %d answers lost", len(b.charges), paid, b.lost)
	}
	// Every request that arrived is an attempt that gabion knows of, or a hidden
	// re-send of net/http's that it counted.
	if known := events.Load().Attempts + int(transport.Hidden()); b.requests != known {
		t.Errorf("%d requests arrived, gabion knows of %d", b.requests, known)
	}
	t.Logf("%d orders, %d paid, %d in doubt, %d requests, %d answers lost, %d hidden re-sends",
		orders, paid, failed, b.requests, b.lost, transport.Hidden())
	gabiontest.NothingHeld(t, payments)
}

// keeper is a payment provider whose keys are kept by idempotency.Handler. Before it
// lies a network that resets connections, some before the request got through and
// more after it was carried out; and one charge in ten is refused before it begins.
type keeper struct {
	keys http.Handler

	mu      sync.Mutex
	charges map[string]int // by order
	lost    int            // answers
}

func newKeeper(t *testing.T) *keeper {
	k := &keeper{charges: map[string]int{}}
	account := func(r *http.Request) string { return r.Header.Get("Authorization") }
	h, err := idempotency.New(account, idempotency.NewMemoryStore(0, 0), http.HandlerFunc(k.charge), idempotency.Config{})
	if err != nil {
		t.Fatal(err)
	}
	k.keys = h
	return k
}

func (k *keeper) charge(w http.ResponseWriter, r *http.Request) {
	if rand.IntN(10) == 0 {
		idempotency.NoEffect(r.Context())
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, `{"error":{"type":"api_error","message":"busy"}}`)
		return
	}
	order := r.FormValue("metadata[order]")
	k.mu.Lock()
	k.charges[order]++
	k.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"pi_%s","object":"payment_intent","status":"succeeded"}`, order)
}

func (k *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fate := rand.IntN(10)
	if fate < 2 {
		reset(w)
		return
	}
	answer := httptest.NewRecorder()
	k.keys.ServeHTTP(answer, r)
	if fate < 5 {
		k.mu.Lock()
		k.lost++
		k.mu.Unlock()
		reset(w)
		return
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	w.Write(answer.Body.Bytes())
}

// stripe-go as it comes, with its own two retries over gabion's, and with keys of its own for every
// other order: both layers send again and again, and no customer is charged twice.
func TestStripeWithItsOwnRetriesChargesOnce(t *testing.T) {
	k := newKeeper(t)
	s := httptest.NewServer(k)
	defer s.Close()
	var events gabiontest.Recorder
	payments := gabion.New("payments", policy.Policy{
		Key: policy.KeyRequired,
		Retry: policy.Retry{
			Attempts: 2, // few, so that stripe-go's retries are needed too
			Backoff:  backoff.Full(time.Millisecond, 10*time.Millisecond),
			Budget:   policy.Budget{Off: true}, // half of the network is broken: no budget is meant for that
		},
		Breaker: policy.Breaker{Off: true},
	}, gabion.WithObserver(&events))
	bank, _ := stripeWith(payments, s.URL, nil)

	const orders = 100
	var paid [orders]bool
	var pay sync.WaitGroup
	for i := range orders {
		pay.Go(func() {
			order := fmt.Sprint("order-", i)
			params := &stripe.PaymentIntentCreateParams{Amount: stripe.Int64(500), Currency: stripe.String("eur")}
			params.AddMetadata("order", order)
			if i%2 == 0 {
				params.SetIdempotencyKey(order)
			}
			intent, err := bank.V1PaymentIntents.Create(t.Context(), params)
			if paid[i] = err == nil; paid[i] && intent.ID != "pi_"+order {
				t.Errorf("%s was answered with %s", order, intent.ID)
			}
		})
	}
	pay.Wait()
	k.mu.Lock() // an attempt that its client gave up may still be at the server
	defer k.mu.Unlock()
	n := 0
	for i := range orders {
		order := fmt.Sprint("order-", i)
		if c := k.charges[order]; c > 1 || paid[i] && c != 1 {
			t.Errorf("%s was charged %d times, paid %v", order, c, paid[i])
		}
		if paid[i] {
			n++
		}
	}
	load := events.Load()
	if n < orders*8/10 || k.lost < orders/10 || load.Calls <= orders || load.Attempts <= load.Calls {
		t.Errorf("%d of %d paid, %d answers lost, %d calls by stripe-go, %d attempts by gabion", n, orders, k.lost, load.Calls, load.Attempts)
	}
	t.Logf("%d of %d paid, %d answers lost, %d calls by stripe-go, %d attempts by gabion", n, orders, k.lost, load.Calls, load.Attempts)
	gabiontest.NothingHeld(t, payments)
}

// What stripe-go makes of an answer is what it makes without gabion: a declined card
// is an answer and is asked for once.
func TestStripeSeesADeclinedCard(t *testing.T) {
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		w.WriteHeader(http.StatusPaymentRequired)
		io.WriteString(w, `{"error":{"type":"card_error","code":"card_declined","message":"no"}}`)
	}))
	defer s.Close()
	bank, _ := stripeOver(gabion.New("payments", policy.Policy{}), s.URL)
	_, err := bank.V1PaymentIntents.Create(t.Context(), &stripe.PaymentIntentCreateParams{Amount: stripe.Int64(500), Currency: stripe.String("eur")})
	var declined *stripe.Error
	if !errors.As(err, &declined) || declined.Code != stripe.ErrorCodeCardDeclined || n != 1 {
		t.Errorf("%d requests, %v", n, err)
	}
}
