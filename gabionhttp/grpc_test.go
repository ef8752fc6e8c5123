package gabionhttp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

// frame is a message of gRPC, or what stands in its place.
func frame(flags byte, payload string) string {
	return string(append([]byte{flags}, binary.BigEndian.AppendUint32(nil, uint32(len(payload)))...)) + payload
}

func zipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, s)
	w.Close()
	return b.String()
}

// An answer of gRPC, written by hand: headers, what is in the body, trailers.
type rpcAnswer struct {
	kind    string // the Content-Type; empty means application/grpc
	header  map[string]string
	body    []string // written and flushed one by one
	trailer map[string]string
}

func (a rpcAnswer) write(w http.ResponseWriter) {
	kind := a.kind
	if kind == "" {
		kind = "application/grpc"
	}
	w.Header().Set("Content-Type", kind)
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	if a.body != nil || a.trailer != nil {
		http.NewResponseController(w).Flush()
	}
	for _, b := range a.body {
		io.WriteString(w, b)
		http.NewResponseController(w).Flush()
	}
	for name, value := range a.trailer {
		w.Header().Set(http.TrailerPrefix+name, value)
	}
}

func status(code policy.GRPCCode) map[string]string {
	return map[string]string{"Grpc-Status": strconv.Itoa(int(code))}
}

func also(m map[string]string, name, value string) map[string]string { m[name] = value; return m }

// What an answer of gRPC says counts, and not its HTTP status of 200: in headers, in
// trailers, or in the last frame.
func TestIssue15_AnswersOfGRPCAreReadByTheirStatus(t *testing.T) {
	ok, message := status(grpccode.OK), frame(0, "message")
	down := func() map[string]string { return status(grpccode.Unavailable) }
	for _, c := range []struct {
		fact     string
		answer   rpcAnswer
		requests int // of three attempts
		failures int // that the breaker counts
		reason   policy.Reason
	}{
		{"a success", rpcAnswer{body: []string{message}, trailer: ok}, 1, 0, policy.None},
		{"unavailable, trailers only", rpcAnswer{header: down()}, 3, 3, policy.AttemptsExhausted},
		{"unavailable, in trailers without a message", rpcAnswer{trailer: down()}, 3, 3, policy.AttemptsExhausted},
		{"unavailable, after a message: it can't be taken back", rpcAnswer{body: []string{message}, trailer: down()}, 1, 1, policy.None},
		{"not found is an answer", rpcAnswer{header: status(grpccode.NotFound)}, 1, 0, policy.NotRetryable},
		{"not found after a message is no failure", rpcAnswer{body: []string{message}, trailer: status(grpccode.NotFound)}, 1, 0, policy.None},
		{"a bug is a failure, and not known to be transient", rpcAnswer{header: status(grpccode.Internal)}, 1, 1, policy.UnclassifiedError},
		{"a quota is the caller's matter", rpcAnswer{header: status(grpccode.ResourceExhausted)}, 1, 0, policy.NotRetryable},
		{"a conflict is repeated, and no failure", rpcAnswer{header: status(grpccode.Aborted)}, 15, 0, policy.AttemptsExhausted},
		{"an unknown code", rpcAnswer{header: map[string]string{"Grpc-Status": "99"}}, 1, 1, policy.UnclassifiedError},
		{"a code that is no number", rpcAnswer{header: map[string]string{"Grpc-Status": "down"}}, 1, 1, policy.UnclassifiedError},
		{"no status at all", rpcAnswer{trailer: map[string]string{"Other": "x"}}, 1, 1, policy.UnclassifiedError},
		{"no status after a message", rpcAnswer{body: []string{message}}, 1, 1, policy.None},
		{"a codec and a charset", rpcAnswer{kind: "application/grpc+json; charset=utf-8", header: down()}, 3, 3, policy.AttemptsExhausted},
		{"something else", rpcAnswer{kind: "application/grpcish", header: down()}, 1, 0, policy.None},
		{"a pushback of never", rpcAnswer{header: also(down(), "Grpc-Retry-Pushback-Ms", "-1")}, 1, 1, policy.DoNotRetry},
		{"a pushback that is no number", rpcAnswer{header: also(down(), "Grpc-Retry-Pushback-Ms", "abc")}, 1, 1, policy.DoNotRetry},
		{"a pushback in trailers", rpcAnswer{trailer: also(down(), "Grpc-Retry-Pushback-Ms", "-1")}, 1, 1, policy.DoNotRetry},
		{"gRPC-Web, headers only", rpcAnswer{kind: "application/grpc-web+proto", header: down()}, 3, 3, policy.AttemptsExhausted},
		{"gRPC-Web, no message", rpcAnswer{kind: "application/grpc-web", body: []string{frame(0x80, "grpc-status: 14\r\ngrpc-message: down\r\n")}}, 3, 3, policy.AttemptsExhausted},
		{"gRPC-Web, byte by byte", rpcAnswer{kind: "application/grpc-web", body: strings.Split(frame(0x80, "grpc-status:14\r\n"), "")}, 3, 3, policy.AttemptsExhausted},
		{"gRPC-Web, after a message", rpcAnswer{kind: "application/grpc-web", body: []string{message, strings.Repeat(message, 500), frame(0x80, "grpc-status: 14\r\n")}}, 1, 1, policy.None},
		{"gRPC-Web, a success", rpcAnswer{kind: "application/grpc-web", body: []string{message, frame(0x80, "grpc-status: 0\r\n")}}, 1, 0, policy.None},
		{"gRPC-Web, a message in pieces", rpcAnswer{kind: "application/grpc-web", body: []string{message[:7], message[7:], frame(0x80, "grpc-status: 0\r\n")}}, 1, 0, policy.None},
		{"Connect, a stream that fails", rpcAnswer{kind: "application/connect+proto", body: []string{frame(2, `{"error":{"code":"unavailable"}}`)}}, 3, 3, policy.AttemptsExhausted},
		{"Connect, compressed", rpcAnswer{kind: "application/connect+json", header: map[string]string{"Connect-Content-Encoding": "gzip"}, body: []string{frame(3, zipped(`{"error":{"code":"unavailable"}}`))}}, 3, 3, policy.AttemptsExhausted},
		{"Connect, compressed in an unknown way", rpcAnswer{kind: "application/connect+json", header: map[string]string{"Connect-Content-Encoding": "zstd"}, body: []string{frame(3, "????")}}, 1, 0, policy.None},
		{"Connect, a stream that ends well", rpcAnswer{kind: "application/connect+proto", body: []string{message, frame(2, `{}`)}}, 1, 0, policy.None},
		{"Connect, a stream that is cut off", rpcAnswer{kind: "application/connect+proto", body: []string{message}}, 1, 1, policy.None},
		{"Connect, never again", rpcAnswer{kind: "application/connect+proto", body: []string{frame(2, `{"error":{"code":"unavailable"},"metadata":{"grpc-retry-pushback-ms":["-1"]}}`)}}, 1, 1, policy.DoNotRetry},
		{"Connect, an unknown code", rpcAnswer{kind: "application/connect+proto", body: []string{frame(2, `{"error":{"code":"tired"}}`)}}, 1, 1, policy.UnclassifiedError},
	} {
		bubble(t, c.fact, func(t *testing.T) {
			var requests atomic.Int32
			s := servePipedH2(t, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
				c.answer.write(w)
			})
			p := with(eager(), func(p *policy.Policy) {
				p.Breaker.Off, p.Breaker.Observe, p.Safe, p.Retry.Attempts = false, true, true, 3
			})
			hc, d := client(t, p, base(t, s))
			resp, err := hc.Do(request(t, "POST", s.URL+"/a.B/C", frame(0, "question")))
			if err != nil {
				t.Fatal(err)
			}
			body := read(t, resp)
			if want := strings.Join(c.answer.body, ""); body != want {
				t.Errorf("the caller reads %q, want %q", body, want)
			}
			v := gabionhttp.Verdict(resp)
			if c.reason == policy.None && v != nil || c.reason != policy.None && (v == nil || v.Reason != c.reason) {
				t.Errorf("verdict %v, want %v", v, c.reason)
			}
			if n := int(requests.Load()); n != c.requests {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
			if n := failures(d); n != c.failures {
				t.Errorf("the breaker counts %d failures, want %d", n, c.failures)
			}
			if c.answer.trailer != nil && resp.Trailer.Get("Grpc-Status") != c.answer.trailer["Grpc-Status"] {
				t.Errorf("the caller reads the trailers %v", resp.Trailer)
			}
			gabiontest.NothingHeld(t, d)
		})
	}
}

// failures are those that the breakers of d have counted.
func failures(d *gabion.Dependency) (n int) {
	for _, p := range d.Stats().Partitions {
		n += int(p.Breaker.Counts.Failures)
	}
	return n
}

// Lists of codes in the policy count.
func TestTheListsOfCodesCount(t *testing.T) {
	for _, c := range []struct {
		fact     string
		codes    policy.GRPC
		code     policy.GRPCCode
		requests int32
	}{
		{"a quota that passes", policy.GRPC{Transient: []policy.GRPCCode{grpccode.ResourceExhausted}}, grpccode.ResourceExhausted, 3},
		{"an outage that stays", policy.GRPC{Permanent: []policy.GRPCCode{grpccode.Unavailable}}, grpccode.Unavailable, 1},
	} {
		bubble(t, c.fact, func(t *testing.T) {
			s := servePipedH2(t, nil)
			s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s.requests.Add(1)
				rpcAnswer{header: status(c.code)}.write(w)
			})
			hc, _ := client(t, with(eager(), func(p *policy.Policy) { p.GRPC, p.Safe, p.Retry.Attempts = c.codes, true, 3 }), base(t, s))
			resp, err := hc.Do(request(t, "POST", s.URL, "x"))
			if err != nil {
				t.Fatal(err)
			}
			read(t, resp)
			if n := s.requests.Load(); n != c.requests {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// A stream is not held up: its headers are handed on after a moment, though its first message
// is an hour away, and at once if the request is a stream as well. Its failure counts once.
func TestStreamsOfGRPCAreNotHeldUp(t *testing.T) {
	for _, c := range []struct {
		fact    string
		live    bool
		attempt time.Duration
		most    time.Duration
	}{
		{"a request with a body of known length", false, 5 * time.Second, 100 * time.Millisecond},
		{"an attempt that has hardly any time left", false, 60 * time.Millisecond, 30 * time.Millisecond},
		{"a request that is a stream as well", true, 5 * time.Second, 0},
	} {
		bubble(t, c.fact, func(t *testing.T) {
			s := servePipedH2(t, func(w http.ResponseWriter, r *http.Request) {
				rpcAnswer{body: []string{}}.write(w)
				time.Sleep(20 * time.Second)
				rpcAnswer{body: []string{frame(0, "late")}, trailer: status(grpccode.Unavailable)}.write(w)
			})
			hc, d := client(t, with(eager(), func(p *policy.Policy) {
				p.Breaker.Off, p.Breaker.Observe, p.Safe, p.Timeout.Attempt = false, true, true, c.attempt
			}), base(t, s))
			req := request(t, "POST", s.URL, "x")
			pr, pw := io.Pipe()
			if c.live {
				req.Body, req.GetBody, req.ContentLength = pr, nil, -1
			}
			began := time.Now()
			resp, err := hc.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if d := time.Since(began); d > c.most {
				t.Errorf("the headers came after %v", d)
			}
			pw.Close()
			if got := read(t, resp); got != frame(0, "late") {
				t.Errorf("got %q", got)
			}
			if n := failures(d); n != 1 {
				t.Errorf("%d failures", n)
			}
			gabiontest.NothingHeld(t, d)
		})
	}
}

// A stream that is closed before its end leaves nothing behind.
func TestAStreamOfGRPCThatIsLeft(t *testing.T) {
	for _, some := range []int{0, 3, 5} {
		bubble(t, strconv.Itoa(some)+" bytes of it were read", func(t *testing.T) {
			s := servePipedH2(t, func(w http.ResponseWriter, r *http.Request) {
				rpcAnswer{body: []string{frame(0, "")}}.write(w)
				<-r.Context().Done()
			})
			hc, d := client(t, with(eager(), func(p *policy.Policy) { p.Breaker.Off, p.Breaker.Observe, p.Safe = false, true, true }), base(t, s))
			resp, err := hc.Do(request(t, "POST", s.URL, "x"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(resp.Body, make([]byte, some)); err != nil {
				t.Error(err)
			}
			resp.Body.Close()
			if n := failures(d); n != 0 {
				t.Errorf("%d failures", n)
			}
			gabiontest.NothingHeld(t, d)
		})
	}
}

// An answer that breaks off before its first message is an attempt that failed.
func TestAnAnswerOfGRPCThatBreaksOff(t *testing.T) {
	bubble(t, "before its first message", func(t *testing.T) {
		s := servePipedH2(t, nil)
		s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if s.requests.Add(1) < 3 {
				rpcAnswer{body: []string{}}.write(w)
				panic(http.ErrAbortHandler)
			}
			rpcAnswer{body: []string{frame(0, "at last")}, trailer: status(grpccode.OK)}.write(w)
		})
		hc, d := client(t, with(eager(), func(p *policy.Policy) { p.Safe, p.Retry.Attempts = true, 3 }), base(t, s))
		resp, err := hc.Do(request(t, "POST", s.URL, "x"))
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, resp); got != frame(0, "at last") || s.requests.Load() != 3 {
			t.Errorf("got %q after %d", got, s.requests.Load())
		}
		gabiontest.NothingHeld(t, d)
	})
}

// A pushback is waited for exactly, and an Admission's refusal is believed of our own.
func TestWhatAServerOfGRPCAsksFor(t *testing.T) {
	refused := func(code policy.GRPCCode, pushback string) map[string]string {
		return also(also(status(code), gabionhttp.HeaderRefused, "queue-full"), "Grpc-Retry-Pushback-Ms", pushback)
	}
	for _, c := range []struct {
		fact     string
		trust    policy.Trust
		safe     bool
		header   map[string]string
		requests int32
		waited   time.Duration
		failures int
	}{
		{"a pushback is waited for", policy.External, true, also(status(grpccode.Unavailable), "Grpc-Retry-Pushback-Ms", "1234"), 2, 1234 * time.Millisecond, 1},
		{"a refusal by a server of ours is repeated, and no failure", policy.Internal, false, refused(grpccode.Unavailable, "1500"), 2, 1500 * time.Millisecond, 0},
		{"a tenant's share too", policy.Internal, false, refused(grpccode.ResourceExhausted, "1500"), 2, 1500 * time.Millisecond, 0},
		{"a refusal by others is not believed", policy.External, false, refused(grpccode.Unavailable, "1500"), 1, 0, 0},
		{"a refusal in an overload is not repeated", policy.Internal, true, refused(grpccode.Unavailable, "-1"), 1, 0, 0},
		{"who gave up has done work", policy.Internal, false, also(refused(grpccode.Unavailable, "0"), gabionhttp.HeaderGaveUp, "x"), 1, 0, 1},
	} {
		bubble(t, c.fact, func(t *testing.T) {
			s := servePipedH2(t, nil)
			s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if s.requests.Add(1) == 1 {
					rpcAnswer{header: c.header}.write(w)
					return
				}
				rpcAnswer{body: []string{frame(0, "ok")}, trailer: status(grpccode.OK)}.write(w)
			})
			hc, d := client(t, with(eager(), func(p *policy.Policy) {
				p.Breaker.Off, p.Breaker.Observe, p.Trust, p.Safe = false, true, c.trust, c.safe
			}), base(t, s))
			began := time.Now()
			resp, err := hc.Do(request(t, "POST", s.URL, "x"))
			if err != nil {
				t.Fatal(err)
			}
			read(t, resp)
			if waited := time.Since(began); s.requests.Load() != c.requests || waited != c.waited || failures(d) != c.failures {
				t.Errorf("%d requests, waited %v, %d failures", s.requests.Load(), waited, failures(d))
			}
		})
	}
}

// The server of a stream hears of its caller's deadline, and can end it a moment before the caller.
func TestTheCallersDeadlineOfAStreamIsNoFailureOfTheServer(t *testing.T) {
	for _, c := range []struct {
		fact     string
		code     policy.GRPCCode
		ends     time.Duration // after the request
		failures int
	}{
		{"its end", grpccode.DeadlineExceeded, 9999 * time.Millisecond, 0},
		{"another deadline before it", grpccode.DeadlineExceeded, 5 * time.Second, 1},
		{"another failure at its end", grpccode.Unavailable, 9999 * time.Millisecond, 1},
	} {
		bubble(t, c.fact, func(t *testing.T) {
			s := servePipedH2(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/grpc")
				io.WriteString(w, frame(0, "news"))
				http.NewResponseController(w).Flush()
				select {
				case <-time.After(c.ends):
				case <-r.Context().Done():
				}
				w.Header().Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(int(c.code)))
			})
			hc, d := client(t, with(eager(), func(p *policy.Policy) { p.Breaker.Off, p.Breaker.Observe = false, true }), base(t, s))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			resp, err := hc.Do(request(t, "POST", s.URL, "x").WithContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			if got := read(t, resp); got != frame(0, "news") || failures(d) != c.failures {
				t.Errorf("%q, %d failures", got, failures(d))
			}
			gabiontest.NothingHeld(t, d)
		})
	}
}

// Streams of Connect tell it in the metadata of their last frame.
func TestWhatAServerOfConnectAsksFor(t *testing.T) {
	for _, c := range []struct {
		fact     string
		metadata string
		requests int32
	}{
		{"a refusal by a server of ours is repeated", `"gabion-refused":["queue-full"]`, 2},
		{"who gave up has done work", `"gabion-refused":["queue-full"],"gabion-gave-up":["x"]`, 1},
		{"a refusal without a value does not count", `"gabion-refused":[]`, 1},
	} {
		bubble(t, c.fact, func(t *testing.T) {
			s := servePipedH2(t, nil)
			s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				end := `{}`
				if s.requests.Add(1) == 1 {
					end = `{"error":{"code":"unavailable"},"metadata":{` + c.metadata + `}}`
				}
				rpcAnswer{kind: "application/connect+proto", body: []string{frame(2, end)}}.write(w)
			})
			hc, d := client(t, with(eager(), func(p *policy.Policy) { p.Trust = policy.Internal }), base(t, s))
			resp, err := hc.Do(request(t, "POST", s.URL, "x"))
			if err != nil {
				t.Fatal(err)
			}
			read(t, resp)
			if s.requests.Load() != c.requests {
				t.Errorf("%d requests", s.requests.Load())
			}
			gabiontest.NothingHeld(t, d)
		})
	}
}

// The error of a call whose last answer is gone says what that was.
func TestTheErrorTellsTheCodeOfGRPC(t *testing.T) {
	for code, want := range map[policy.GRPCCode]policy.Class{
		grpccode.Unavailable: policy.ClassServer, grpccode.Aborted: policy.ClassContention, grpccode.OK: policy.ClassServer,
	} {
		e := &gabionhttp.StatusError{Code: 503, GRPC: code}
		text := code.String()
		if code == grpccode.OK {
			text = "503 Service Unavailable"
		}
		if e.Error() != text || e.Outcome().Class != want {
			t.Errorf("%v: %q, %v", code, e, e.Outcome())
		}
	}
}
