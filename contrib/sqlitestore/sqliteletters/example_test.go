package sqliteletters_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gabion-go/gabion/contrib/sqlitestore/sqliteletters"
	"github.com/gabion-go/gabion/messages/deadletter"
)

// A file for the programs of one machine. Letters are there when the program comes back.
func ExampleOpen() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	ctx := context.Background()
	file := filepath.Join(dir, "letters.db")
	store, err := sqliteletters.Open(ctx, file, deadletter.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	payload := []byte("12 to ann")
	err = store.Put(ctx, deadletter.Letter{ID: deadletter.LetterID("payments", "order-7", payload), Group: "payments", Key: "order-7", Payload: payload})
	fmt.Println(err, store.Close())

	store, err = sqliteletters.OpenExisting(ctx, file, deadletter.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	stats, err := store.Stats(ctx, "payments")
	fmt.Println(stats.Letters, err)
	// Output:
	// <nil> <nil>
	// 1 <nil>
}
