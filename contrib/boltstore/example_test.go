package boltstore_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/gabion-go/gabion/contrib/boltstore"
	"github.com/gabion-go/gabion/idempotency"
)

// A service without a database keeps its records in a file. The client that heard no
// answer asks again after a restart, and the card is charged once.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	charge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("charging")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "ch_1")
	})
	for range 2 {
		store, err := boltstore.Open(filepath.Join(dir, "idempotency.db"), boltstore.Options{})
		if err != nil {
			fmt.Println(err)
			return
		}
		h, err := idempotency.New(idempotency.Global, store, charge, idempotency.Config{})
		if err != nil {
			fmt.Println(err)
			return
		}
		r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader("12 EUR"))
		r.Header.Set("Idempotency-Key", `"order-77"`)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body, "replayed:", w.Header().Get("Idempotent-Replayed") == "true")
		store.Close()
	}
	// Output:
	// charging
	// 201 ch_1 replayed: false
	// 201 ch_1 replayed: true
}
