package deadletter_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/deadletter/deadlettertest"
	"github.com/gabion-go/gabion/messages/message"
)

func sealKey(name string) idempotency.SealKey {
	return idempotency.SealKey{Name: name, Secret: bytes.Repeat([]byte(name), 32)}
}

func sealed(t testing.TB, store deadletter.Store, names ...string) deadletter.Store {
	t.Helper()
	var keys []idempotency.SealKey
	for _, name := range names {
		keys = append(keys, sealKey(name))
	}
	s, err := deadletter.NewSealer(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return deadletter.Sealed(store, s)
}

func memory(t testing.TB, o deadletter.Options) deadletter.Store {
	t.Helper()
	m, err := deadletter.NewMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSealedStoreIsAStore(t *testing.T) {
	deadlettertest.Run(t, func(t testing.TB, o deadletter.Options) (deadletter.Store, func(testing.TB) deadletter.Store) {
		return sealed(t, memory(t, o), "a"), nil
	})
}

func secret(key string) deadletter.Letter {
	payload := []byte("SECRET of " + key)
	return deadletter.Letter{
		ID: deadletter.LetterID("g", key, payload), Group: "g", Key: key, Payload: payload, Reason: "permanent",
		Headers: message.Headers{{Name: "Token", Value: "SECRET 1"}, {Name: "Token", Value: "SECRET 2"}},
	}
}

func put(t *testing.T, s deadletter.Store, l deadletter.Letter) {
	t.Helper()
	if err := s.Put(t.Context(), l); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsSealedIsNotReadWithoutItsKey(t *testing.T) {
	m := memory(t, deadletter.Options{})
	old, both, other := sealed(t, m, "a"), sealed(t, m, "b", "a"), sealed(t, m, "b")
	first, second := secret("1"), secret("2")
	put(t, old, first)
	put(t, both, second)
	for _, l := range []deadletter.Letter{first, second} {
		raw, err := m.Get(t.Context(), l.ID)
		if err != nil || bytes.Contains(raw.Payload, []byte("SECRET")) || strings.Contains(raw.Headers[0].Value, "SECRET") || raw.Headers[0].Name != "Token" {
			t.Errorf("in the store: %q, %q, %v", raw.Payload, raw.Headers, err)
		}
		got, err := both.Get(t.Context(), l.ID)
		if err != nil || !bytes.Equal(got.Payload, l.Payload) || got.Headers[1].Value != "SECRET 2" {
			t.Errorf("with both keys: %q, %v", got.Payload, err)
		}
	}
	if _, err := other.Get(t.Context(), first.ID); !errors.Is(err, deadletter.ErrSealed) || !strings.Contains(err.Error(), `there is no key "a"`) {
		t.Errorf("with another key: %v", err)
	}
	p, err := other.List(t.Context(), deadletter.Query{}, "", 0)
	if err != nil || len(p.Letters) != 2 || p.Letters[0].Headers[0] != (message.Header{Name: "Token"}) {
		t.Errorf("a list without the key: %v, %v", p, err)
	}
	// Another letter's payload, another header's value, and what is not sealed at all.
	for n, spoil := range []func(*deadletter.Letter){
		func(l *deadletter.Letter) { raw, _ := m.Get(t.Context(), second.ID); l.Payload = raw.Payload },
		func(l *deadletter.Letter) { l.Headers[0].Value = l.Headers[1].Value },
		func(l *deadletter.Letter) { l.Headers[0].Name = "token" },
		func(l *deadletter.Letter) { l.Payload = []byte("SECRET") },
		func(l *deadletter.Letter) { l.Payload = nil },
		func(l *deadletter.Letter) { l.Payload[len(l.Payload)-1] ^= 1 },
	} {
		raw, _ := m.Get(t.Context(), first.ID)
		raw.Payload = bytes.Clone(raw.Payload)
		spoil(&raw)
		spoilt := memory(t, deadletter.Options{})
		put(t, spoilt, raw)
		if _, err := sealed(t, spoilt, "a", "b").Get(t.Context(), first.ID); !errors.Is(err, deadletter.ErrSealed) {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// A redrive by a consumer without the key loses nothing, and stops by itself.
func TestRedriveWithoutTheKeyStops(t *testing.T) {
	now := time.Unix(1e9, 0)
	m := memory(t, deadletter.Options{Clock: func() time.Time { return now }})
	with, without := sealed(t, m, "a"), sealed(t, m, "b")
	for n := range 12 {
		put(t, with, secret(strings.Repeat("x", n+1)))
	}
	d, err := without.Order(t.Context(), deadletter.Query{Group: "g"}, deadletter.Drive{Rate: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		now = now.Add(time.Second)
		if taken, _, err := without.Take(t.Context(), "g", 1, time.Minute); len(taken) != 0 || !errors.Is(err, deadletter.ErrSealed) {
			t.Errorf("%v, %v", taken, err)
		}
	}
	all, err := m.Drives(t.Context(), "g")
	if err != nil || all[0].ID != d.ID || all[0].State != deadletter.StoppedByItself {
		t.Errorf("%+v, %v", all, err)
	}
	got, err := with.Get(t.Context(), secret("x").ID)
	if err != nil || got.State != deadletter.Waiting || got.Reason != "permanent" || len(got.Failures) != 1 || !strings.Contains(got.Failures[0].Message, "no key") {
		t.Errorf("%v, %v, %v", got, got.Failures, err)
	}
	if s, _ := m.Stats(t.Context(), "g"); s.ByState[deadletter.Waiting] != 12 {
		t.Errorf("%+v", s)
	}
}

func TestSealerSaysAllThatIsWrongWithItsKeys(t *testing.T) {
	for want, keys := range map[string][]idempotency.SealKey{
		"there is no key":        nil,
		"0 bytes, not 1 to 255":  {{Secret: make([]byte, 32)}},
		"31 bytes, less than 32": {{Name: "a", Secret: make([]byte, 31)}},
		"there are two":          {sealKey("a"), sealKey("a")},
	} {
		if _, err := deadletter.NewSealer(keys...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want one with %q", err, want)
		}
	}
}
