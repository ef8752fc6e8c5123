package gabionslog_test

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabionslog"
	"github.com/gabion-go/gabion/policy"
)

func ExampleObserver() {
	lines := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTimes}))
	d := gabion.New("bank", policy.Policy{}, gabion.WithObserver(&gabionslog.Observer{Logger: lines}))
	d.Run(context.Background(), func(context.Context) error {
		return classify.Transient(errors.New("connection reset"))
	}, gabion.WithOperation("charge"))
	// Output:
	// level=WARN msg="gabion: returned" dependency=bank operation=charge reason=not_safe attempts=1 effect=unknown last_attempt=server why="a repetition might do the work twice"
}

// withoutTimes keeps the example the same every time: it drops times, and the number of
// the call, which counts the calls of the process.
func withoutTimes(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey || a.Key == "took" || a.Key == "call" {
		return slog.Attr{}
	}
	return a
}
