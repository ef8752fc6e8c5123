package machine

import (
	"math"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// A dryCase is what is said and sent, one after the other: each step is at a time in seconds.
type dryStep struct {
	at   float64
	do   string // empty, ask, good, refused: the latter two of an attempt that was sent at sent
	arg  float64
	want float64 // of ask: until when the call waits; its own time means that it goes
	news bool
}

func TestWhatIsSaidOfAnEmptyQuota(t *testing.T) {
	tests := []struct {
		name  string
		steps []dryStep
	}{
		{"the first word is tried at once, and others ask again soon", []dryStep{
			{at: 0, do: "empty", arg: 3, news: true}, {at: 1, do: "ask", want: 1}, {at: 1, do: "ask", want: 1.005}, {at: 1.1, do: "ask", want: 1.125},
		}},
		{"it was true: all wait until the time that was named", []dryStep{
			{at: 0, do: "empty", arg: 3, news: true}, {at: 1, do: "ask", want: 1}, {at: 1.5, do: "refused", arg: 1}, {at: 1.6, do: "ask", want: 3}, {at: 3, do: "ask", want: 3}, {at: 3, do: "ask", want: 3},
		}},
		{"then the next words are believed untried", []dryStep{
			{at: 0, do: "empty", arg: 3, news: true}, {at: 1, do: "ask", want: 1}, {at: 1.5, do: "refused", arg: 1}, {at: 3, do: "ask", want: 3},
			{at: 4, do: "empty", arg: 7, news: true}, {at: 5, do: "ask", want: 7}, {at: 7, do: "ask", want: 7},
		}},
		{"it was false: all go, and words count for nothing", []dryStep{
			{at: 0, do: "empty", arg: 3, news: true}, {at: 1, do: "ask", want: 1}, {at: 1.5, do: "good", arg: 1}, {at: 1.6, do: "ask", want: 1.6}, {at: 1.6, do: "empty", arg: 60}, {at: 1.7, do: "ask", want: 1.7},
		}},
		{"until the dependency refuses a call", []dryStep{
			{at: 0, do: "empty", arg: 3, news: true}, {at: 1, do: "ask", want: 1}, {at: 1.5, do: "good", arg: 1}, {at: 2, do: "refused", arg: 1.9}, {at: 3, do: "empty", arg: 5, news: true}, {at: 3, do: "ask", want: 3}, {at: 3, do: "ask", want: 3.005},
		}},
		{"an answer to what was sent before the word proves nothing", []dryStep{
			{at: 1, do: "empty", arg: 4, news: true}, {at: 1, do: "ask", want: 1}, {at: 1.5, do: "good", arg: 0.9}, {at: 1.6, do: "ask", want: 1.75}, {at: 1.8, do: "refused", arg: 0.9}, {at: 1.9, do: "ask", want: 2.125},
		}},
		{"a word for long is tried every five seconds", []dryStep{
			{at: 0, do: "empty", arg: 3600, news: true}, {at: 0, do: "ask", want: 0}, {at: 1, do: "refused", arg: 0}, {at: 1, do: "ask", want: 5}, {at: 5, do: "ask", want: 5}, {at: 5, do: "ask", want: 5.005}, {at: 6, do: "refused", arg: 5}, {at: 7, do: "ask", want: 10},
		}},
		{"a try that never comes back is waited for no longer than that", []dryStep{
			{at: 0, do: "empty", arg: 3600, news: true}, {at: 0, do: "ask", want: 0}, {at: 4.95, do: "ask", want: 5}, {at: 5.05, do: "ask", want: 5.05},
		}},
		{"of two words the later time counts", []dryStep{
			{at: 0, do: "empty", arg: 3, news: true}, {at: 0.5, do: "empty", arg: 4}, {at: 0.6, do: "empty", arg: 2}, {at: 0.7, do: "ask", want: 0.7}, {at: 0.8, do: "refused", arg: 0.7}, {at: 1, do: "ask", want: 4},
		}},
		{"a time that has passed is no word", []dryStep{{at: 3, do: "empty", arg: 3}, {at: 3, do: "ask", want: 3}}},
		{"a clock before zero", []dryStep{
			{at: -9, do: "empty", arg: -6, news: true}, {at: -8, do: "ask", want: -8}, {at: -7.5, do: "refused", arg: -8}, {at: -7, do: "ask", want: -6}, {at: -6, do: "ask", want: -6},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p pacer
			for i, s := range tt.steps {
				now, arg := atSecond(s.at), atSecond(s.arg)
				switch s.do {
				case "empty":
					if news := p.empty(now, arg, 5*time.Second); news != s.news {
						t.Fatalf("step %d: news %t", i, news)
					}
				case "ask":
					at, held := p.await(now, now.Add(6250*time.Millisecond), 5*time.Second, 0)
					if at != atSecond(s.want) || held != (s.want > s.at) {
						t.Fatalf("step %d: a call of %vs waits until %v, %t; want %vs", i, s.at, time.Duration(at), held, s.want)
					}
				case "good":
					p.accept(now, now.Sub(arg))
				case "refused":
					p.prove(now, arg)
				}
			}
		})
	}
}

func atSecond(s float64) clock.Instant {
	return clock.Instant(math.Round(s*1000)) * clock.Instant(time.Millisecond)
}

// Every word of sixteen that follow a refusal is believed, and the seventeenth is tried.
func TestTrustInWordsRunsOut(t *testing.T) {
	var p pacer
	p.empty(0, atSecond(1), 5*time.Second)
	p.await(0, atSecond(9), 5*time.Second, 0)
	p.prove(atSecond(0.5), 0)
	for i := range dryTrust + 1 {
		at := atSecond(float64(10 * (i + 1)))
		p.await(at, at+atSecond(9), 5*time.Second, 0)
		p.empty(at, at+atSecond(2), 5*time.Second)
		if _, held := p.await(at, at+atSecond(9), 5*time.Second, 0); held != (i < dryTrust) {
			t.Errorf("word %d is believed: %t", i+1, held)
		}
	}
}

// Those that wait are spread over a quarter of their wait.
func TestThoseThatWaitForAQuotaAreSpread(t *testing.T) {
	var p pacer
	p.empty(0, atSecond(4), 5*time.Second)
	p.await(0, atSecond(9), 5*time.Second, 0)
	p.prove(atSecond(0.1), 0)
	for u, want := range map[float64]float64{0: 4, 0.5: 4.5, 1: 5} {
		if at, _ := p.await(atSecond(1), atSecond(9), 5*time.Second, u); at != atSecond(want) {
			t.Errorf("u %v goes at %v, want %vs", u, time.Duration(at), want)
		}
	}
	if at, _ := p.await(atSecond(1), atSecond(4.5), 5*time.Second, 1); at != atSecond(4.5) {
		t.Errorf("a call goes at %v, which is after it can", time.Duration(at))
	}
}

// A call that has less time than those that wait ask after asks once more at its last moment.
func TestAHurriedCallAsksAtItsLastMoment(t *testing.T) {
	var p pacer
	p.empty(0, atSecond(60), 5*time.Second)
	p.await(0, atSecond(9), 5*time.Second, 0)
	if at, held := p.await(atSecond(1), atSecond(1.1), 5*time.Second, 0); at != atSecond(1.1) || !held {
		t.Errorf("it asks again at %v, %t", time.Duration(at), held)
	}
	if at, held := p.await(atSecond(1.1), atSecond(1.1), 5*time.Second, 0); at <= atSecond(1.1) || !held {
		t.Errorf("then it could wait until %v, %t", time.Duration(at), held)
	}
}
