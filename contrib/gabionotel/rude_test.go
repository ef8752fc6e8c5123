package gabionotel_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionotel"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// What the program's own span processor does takes nothing from calls.
func TestASpanProcessorThatPanicsOrLeavesTakesNothing(t *testing.T) {
	for name, rude := range map[string]func(){"panics": func() { panic("processor") }, "leaves": runtime.Goexit} {
		for _, hedge := range []int{0, 1} {
			for _, at := range []string{"start", "end"} {
				t.Run(fmt.Sprint(name, "/", at, "/hedge=", hedge), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						p := once
						p.Hedge = policy.Hedge{Off: hedge == 0, Max: hedge, Delay: 50 * time.Millisecond, Percentile: policy.Off}
						provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(impolite{at: at, do: rude}))
						d := gabion.New("db", p, gabion.WithLogger(slog.New(slog.DiscardHandler)))
						stop := d.Observe(gabionotel.New(gabionotel.Config{TracerProvider: provider, NoMetrics: true}))
						for range 3 {
							ran := 0
							do(t.Context(), d, func(ctx context.Context) (int, error) {
								ran++
								return takes(time.Millisecond)(ctx)
							})
							if name == "panics" && ran != 1 {
								t.Errorf("the work ran %d times", ran)
							}
							do(t.Context(), d, takes(time.Second))
						}
						stop()
						synctest.Wait()
						gabiontest.NothingHeld(t, d)
						if _, err := gabion.Do(t.Context(), d, takes(time.Second)); err != nil {
							t.Error(err)
						}
					})
				})
			}
		}
	}
}

// impolite is a span processor that does something rude.
type impolite struct {
	drop
	at string
	do func()
}

func (i impolite) OnStart(context.Context, sdktrace.ReadWriteSpan) {
	if i.at == "start" {
		i.do()
	}
}

func (i impolite) OnEnd(sdktrace.ReadOnlySpan) {
	if i.at == "end" {
		i.do()
	}
}
