package gabionaws_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionaws"
	"github.com/gabion-go/gabion/policy"
)

// answers is an HTTP client without a network, for tests of time.
type answers func(n int, r *http.Request) (*http.Response, error)

// Do implements aws.HTTPClient.
type client struct {
	answers
	asked atomic.Int64
}

func (c *client) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
	}
	return c.answers(int(c.asked.Add(1)), r)
}

func answer(r *http.Request, status int, body string, header ...string) *http.Response {
	h := http.Header{"Content-Type": {"application/x-amz-json-1.0"}}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{
		StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}

func silent(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// inBubble runs a test in virtual time and counts the goroutines that it leaves.
func inBubble(t *testing.T, p policy.Policy, a answers, f func(*testing.T, *client, aws.Config, *gabion.Dependency)) {
	synctest.Test(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		c, d := &client{answers: a}, gabion.New("aws", p)
		cfg := aws.Config{
			Region: "eu-central-1", BaseEndpoint: aws.String("http://aws.test"), HTTPClient: c,
			Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		}
		gabionaws.Configure(&cfg, d)
		f(t, c, cfg, d)
		synctest.Wait()
		nothingHeld(t, d)
		if n := runtime.NumGoroutine(); n > before+1 { // the dependency's own timer
			t.Errorf("%d goroutines, %d before", n, before)
		}
	})
}

const throttle = `{"__type":"ThrottlingException","message":"slow down"}`

// The time that the service names is waited for, in its own header and in HTTP's.
func TestTheServicesTimeIsWaitedFor(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		least       time.Duration
	}{
		{"X-Amz-Retry-After", "1500", 1500 * time.Millisecond},
		{"X-Amz-Retry-After", "-1", 0},
		{"X-Amz-Retry-After", "soon", 0},
		{"Retry-After", "2", 2 * time.Second},
	} {
		t.Run(tt.name+" "+tt.value, func(t *testing.T) {
			a := func(n int, r *http.Request) (*http.Response, error) {
				if n == 1 {
					return answer(r, 400, throttle, tt.name, tt.value), nil
				}
				return answer(r, 200, `{}`), nil
			}
			inBubble(t, quick(), a, func(t *testing.T, c *client, cfg aws.Config, _ *gabion.Dependency) {
				began := time.Now()
				_, err := dynamodb.NewFromConfig(cfg).PutItem(t.Context(), put())
				if took := time.Since(began); err != nil || took < tt.least || took > tt.least+time.Second {
					t.Errorf("it took %v, want %v: %v", took, tt.least, err)
				}
			})
		})
	}
}

// An attempt that is cut off is repeated if that is safe, and the error says what ended it.
func TestAttemptsHaveTheirTimeout(t *testing.T) {
	p := quick()
	p.Timeout = policy.Timeout{Attempt: time.Second, Call: 10 * time.Second, Last: time.Second}
	a := func(n int, r *http.Request) (*http.Response, error) { return silent(r) }
	inBubble(t, p, a, func(t *testing.T, c *client, cfg aws.Config, _ *gabion.Dependency) {
		_, err := dynamodb.NewFromConfig(cfg).PutItem(t.Context(), put())
		if n := c.asked.Load(); n != 3 || !errors.Is(err, context.DeadlineExceeded) || gabion.EffectOf(err) != policy.UnknownEffect {
			t.Errorf("%d attempts, effect %v: %v", n, gabion.EffectOf(err), err)
		}
	})
}

// The caller's cancel ends the call at once and says nothing of the service.
func TestTheCallerMayGiveUp(t *testing.T) {
	a := func(n int, r *http.Request) (*http.Response, error) { return silent(r) }
	inBubble(t, quick(), a, func(t *testing.T, c *client, cfg aws.Config, d *gabion.Dependency) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := dynamodb.NewFromConfig(cfg).PutItem(ctx, put())
		if !errors.Is(err, context.Canceled) || c.asked.Load() != 1 {
			t.Errorf("after %d attempts: %v", c.asked.Load(), err)
		}
		if n := d.Stats().Partitions[0].Breaker.Counts.Failures; n != 0 {
			t.Errorf("%d failures", n)
		}
	})
}

// The SDK's middleware is for one attempt at a time, so that no call is hedged.
func TestCallsAreNotHedged(t *testing.T) {
	p := quick()
	p.Hedge = policy.Hedge{Max: 1, Delay: 100 * time.Millisecond}
	a := func(n int, r *http.Request) (*http.Response, error) {
		time.Sleep(time.Second)
		return answer(r, 200, `{}`), nil
	}
	inBubble(t, p, a, func(t *testing.T, c *client, cfg aws.Config, d *gabion.Dependency) {
		_, err := dynamodb.NewFromConfig(cfg).GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("t"), Key: item})
		if err != nil || c.asked.Load() != 1 {
			t.Errorf("after %d attempts: %v", c.asked.Load(), err)
		}
	})
}

// A body that brings nothing is cut by timeout.idle, and one that is not read is not.
func TestSilentBodiesAreCut(t *testing.T) {
	p := quick()
	p.Timeout.Idle = 5 * time.Second
	a := func(n int, r *http.Request) (*http.Response, error) {
		resp := answer(r, 200, "")
		resp.Body, resp.ContentLength = until{r.Context()}, -1
		return resp, nil
	}
	inBubble(t, p, a, func(t *testing.T, c *client, cfg aws.Config, d *gabion.Dependency) {
		out, err := s3.NewFromConfig(cfg).GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String("k")})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		began := time.Now()
		_, err = io.ReadAll(out.Body)
		if took := time.Since(began); err == nil || took != 5*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		out.Body.Close()
	})
}

// until is a body without a byte.
type until struct{ context.Context }

func (u until) Read([]byte) (int, error) { <-u.Done(); return 0, u.Err() }
func (u until) Close() error             { return nil }

// What gabion refuses is not sent, and work that panics leaves nothing behind.
func TestRefusalsAndPanics(t *testing.T) {
	p := quick()
	p.Breaker.Consecutive = 1
	a := func(n int, r *http.Request) (*http.Response, error) {
		if n == 1 {
			panic("a client of the user's making")
		}
		return answer(r, 500, `{}`), nil
	}
	inBubble(t, p, a, func(t *testing.T, c *client, cfg aws.Config, d *gabion.Dependency) {
		table := dynamodb.NewFromConfig(cfg)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is lost")
				}
			}()
			table.PutItem(t.Context(), put())
		}()
		table.PutItem(t.Context(), put())
		sent := c.asked.Load()
		_, err := table.PutItem(t.Context(), put())
		if !errors.Is(err, policy.BreakerOpen) || gabion.EffectOf(err) != policy.NoEffect || c.asked.Load() != sent {
			t.Errorf("%d sent: %v", c.asked.Load()-sent, err)
		}
		s3.NewFromConfig(cfg).ListBuckets(t.Context(), nil)
		if c.asked.Load() == sent {
			t.Error("another service is refused too")
		}
	})
}
