package gabionproxy

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gabion-go/gabion/internal/adapter"
)

// chunks is a client's body that comes in pieces of those sizes and breaks off after cut bytes.
type chunks struct {
	left  []byte
	sizes []byte
	cut   int // negative means that it comes to its end
	turn  int
}

var errCut = errors.New("the client is gone")

func (c *chunks) Read(p []byte) (int, error) {
	if c.cut == 0 {
		return 0, errCut
	}
	if len(c.left) == 0 {
		return 0, io.EOF
	}
	n := 1
	if len(c.sizes) > 0 {
		n = int(c.sizes[c.turn%len(c.sizes)])
		if c.turn++; n == 0 && c.turn%2 == 0 { // a reader may bring nothing, but not for ever
			n = 1
		}
	}
	n = min(n, len(p), len(c.left))
	if c.cut > 0 {
		n = min(n, c.cut)
		c.cut -= n
	}
	copy(p, c.left[:n])
	c.left = c.left[n:]
	return n, nil
}

func (c *chunks) Close() error { return nil }

func pattern(n int) []byte {
	r, all := rand.New(rand.NewPCG(1, 2)), make([]byte, n)
	for i := range all {
		all[i] = byte(r.Uint32())
	}
	return all
}

// FuzzReplay plays one attempt after the other against the bytes themselves: whatever the pieces
// are in which the client sends, wherever it breaks off and wherever attempts do, each attempt
// has the body's beginning or all of it, and a body can be sent again exactly as long as no
// more went by than may be kept.
func FuzzReplay(f *testing.F) {
	f.Add(uint16(100), uint16(64), true, int16(-1), []byte{7, 1, 200}, []byte{3, 50, 255})
	f.Add(uint16(64), uint16(64), false, int16(-1), []byte{255}, []byte{255, 255})
	f.Add(uint16(65), uint16(64), false, int16(-1), []byte{64}, []byte{64, 65})
	f.Add(uint16(9000), uint16(8999), false, int16(-1), []byte{255, 0}, []byte{200, 10})
	f.Add(uint16(300), uint16(400), false, int16(120), []byte{50}, []byte{60, 255})
	f.Fuzz(func(t *testing.T, size, limit uint16, known bool, cut int16, sizes, stops []byte) {
		if len(stops) > 20 {
			return
		}
		all, pool := pattern(int(size)), roomFor(1<<20)
		r := &http.Request{Body: &chunks{left: all, sizes: sizes, cut: int(cut)}, ContentLength: -1}
		if known && size > 0 {
			r.ContentLength = int64(size)
		}
		end := io.EOF
		if cut >= 0 && int(cut) <= len(all) {
			all, end = all[:cut], errCut
		}
		b, out := pool.remember(r, int(limit)), new(http.Request)
		b.attach(out)
		body, most := out.Body, 0
		over := r.ContentLength > int64(limit) || limit == 0
		for i, stop := range stops {
			got, err := readSome(body, int(stop)*int(stop), i)
			most = max(most, len(got))
			if !bytes.Equal(got, all[:len(got)]) {
				t.Fatalf("attempt %d read other bytes than the client sent", i)
			}
			if err != nil && (err != end || len(got) != len(all)) {
				t.Fatalf("attempt %d ended with %v after %d of %d bytes", i, err, len(got), len(all))
			}
			over = over || most > int(limit)
			if i%2 == 0 {
				body.Close()
			}
			next, err := out.GetBody()
			if (err != nil) != (b.lost != nil) || over && err == nil {
				t.Fatalf("after %d bytes, %d are the limit: another body is refused with %v", most, limit, err)
			}
			if most < int(limit) && !over && err != nil {
				t.Fatalf("after %d bytes, %d are the limit: no other body: %v", most, limit, err)
			}
			if err != nil {
				break
			}
			body = next
		}
		if kept := pool.used.Load(); kept > int64(limit)+1 {
			t.Fatalf("%d bytes are kept", kept)
		}
		b.accept()
		b.end()
		if n := pool.used.Load(); n != 0 {
			t.Fatalf("%d bytes are still reserved", n)
		}
	})
}

// readSome reads at least n bytes, if there are any, by pieces that depend on the turn.
func readSome(r io.Reader, n, turn int) (got []byte, err error) {
	p := make([]byte, 1+turn*37)
	for len(got) < n && err == nil {
		var m int
		m, err = r.Read(p[:min(len(p), n-len(got))])
		got = append(got, p[:m]...)
	}
	return got, err
}

func roomFor(most int) *replays {
	p := new(replays)
	p.bound(most)
	return p
}

func remembered(pool *replays, body io.Reader, size int64, limit int) (*replay, *http.Request) {
	r := &http.Request{Body: io.NopCloser(body), ContentLength: size}
	b, out := pool.remember(r, limit), new(http.Request)
	b.attach(out)
	return b, out
}

func TestBodyOverTheLimitStreamsOn(t *testing.T) {
	all := pattern(1 << 20)
	for name, size := range map[string]int64{"length unknown": -1, "length known": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			pool := roomFor(1 << 30)
			b, out := remembered(pool, bytes.NewReader(all), size, 64<<10)
			got, err := io.ReadAll(out.Body)
			if err != nil || !bytes.Equal(got, all) {
				t.Fatalf("the first attempt got %d bytes and %v", len(got), err)
			}
			if _, err := out.GetBody(); err != errReplayOver || b.Fixed() != errReplayOver {
				t.Errorf("another body: %v", err)
			}
			if pool.used.Load() != 0 || pool.over.Load() != 1 {
				t.Errorf("%d bytes kept, %d bodies over the limit", pool.used.Load(), pool.over.Load())
			}
		})
	}
}

func TestFullPoolFailsNoAttempt(t *testing.T) {
	pool := roomFor(10 << 10)
	all := pattern(9 << 10)
	first, _ := remembered(pool, bytes.NewReader(all), int64(len(all)), 64<<10)
	second, out := remembered(pool, bytes.NewReader(all), int64(len(all)), 64<<10)
	third, chunked := remembered(pool, bytes.NewReader(all), -1, 64<<10)
	for _, body := range []io.Reader{out.Body, chunked.Body} {
		if got, err := io.ReadAll(body); err != nil || !bytes.Equal(got, all) {
			t.Errorf("an attempt without room got %d bytes and %v", len(got), err)
		}
	}
	if first.Fixed() != nil || second.Fixed() != errReplayFull || third.Fixed() != errReplayFull || pool.full.Load() != 2 {
		t.Errorf("fixed: %v, %v, %v", first.Fixed(), second.Fixed(), third.Fixed())
	}
	first.end()
	if pool.used.Load() != 0 {
		t.Errorf("%d bytes are reserved in the end", pool.used.Load())
	}
}

// The client stops in the middle. The first attempt waits for it when its time is over, and the
// next begins: it gets what came, and then what the first one's read brings.
func TestNextAttemptBeginsWhileTheLastReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, w := io.Pipe()
		pool := roomFor(1 << 20)
		b, out := remembered(pool, client, -1, 100)
		var old error
		var wg sync.WaitGroup
		wg.Go(func() { _, old = io.ReadAll(out.Body) })
		w.Write([]byte("half "))
		synctest.Wait()
		next, err := out.GetBody()
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		wg.Go(func() { got, err = io.ReadAll(next) })
		synctest.Wait()
		w.Write([]byte("and half"))
		w.Close()
		wg.Wait()
		if string(got) != "half and half" || err != nil || old != adapter.ErrBodyOver {
			t.Errorf("the next attempt got %q, %v; the last ended with %v", got, err, old)
		}
		if b.end() {
			t.Error("a reader is said to wait")
		}
	})
}

func TestCloseEndsAWaitForTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, w := io.Pipe()
		b, out := remembered(roomFor(1<<20), client, -1, 100)
		go out.Body.Read(make([]byte, 10))
		synctest.Wait()
		next, _ := out.GetBody()
		ended := make(chan error)
		go func() { _, err := next.Read(make([]byte, 10)); ended <- err }()
		synctest.Wait()
		next.Close()
		if err := <-ended; err != adapter.ErrBodyOver {
			t.Errorf("the read ended with %v", err)
		}
		if !b.end() {
			t.Error("no reader is said to wait for the client")
		}
		w.Close()
	})
}

func TestAcceptedAnswerFreesTheCopy(t *testing.T) {
	pool := roomFor(1 << 20)
	b, out := remembered(pool, strings.NewReader("the first part and the rest"), -1, 100)
	io.ReadFull(out.Body, make([]byte, 14))
	b.accept()
	if pool.used.Load() != 0 {
		t.Errorf("%d bytes are kept after the answer", pool.used.Load())
	}
	rest, err := io.ReadAll(out.Body)
	if string(rest) != " and the rest" || err != nil {
		t.Errorf("the rest was %q, %v", rest, err)
	}
	if _, err := out.GetBody(); err != errReplayAccepted {
		t.Errorf("another body: %v", err)
	}
}

// An attempt that is over may read the client's last bytes, and with them the trailers, while the next one writes its headers: those two do
// not share a map.
func TestTrailersWaitForTheAttemptThatEndsTheBody(t *testing.T) {
	client := &http.Request{ContentLength: -1, Trailer: http.Header{"Sum": nil}}
	began, came := make(chan bool), make(chan bool)
	client.Body = io.NopCloser(readerFunc(func([]byte) (int, error) {
		began <- true
		<-came
		client.Trailer["Sum"] = []string{"7"} // as net/http does it
		return 0, io.EOF
	}))
	var pool replays
	pool.bound(0)
	b := pool.remember(client, 100)
	defer b.end()
	out := *client
	b.attach(&out)
	first, over := out.Body, make(chan error)
	go func() {
		_, err := first.Read(make([]byte, 1))
		over <- err
	}()
	<-began
	second, err := out.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	came <- true
	if err := <-over; err != adapter.ErrBodyOver {
		t.Error("the first reader is not over:", err)
	}
	if lines, announced := out.Trailer["Sum"]; lines != nil || !announced {
		t.Errorf("the headers of the second attempt have the trailers %v", out.Trailer)
	}
	if _, err := second.Read(make([]byte, 1)); err != io.EOF || out.Trailer.Get("Sum") != "7" {
		t.Errorf("%v, and then %v", err, out.Trailer)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
