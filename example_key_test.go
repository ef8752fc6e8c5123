package gabion_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// keyFiles is a [gabion.KeyStore] of one file per intent. Linking a whole file into
// place is what makes it insert-if-absent, on disk before anybody reads it.
type keyFiles struct{ dir string }

func (k keyFiles) path(intent string) string {
	name := sha256.Sum256([]byte(intent))
	return filepath.Join(k.dir, hex.EncodeToString(name[:]))
}

func (k keyFiles) LoadKey(_ context.Context, intent string) (string, error) {
	key, err := os.ReadFile(k.path(intent))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(key), err
}

func (k keyFiles) InsertKey(_ context.Context, intent, key string) error {
	f, err := os.CreateTemp(k.dir, "new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(key)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), k.path(intent)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if runtime.GOOS == "windows" {
		return nil // it does not sync directories
	}
	dir, err := os.Open(k.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close()) // the name is durable too
}

// An operation that runs again after a crash has the same key.
func ExampleKeyFor() {
	ctx, order := context.Background(), Order{ID: "order-7"}
	bank := &flakyBank{done: map[string]Charge{}}
	dir, err := os.MkdirTemp("", "keys")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	payments := gabion.New("payments", policy.Policy{Key: policy.KeyRequired, Retry: policy.Retry{Attempts: 1}})

	for range 2 { // the second is the restart
		key, resumed, err := gabion.KeyFor(ctx, keyFiles{dir}, "charge "+order.ID)
		if err != nil {
			fmt.Println(err)
			return
		}
		charge, err := gabion.Do(ctx, payments, func(ctx context.Context) (Charge, error) {
			return bank.Charge(ctx, order, gabion.Key(ctx))
		}, gabion.WithKey(key))
		fmt.Println("resumed:", resumed, "charged:", charge.ID, "lost:", errors.Is(err, io.ErrUnexpectedEOF))
	}
	fmt.Println(bank.calls, "calls,", len(bank.done), "charge")
	// Output:
	// resumed: false charged:  lost: true
	// resumed: true charged: ch_order-7 lost: false
	// 2 calls, 1 charge
}

// One key for an operation, and one key derived from it for each of its steps.
func ExampleDeriveKey() {
	authorise := gabion.DeriveKey("acme", "order-7", "authorise")
	capture := gabion.DeriveKey("acme", "order-7", "capture")
	fmt.Println(len(capture), capture == gabion.DeriveKey("acme", "order-7", "capture"))
	fmt.Println(capture == authorise, capture == gabion.DeriveKey("zeta", "order-7", "capture"))
	// Output:
	// 64 true
	// false false
}

// Another provider gets another key, the same one each time. It is not asked while it
// is unknown what the first provider did.
func ExampleFallback() {
	ctx := context.Background()
	first := gabion.New("first bank", policy.Policy{Retry: policy.Retry{Attempts: 1}})
	second := gabion.New("second bank", policy.Policy{})
	charge := func(failure error) (string, error) {
		return gabion.DoOr(ctx, first, func(ctx context.Context) (string, error) {
			return "charged by the first with " + gabion.Key(ctx), failure
		}, gabion.Fallback[string]{
			On: append(gabion.Unavailable(), policy.NotRetryable),
			Answer: func(ctx context.Context, _ error) (string, error) {
				return gabion.Do(ctx, second, func(ctx context.Context) (string, error) {
					return "charged by the second with " + gabion.Key(ctx)[:8], nil
				}, gabion.WithKey(gabion.Key(ctx)))
			},
		}, gabion.WithKey("order-7"))
	}
	fmt.Println(charge(nil))
	fmt.Println(charge(gabion.KeyMalformed)) // refused: nothing happened
	_, err := charge(io.ErrUnexpectedEOF)    // the answer is lost
	fmt.Println(err)
	// Output:
	// charged by the first with order-7 <nil>
	// charged by the second with 293c60d0 <nil>
	// first bank: attempts_exhausted after 1 attempt, may have happened: unexpected EOF
}
