// Command first is the first program of docs/get-started.md: a client under gabion's
// defaults.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: first URL")
		os.Exit(2)
	}
	shop := gabion.New("shop", policy.Policy{}) // one for each thing that you call; keep it
	client := &http.Client{Transport: &gabionhttp.Transport{Dependency: shop}}

	if err := get(context.Background(), os.Stdout, client, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, explain(err))
		os.Exit(1)
	}
}

// get makes one request and says what became of it.
func get(ctx context.Context, to io.Writer, client *http.Client, url string) error {
	var verdict gabionhttp.LastVerdict
	req, err := http.NewRequestWithContext(gabionhttp.WithVerdict(ctx, &verdict), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	fmt.Fprintf(to, "%s, attempts: %d\n", resp.Status, verdict.Attempts())
	return nil
}

// explain says what happened and what to do. http.Client wraps every error in one of its
// own, which has no long form.
func explain(err error) string {
	if failed, ok := errors.AsType[*gabion.Error](err); ok {
		return fmt.Sprintf("%+v", failed)
	}
	return err.Error()
}
