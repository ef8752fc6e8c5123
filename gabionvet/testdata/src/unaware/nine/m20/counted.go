package counted

import (
	"net/http"

	"github.com/sony/gobreaker"
)

type transport struct {
	next http.RoundTripper
	cb   *gobreaker.CircuitBreaker
}

func Wrap(next http.RoundTripper, name string) http.RoundTripper {
	return &transport{next: next, cb: gobreaker.NewCircuitBreaker(gobreaker.Settings{Name: name})}
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	v, err := t.cb.Execute(func() (any, error) {
		return t.next.RoundTrip(r)
	})
	if err != nil {
		return nil, err
	}
	return v.(*http.Response), nil
}
