package idempotency

import (
	"context"
)

// sealedAdmin is what a sealed store has of [Admin] beside a [Store]. Lists have no
// results and no data, so nothing in them is sealed.
type sealedAdmin struct{ admin Admin }

// Now implements [Admin].
func (s sealedAdmin) Now(ctx context.Context) (Moment, error) { return s.admin.Now(ctx) }

// List implements [Admin].
func (s sealedAdmin) List(ctx context.Context, cursor string, limit int) (Page, error) {
	return s.admin.List(ctx, cursor, limit)
}

// Forget implements [Admin].
func (s sealedAdmin) Forget(ctx context.Context, ref Ref) error { return s.admin.Forget(ctx, ref) }

// sealedAround returns the sealed store that can do what the other can.
func sealedAround(s *sealedStore) Store {
	tx, transacts := s.Store.(TxStore)
	admin, administers := s.Store.(Admin)
	switch {
	case transacts && administers:
		return struct {
			*sealedTxStore
			sealedAdmin
		}{&sealedTxStore{s, tx}, sealedAdmin{admin}}
	case transacts:
		return &sealedTxStore{s, tx}
	case administers:
		return struct {
			*sealedStore
			sealedAdmin
		}{s, sealedAdmin{admin}}
	}
	return s
}
